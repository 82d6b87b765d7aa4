package client

import (
	"context"
	"net/http"

	"github.com/pawlhq/pawl/publish"
)

// Publish flips the pointer of a key to a generation. Repeating it is safe: the server replays a publish that it has
// carried out before. When no answer came at all the error is outcome-unknown.
func (c *Client) Publish(ctx context.Context, req publish.PublishRequest) (publish.Receipt, error) {
	body := struct {
		Final          bool              `json:"final"`
		Primary        publish.Path      `json:"primary,omitempty"`
		SourceRevision *int64            `json:"source_revision,omitempty"`
		Metadata       map[string]string `json:"metadata,omitempty"`
		ManifestDigest *publish.Digest   `json:"manifest_digest,omitempty"`
		Expect         []string          `json:"expect,omitempty"`
		AllowEmpty     bool              `json:"allow_empty,omitempty"`
		ReuseFrom      publish.Token     `json:"reuse_from,omitempty"`
		ReuseStale     bool              `json:"reuse_stale,omitempty"`
		Release        bool              `json:"release,omitempty"`
	}{
		Final: req.Final, Primary: req.Primary, SourceRevision: req.SourceRevision, Metadata: req.Metadata,
		ManifestDigest: req.ManifestDigest, Expect: req.Expect, AllowEmpty: req.AllowEmpty, ReuseFrom: req.ReuseFrom, ReuseStale: req.ReuseStale, Release: req.Release,
	}
	header := http.Header{}
	if req.IfMatch != nil {
		header.Set("If-Match", etag(*req.IfMatch))
	}
	if req.IfNoneMatch {
		header.Set("If-None-Match", "*")
	}
	var receipt publish.Receipt
	err := c.do(ctx, call{
		what: "publish", method: http.MethodPost, lease: req.Grant.LeaseID, header: header, body: body, into: &receipt,
		url: c.keyURL(req.Grant.Key, generationPath(req.Grant.Token)+"/publish", nil), changes: true,
	})
	return receipt, err
}

// etag writes a version as an entity tag (RFC 9110, 8.8.3).
func etag(v publish.Version) string { return `"` + v.String() + `"` }
