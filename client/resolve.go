package client

import (
	"context"
	"net/http"

	"github.com/pawlhq/pawl/publish"
)

// Resolve looks up to publish.MaxResolveKeys keys up at one point in time. The answer has one entry for each, in their
// order; one without a current version is not Found, which is no error.
func (c *Client) Resolve(ctx context.Context, keys []publish.Key) ([]publish.Resolved, error) {
	body := struct {
		Keys []publish.Key `json:"keys"`
	}{keys}
	var answer struct {
		Keys []publish.Resolved `json:"keys"`
	}
	err := c.do(ctx, call{what: "resolve", method: http.MethodPost, url: c.base + "/v1/resolve", body: body, into: &answer})
	return answer.Keys, err
}
