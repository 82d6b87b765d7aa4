package web

import (
	"net/http"
	"strings"

	"github.com/pawlhq/pawl/publish"
)

// The headers of Pawl's own.
const (
	headerLease        = "Pawl-Lease"
	headerToken        = "Pawl-Token"
	headerSupersededBy = "Pawl-Superseded-By"
)

// grant gives what a changing call must name: the key and token of its URL and the lease id of its header.
func (c *call) grant() (publish.Grant, error) {
	id, err := leaseID(c.Request().Header)
	if err != nil {
		return publish.Grant{}, err
	}
	if id.IsZero() {
		return publish.Grant{}, &publish.Error{
			Code: publish.ErrLeaseRequired, Key: c.key, Token: c.token,
			Detail: "send the lease_id of the grant in the header " + headerLease,
		}
	}
	return publish.Grant{Key: c.key, Token: c.token, LeaseID: id}, nil
}

// leaseID reads Pawl-Lease, which may be absent. The error never repeats its text: that may be a secret.
func leaseID(header http.Header) (publish.LeaseID, error) {
	values := header.Values(headerLease)
	if len(values) == 0 {
		return publish.LeaseID{}, nil
	}
	if len(values) > 1 {
		return publish.LeaseID{}, publish.InvalidField(publish.ErrInvalidRequest, headerLease, "stands twice; send it once")
	}
	id, err := publish.ParseLeaseID(values[0])
	if err != nil {
		return publish.LeaseID{}, publish.InvalidField(publish.ErrInvalidRequest, headerLease, "must be the 32 hex digits of a lease_id")
	}
	return id, nil
}

// reprDigest formats a digest for Repr-Digest.
func reprDigest(d publish.Digest) string {
	return "sha-256=" + d.ByteSequence()
}

// pointerTag is the ETag of a version of a key.
func pointerTag(v publish.Version) string { return `"` + v.String() + `"` }

// preconditions reads If-Match and If-None-Match of a publish.
func preconditions(header http.Header) (match *publish.Version, none bool, err error) {
	if values := header.Values("If-Match"); len(values) > 0 {
		version, ok := taggedVersion(strings.Join(values, ","))
		if !ok {
			return nil, false, publish.InvalidField(publish.ErrInvalidRequest, "If-Match", `must name one version, like "17.1"`)
		}
		match = &version
	}
	if values := header.Values("If-None-Match"); len(values) > 0 {
		if strings.TrimSpace(strings.Join(values, ",")) != "*" {
			return nil, false, publish.InvalidField(publish.ErrInvalidRequest, "If-None-Match", "must be *, which publishes only if the key has no pointer yet")
		}
		none = true
	}
	return match, none, nil
}

// seenVersions reads the If-None-Match of a reader: the versions it has, and whether any version will do. Tags
// of another form than ours match nothing.
func seenVersions(header http.Header) (seen []publish.Version, wildcard bool) {
	for tag := range strings.SplitSeq(strings.Join(header.Values("If-None-Match"), ","), ",") {
		if strings.TrimSpace(tag) == "*" {
			return nil, true
		}
		if version, ok := taggedVersion(tag); ok {
			seen = append(seen, version)
		}
	}
	return seen, false
}

// taggedVersion reads an entity tag. A proxy that compresses weakens tags (W/"17.1"), so that form is taken back.
func taggedVersion(tag string) (publish.Version, bool) {
	inner, opened := strings.CutPrefix(strings.TrimPrefix(strings.TrimSpace(tag), "W/"), `"`)
	inner, closed := strings.CutSuffix(inner, `"`)
	version, err := publish.ParseVersion(inner)
	return version, opened && closed && err == nil
}
