package web

import (
	"net/url"
	"strings"

	"github.com/pawlhq/pawl/publish"
)

// fileOf finds the file of a permanent address: as the revision of its query names it, or else as the generation's last published one
// does. Other parameters are passed over: people append them to addresses of images to get around caches.
//
// Only an address with a revision stays the same while the generation is open. But relative links inside a file lose
// the query, so what Pawl redirects to doesn't carry it: a player of a live stream would mix its playlist's revision with
// the newest segments.
func (h *Handler) fileOf(c *call, id publish.LeaseID) (publish.StoredFile, error) {
	query, err := url.ParseQuery(c.Request().URL.RawQuery)
	if err != nil && strings.Contains(c.Request().URL.RawQuery, "revision") {
		return publish.StoredFile{}, publish.InvalidField(publish.ErrInvalidRequest, "query", "is not well-formed; percent-encode its values, & and ; too")
	}
	if len(query["revision"]) > 1 {
		return publish.StoredFile{}, publish.InvalidField(publish.ErrInvalidRequest, "revision", "stands twice; send it once")
	}
	revision, err := revisionOf(query)
	if err != nil {
		return publish.StoredFile{}, err
	}
	ctx := c.Request().Context()
	if revision == 0 {
		return h.service.File(ctx, c.key, c.token, c.path, id)
	}
	return h.service.FileAt(ctx, c.key, publish.Version{Token: c.token, Revision: revision}, c.path)
}

// revisionOf reads a revision; 0 means that the query has none.
func revisionOf(query url.Values) (int64, error) {
	if !query.Has("revision") {
		return 0, nil
	}
	// Revisions have the form of tokens.
	revision, err := publish.ParseToken(query.Get("revision"))
	if err != nil {
		return 0, publish.InvalidField(publish.ErrInvalidRequest, "revision", "must be an integer from 1 to 9007199254740991, in digits alone")
	}
	return int64(revision), nil
}
