package main

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"

	"golang.org/x/text/cases"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/publish"
)

// findVersion finds what get reads: the current version, or the newest revision of a token.
func findVersion(ctx context.Context, c *client.Client, key publish.Key, token publish.Token) (publish.Pointer, error) {
	if token == 0 {
		return c.Pointer(ctx, key)
	}
	generation, err := c.Generation(ctx, key, token)
	switch {
	case err != nil:
		return publish.Pointer{}, err
	case generation.State == publish.StateCondemned || generation.State == publish.StateCollected:
		return publish.Pointer{}, refusedError{fmt.Errorf("token %d of %s was given up by the retention policy", token, key)}
	case len(generation.Receipts) == 0:
		return publish.Pointer{}, refusedError{fmt.Errorf("token %d of %s has published nothing yet", token, key)}
	}
	r := generation.Receipts[0] // the newest
	return publish.Pointer{
		Key: key, Token: token, Revision: r.Revision, ManifestDigest: r.ManifestDigest, Final: generation.State == publish.StateSealed,
		Primary: r.Primary, Files: r.Files, Bytes: r.Bytes, PublishedAt: r.PublishedAt, Publisher: r.Publisher,
	}, nil
}

// listing is the manifest of a version, as it came from the server and was checked.
type listing struct {
	publish.Pointer
	files []publish.File
}

// list reads a version's manifest, and proves by its digest that it is whole.
func list(ctx context.Context, c *client.Client, version publish.Pointer) (listing, error) {
	l := listing{Pointer: version}
	l.Bytes = 0
	for file, err := range c.AllFiles(ctx, version.Key, version.Version()) {
		if errors.Is(err, client.ErrHostileName) {
			return listing{}, refusedError{fmt.Errorf("%w; nothing was written", err)}
		}
		if err != nil {
			return listing{}, err
		}
		if file.SHA256.IsZero() || int64(len(l.files)) == version.Files {
			return listing{}, &publish.Error{
				Code: publish.ErrDigestMismatch, Path: file.Path, Detail: "the list of files is not the published one: it has a file too many, or one without a digest",
			}
		}
		l.files = append(l.files, file)
		l.Bytes += file.Size
	}
	l.Files = int64(len(l.files))
	if digest := publish.ManifestDigest(l.files); digest != version.ManifestDigest {
		return listing{}, &publish.Error{
			Code: publish.ErrDigestMismatch, Detail: "the list of files is not the published one",
			Promised: version.ManifestDigest.String(), Came: digest.String(),
		}
	}
	return l, nil
}

// checkNames refuses names that can't be files in one folder, before anything is written. A manifest is data from elsewhere: a path
// in it may have been made to write outside (case 36); and a store keeps "a" beside "a/b", which no disk does (case 37). folded says that the
// disk doesn't tell upper from lower case.
func (l listing) checkNames(folded bool) error {
	form := func(name string) string { return name }
	if folded {
		fold := cases.Fold()
		form = fold.String
	}
	files := make(map[string]publish.Path, len(l.files))
	for _, file := range l.files {
		name := string(file.Path)
		if _, err := publish.ParsePath(name); err != nil || file.Size < 0 || !filepath.IsLocal(filepath.FromSlash(name)) {
			return refusedError{fmt.Errorf("the published name %+q can't be a file in a folder; nothing was written", file.Path)}
		}
		if other, taken := files[form(name)]; taken {
			return clash(other, file.Path)
		}
		files[form(name)] = file.Path
	}
	for _, file := range l.files {
		for dir := path.Dir(string(file.Path)); dir != "."; dir = path.Dir(dir) {
			if other, taken := files[form(dir)]; taken {
				return clash(other, file.Path)
			}
		}
	}
	return nil
}

func clash(a, b publish.Path) error {
	return refusedError{fmt.Errorf("%q and %q can't both be in one folder on this disk; get them one by one with --path and -o. Nothing was written", a, b)}
}
