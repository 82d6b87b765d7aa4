package web

import (
	"math"
	"net/http"
	"net/url"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// policies shows a page of policies.
func (h *Handler) policies(c *call) error {
	query, err := c.query("after", "limit")
	if err != nil {
		return err
	}
	limit, err := limitOf(query)
	if err != nil {
		return err
	}
	after, err := afterPolicy(query)
	if err != nil {
		return err
	}
	page, err := h.service.Policies(c.Request().Context(), c.reach(), after, limit)
	if err != nil {
		return err
	}
	page.Policies = notNil(page.Policies)
	return respond(c, http.StatusOK, page)
}

// afterPolicy reads behind which prefix a page of policies begins; nil is the first page. The empty prefix is one, too.
func afterPolicy(query url.Values) (*string, error) {
	if !query.Has("after") {
		return nil, nil
	}
	prefix, err := parsePrefix("after", query.Get("after"))
	return &prefix, err
}

// policyLimits are the members of a policy that are numbers, and those that are durations, by their names in requests. In all of them 0 stands for no limit.
func policyLimits(policy *publish.Policy) (limits map[string]*int64, spans map[string]*time.Duration) {
	limits = map[string]*int64{
		"keep_generations": &policy.KeepGenerations, "max_file_bytes": &policy.MaxFileBytes, "max_generation_bytes": &policy.MaxGenerationBytes,
	}
	spans = map[string]*time.Duration{
		"keep_for": &policy.KeepFor.Duration, "keep_unpublished_for": &policy.KeepUnpublishedFor.Duration, "max_ttl": &policy.MaxTTL.Duration,
	}
	return limits, spans
}

// setPolicy replaces the policy of a prefix, and answers with it.
func (h *Handler) setPolicy(c *call) error {
	prefix, by, err := c.policyPrefix()
	if err != nil {
		return err
	}
	policy := publish.Policy{Prefix: prefix, FenceMode: publish.FenceAccepted}
	limits, spans := policyLimits(&policy)
	into := members{"fence_mode": (*string)(&policy.FenceMode)}
	const absent = math.MinInt64
	for name, limit := range limits {
		*limit, into[name] = absent, limit
	}
	for name, span := range spans {
		*span, into[name] = absent, span
	}
	if err := readJSON(c, into); err != nil {
		return err
	}
	// 0 is refused: somebody may mean "nothing" by it, and somebody else "no limit".
	for name, limit := range limits {
		switch *limit {
		case 0:
			return noLimit(name)
		case absent:
			*limit = 0
		}
	}
	for name, span := range spans {
		switch *span {
		case 0:
			return noLimit(name)
		case absent:
			*span = 0
		}
	}
	if err := h.service.SetPolicy(c.Request().Context(), policy, by); err != nil {
		return err
	}
	return respond(c, http.StatusOK, policy)
}

func noLimit(name string) error {
	return publish.InvalidField(publish.ErrInvalidRequest, "/"+name, "must not be 0; leave it out for no limit")
}

// unsetPolicy removes the policy of a prefix. Repeating it is no error.
func (h *Handler) unsetPolicy(c *call) error {
	prefix, by, err := c.policyPrefix()
	if err != nil {
		return err
	}
	if err := h.service.UnsetPolicy(c.Request().Context(), prefix, by); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// policyPrefix reads which policy a call is about, and who asks. The prefix of all keys is empty, so it can't stand in a path.
func (c *call) policyPrefix() (string, publish.Operator, error) {
	query, err := c.query("prefix")
	if err != nil {
		return "", "", err
	}
	if !query.Has("prefix") {
		return "", "", publish.InvalidField(publish.ErrInvalidRequest, "prefix", "is missing; ?prefix= is the policy of all keys")
	}
	prefix, err := parsePrefix("prefix", query.Get("prefix"))
	if err != nil {
		return "", "", err
	}
	if err := c.requireUnder(publish.VerbAdmin, prefix); err != nil {
		return "", "", err
	}
	by, _, err := c.operator()
	return prefix, by, err
}
