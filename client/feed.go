package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/pawlhq/pawl/publish"
)

// Rejections returns one page of stale requests that were refused, the one that came last first. Limit 0 leaves the size of the page to the server.
// A page with a Next may hold fewer rows than its limit, and none.
func (c *Client) Rejections(ctx context.Context, req publish.RejectionsRequest) (publish.RejectionsPage, error) {
	var page publish.RejectionsPage
	err := c.do(ctx, call{
		what: "rejections", method: http.MethodGet, url: c.feedURL("rejections", feedQuery(req.Prefix, req.After, req.Limit)), into: &page,
	})
	return page, err
}

// Leases returns one page of leases, the newest grant first, as Rejections does.
func (c *Client) Leases(ctx context.Context, req publish.LeasesRequest) (publish.LeasesPage, error) {
	query := feedQuery(req.Prefix, req.After, req.Limit)
	if req.Expired {
		query.Set("expired", "true")
	}
	var page publish.LeasesPage
	err := c.do(ctx, call{what: "leases", method: http.MethodGet, url: c.feedURL("leases", query), into: &page})
	return page, err
}

func (c *Client) feedURL(name string, query url.Values) string {
	return c.base + "/v1/" + name + "?" + query.Encode()
}

func feedQuery(prefix, after string, limit int) url.Values {
	query := url.Values{}
	for name, value := range map[string]string{"prefix": prefix, "after": after} {
		if value != "" {
			query.Set(name, value)
		}
	}
	setLimit(query, limit)
	return query
}
