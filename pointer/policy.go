package pointer

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// policyRow is a row of pawl.policies. Null and 0 are no limit.
type policyRow struct {
	Prefix               string            `json:"prefix"`
	FenceMode            publish.FenceMode `json:"fence_mode"`
	KeepGenerations      int64             `json:"keep_generations,omitempty"`
	KeepForMS            int64             `json:"keep_for_ms,omitempty"`
	KeepUnpublishedForMS int64             `json:"keep_unpublished_for_ms,omitempty"`
	MaxTTLMS             int64             `json:"max_ttl_ms,omitempty"`
	MaxFileBytes         int64             `json:"max_file_bytes,omitempty"`
	MaxGenerationBytes   int64             `json:"max_generation_bytes,omitempty"`
}

func (r policyRow) policy() publish.Policy {
	span := func(ms int64) publish.Duration {
		return publish.Duration{Duration: time.Duration(ms) * time.Millisecond}
	}
	return publish.Policy{
		Prefix: r.Prefix, FenceMode: r.FenceMode, KeepGenerations: r.KeepGenerations, KeepFor: span(r.KeepForMS),
		KeepUnpublishedFor: span(r.KeepUnpublishedForMS), MaxTTL: span(r.MaxTTLMS),
		MaxFileBytes: r.MaxFileBytes, MaxGenerationBytes: r.MaxGenerationBytes,
	}
}

// Of the prefixes that lie above a reach each is looked up, and of those in it as many as the page holds.
const policiesSQL = `
SELECT coalesce(jsonb_agg(to_jsonb(p) ORDER BY p.prefix), '[]')
FROM (SELECT * FROM (
		SELECT p.* FROM unnest($1::text[], $2::text[]) s (lower, upper) CROSS JOIN LATERAL (
			SELECT * FROM pawl.policies WHERE prefix >= s.lower AND prefix < s.upper AND ($4::text IS NULL OR prefix > $4) ORDER BY prefix LIMIT $5) p
		UNION ALL SELECT * FROM pawl.policies WHERE prefix = ANY ($3::text[]) AND NOT pawl.in_ranges(prefix, $1, $2) AND ($4::text IS NULL OR prefix > $4)) found
	ORDER BY prefix LIMIT $5) p`

// Policies returns one page of the policies that hold for any key of a reach.
func (s *Store) Policies(ctx context.Context, reach publish.Reach, after *string, limit int) (publish.PolicyPage, error) {
	from, to := ranges(reach, "")
	var rows []policyRow
	if _, err := s.read(ctx, &rows, policiesSQL, from, to, reach.Above(), after, limit+1); err != nil {
		return publish.PolicyPage{}, err
	}
	page := publish.PolicyPage{Policies: []publish.Policy{}}
	if len(rows) > limit {
		rows = rows[:limit]
		page.Next = &rows[limit-1].Prefix
	}
	for _, row := range rows {
		page.Policies = append(page.Policies, row.policy())
	}
	return page, nil
}

const setPolicySQL = `SELECT pawl.set_policy(jsonb_populate_record(NULL::pawl.policies, $1::jsonb), $2)`

// SetPolicy replaces the policy of a prefix.
func (s *Store) SetPolicy(ctx context.Context, p publish.Policy, by publish.Operator) error {
	row, err := json.Marshal(policyRow{
		Prefix: p.Prefix, FenceMode: p.FenceMode, KeepGenerations: p.KeepGenerations, KeepForMS: p.KeepFor.Milliseconds(),
		KeepUnpublishedForMS: p.KeepUnpublishedFor.Milliseconds(), MaxTTLMS: p.MaxTTL.Milliseconds(),
		MaxFileBytes: p.MaxFileBytes, MaxGenerationBytes: p.MaxGenerationBytes,
	})
	if err != nil {
		return fmt.Errorf("writing a policy: %w", err)
	}
	_, err = s.change(ctx, setPolicySQL, string(row), string(by))
	return err
}

const unsetPolicySQL = `SELECT pawl.unset_policy($1, $2)`

// UnsetPolicy removes the policy of a prefix.
func (s *Store) UnsetPolicy(ctx context.Context, prefix string, by publish.Operator) error {
	_, err := s.change(ctx, unsetPolicySQL, prefix, string(by))
	return err
}
