package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/pawlhq/pawl/publish"
)

// Policies returns one page of policies by their prefixes: those that follow after, nil being from the first on.
func (c *Client) Policies(ctx context.Context, after *string, limit int) (publish.PolicyPage, error) {
	query := url.Values{}
	if after != nil {
		query.Set("after", *after)
	}
	setLimit(query, limit)
	var page publish.PolicyPage
	err := c.do(ctx, call{what: "policies", method: http.MethodGet, url: c.base + "/v1/policies?" + query.Encode(), into: &page})
	return page, err
}

// SetPolicy replaces the policy of its prefix.
func (c *Client) SetPolicy(ctx context.Context, policy publish.Policy, by publish.Operator) error {
	body := struct {
		publish.Policy
		Prefix *string `json:"prefix,omitempty"` // It stands in the address.
	}{Policy: policy}
	return c.do(ctx, call{
		what: "set policy", method: http.MethodPut, url: c.policyURL(policy.Prefix), header: actor(by), body: body, changes: true,
	})
}

// UnsetPolicy removes the policy of a prefix. A prefix that has none is left as it is.
func (c *Client) UnsetPolicy(ctx context.Context, prefix string, by publish.Operator) error {
	return c.do(ctx, call{what: "unset policy", method: http.MethodDelete, url: c.policyURL(prefix), header: actor(by), changes: true})
}

func (c *Client) policyURL(prefix string) string {
	return c.base + "/v1/policies?" + url.Values{"prefix": {prefix}}.Encode()
}

// Audit returns one page of what people changed, and were refused, newest first. The request has no Reach: entries are those that the credential may see.
func (c *Client) Audit(ctx context.Context, req publish.AuditRequest) (publish.AuditPage, error) {
	query := url.Values{}
	if req.Before != 0 {
		query.Set("before", strconv.FormatInt(req.Before, 10))
	}
	if req.Prefix != "" {
		query.Set("prefix", req.Prefix)
	}
	if req.Only != "" {
		query.Set("only", string(req.Only))
	}
	setLimit(query, req.Limit)
	var page publish.AuditPage
	err := c.do(ctx, call{what: "audit", method: http.MethodGet, url: c.base + "/v1/audit?" + query.Encode(), into: &page})
	return page, err
}
