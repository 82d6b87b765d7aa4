package web

import (
	"net/http"
	"regexp"
	"strings"

	"github.com/pawlhq/pawl/publish"
)

// digestMember is a member of Repr-Digest: an algorithm and a byte sequence, with parameters that say nothing here (RFC 9530,
// section 2, and RFC 8941).
var digestMember = regexp.MustCompile(`^([A-Za-z*][A-Za-z0-9_.*-]*)=(:[A-Za-z0-9+/=]*:)(?:;.*)?$`)

// promisedDigest reads the SHA-256 of Repr-Digest and Content-Digest, which are equal for a whole body without
// content coding; zero means that none was promised. Other algorithms may stand beside it and are passed over. A header
// without it is refused, as with a misspelt sha256: the client believes that its bytes are checked.
func promisedDigest(header http.Header) (publish.Digest, error) {
	var promised publish.Digest
	for _, name := range []string{"Repr-Digest", "Content-Digest"} {
		values := header.Values(name)
		if len(values) == 0 {
			continue
		}
		digest, why := sha256Of(strings.Join(values, ","))
		if why != "" {
			return publish.Digest{}, publish.InvalidField(publish.ErrInvalidRequest, name, why)
		}
		if digest.IsZero() {
			return publish.Digest{}, brokenPromise(digest)
		}
		if !promised.IsZero() && promised != digest {
			return publish.Digest{}, publish.InvalidField(publish.ErrInvalidRequest, name, twoDigests)
		}
		promised = digest
	}
	return promised, nil
}

const twoDigests = "promises two different SHA-256 values; send one"

// sha256Of finds the SHA-256 in a list of digests, or says what is wrong with the list.
func sha256Of(list string) (digest publish.Digest, why string) {
	found := false
	for member := range strings.SplitSeq(list, ",") {
		parts := digestMember.FindStringSubmatch(strings.TrimSpace(member))
		if parts == nil {
			return digest, "must look like sha-256=:<base64 of the 32 bytes>:"
		}
		if !strings.EqualFold(parts[1], "sha-256") {
			continue
		}
		this, ok := publish.ParseByteSequence(parts[2])
		switch {
		case !ok:
			return digest, "must look like sha-256=:<base64 of the 32 bytes>:"
		case found && this != digest:
			return digest, twoDigests
		}
		digest, found = this, true
	}
	if !found {
		return digest, "has no algorithm that is checked here; send sha-256=:<base64 of the 32 bytes>:, alone or beside others, or leave the header out"
	}
	return digest, ""
}

// brokenPromise refuses a digest that no bytes have without reading them: all zeros, which elsewhere stands for no promise.
func brokenPromise(digest publish.Digest) error {
	return &publish.Error{
		Code: publish.ErrDigestMismatch, Promised: digest.String(),
		Detail: "the promised SHA-256 is all zeros, which no bytes have; nothing was stored. Send the real one",
	}
}
