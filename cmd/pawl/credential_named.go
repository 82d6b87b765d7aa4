package main

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/pawlhq/pawl/publish"
)

const namedHelp = "A NAME is that of the one which is good and was not rotated. What has 16 hex digits is taken for an id."

// named finds the credential that an id or a name on a command line means. A name belongs to one at a time, so that the same command line does for each rotation.
func named(ctx context.Context, keeper credentialKeeper, text string) (publish.CredentialID, error) {
	if id, err := publish.ParseCredentialID(text); err == nil {
		return id, nil
	}
	var found []string
	for c, err := range everyCredential(ctx, keeper) {
		if err != nil {
			return "", err
		}
		if c.Name == text && c.Good() && c.ReplacedBy == "" {
			found = append(found, string(c.ID))
		}
	}
	switch len(found) {
	case 0:
		return "", &publish.Error{Code: publish.ErrNotFound, Operation: publish.OperationCredential, Detail: fmt.Sprintf(
			"no credential of the name %q is good, and %[1]q is no id, which has 16 hex digits; see: pawl credential ls --all", text)}
	case 1:
		return publish.CredentialID(found[0]), nil
	}
	// Somebody has rotated or made one while the pages were read.
	return "", usageError{fmt.Errorf("several credentials have the name %q: %s; name one of them by its id", text, strings.Join(found, ", "))}
}

// everyCredential reads all that there are, page after page. An error ends it.
func everyCredential(ctx context.Context, keeper credentialKeeper) iter.Seq2[publish.Credential, error] {
	return func(yield func(publish.Credential, error) bool) {
		for after := publish.CredentialID(""); ; {
			page, err := keeper.Credentials(ctx, after)
			if err != nil {
				yield(publish.Credential{}, err)
				return
			}
			for _, c := range page.Credentials {
				if !yield(c, nil) {
					return
				}
			}
			if after = page.Next; after == "" {
				return
			}
		}
	}
}
