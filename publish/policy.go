package publish

import (
	"context"
	"encoding/json"
	"math"
	"strings"
	"time"
)

// Policy is what holds for all keys that are Prefix or lie below it, "" being every key's. Of several the one
// with the longest prefix says what holds, but for the limits, MaxTTL, MaxFileBytes and MaxGenerationBytes: of these the least holds, so that a
// policy for fewer keys lifts none that was set for more.
type Policy struct {
	Prefix    string    `json:"prefix"`
	FenceMode FenceMode `json:"fence_mode"`
	// KeepGenerations and KeepFor say how many published generations, and for how long after they were superseded, are kept beside the
	// current one: a generation that either of them keeps is kept, and if neither is set all are, for ever. KeepUnpublishedFor says how long a generation
	// is kept that never was published, after the last upload; 0 is DefaultKeepUnpublished.
	KeepGenerations    int64    `json:"keep_generations,omitempty"`
	KeepFor            Duration `json:"keep_for,omitzero"`
	KeepUnpublishedFor Duration `json:"keep_unpublished_for,omitzero"`
	// MaxTTL bounds the lease that a request may ask for: longer ones are refused. 0 is MaxTTL of the package.
	MaxTTL Duration `json:"max_ttl,omitzero"`
	// MaxFileBytes bounds one file, MaxGenerationBytes the files that one generation has uploaded, at its publish. Files that it carries over
	// take no space. 0 is no limit beside the server's own.
	MaxFileBytes       int64 `json:"max_file_bytes,omitempty"`
	MaxGenerationBytes int64 `json:"max_generation_bytes,omitempty"`
}

// Duration is a time span whose JSON form is a text such as "720h0m0s".
type Duration struct{ time.Duration }

// MarshalJSON writes the text.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// UnmarshalJSON reads what MarshalJSON writes.
func (d *Duration) UnmarshalJSON(data []byte) (err error) {
	var text string
	if err = json.Unmarshal(data, &text); err == nil {
		d.Duration, err = time.ParseDuration(text)
	}
	return err
}

// PolicyPage is one page of policies, by their prefixes in byte order.
type PolicyPage struct {
	Policies []Policy `json:"policies"`
	// Next is the after of the next page, nil on the last one. The empty prefix is one, too.
	Next *string `json:"next,omitempty"`
}

// PolicyStore is the part of PointerStore that keeps policies. A policy is in force for every request
// that starts after its call has returned.
type PolicyStore interface {
	// Policies returns those that hold for any key of the reach and whose prefix follows after; nil is from the first on.
	Policies(ctx context.Context, reach Reach, after *string, limit int) (PolicyPage, error)
	// SetPolicy replaces the policy of its prefix. UnsetPolicy removes it; a prefix that has none is left as it is.
	SetPolicy(ctx context.Context, policy Policy, by Operator) error
	UnsetPolicy(ctx context.Context, prefix string, by Operator) error
}

func (p Policy) validate() error {
	if err := validatePolicyPrefix(p.Prefix); err != nil {
		return err
	}
	if p.FenceMode != FenceAccepted && p.FenceMode != FenceGranted {
		return invalid("/fence_mode", `must be "accepted" or "granted"`)
	}
	for _, limit := range []struct {
		pointer     string
		value, most int64
	}{
		{"/keep_generations", p.KeepGenerations, math.MaxInt32},
		{"/max_file_bytes", p.MaxFileBytes, int64(MaxToken)},
		{"/max_generation_bytes", p.MaxGenerationBytes, int64(MaxToken)},
	} {
		if limit.value < 0 || limit.value > limit.most {
			return invalid(limit.pointer, "must be an integer from 1 to %d, or absent", limit.most)
		}
	}
	for pointer, d := range map[string]Duration{"/keep_for": p.KeepFor, "/keep_unpublished_for": p.KeepUnpublishedFor} {
		if d.Duration < 0 || d.Duration != 0 && d.Duration < time.Second {
			return invalid(pointer, `must be 1s or longer, such as "720h", or absent`)
		}
	}
	if p.MaxTTL.Duration != 0 && (p.MaxTTL.Duration < MinTTL || p.MaxTTL.Duration > MaxTTL) {
		return invalid("/max_ttl", "must be from %s to %s, or absent", MinTTL, MaxTTL)
	}
	return nil
}

// validatePolicyPrefix takes what can be a key, and "".
func validatePolicyPrefix(prefix string) error {
	if trimmed, slash := strings.CutSuffix(prefix, "/"); slash {
		return invalid("prefix", "must not end with a slash: a policy is for the key %q and all below it", trimmed)
	}
	if why := nameFault(prefix, false); prefix != "" && why != "" {
		return invalid("prefix", "%s", why)
	}
	return nil
}

// Policies returns one page of the policies that hold for any key of a reach.
func (s *Service) Policies(ctx context.Context, reach Reach, after *string, limit int) (PolicyPage, error) {
	limit, err := pageLimit(limit)
	if err != nil {
		return PolicyPage{}, err
	}
	page, err := s.Pointers.Policies(ctx, reach, after, limit)
	return page, s.refused(ctx, err)
}

// SetPolicy replaces the policy of a prefix; see PolicyStore.
func (s *Service) SetPolicy(ctx context.Context, policy Policy, by Operator) error {
	if err := policy.validate(); err != nil {
		return err
	}
	if err := by.validate(); err != nil {
		return err
	}
	return s.refused(ctx, s.Pointers.SetPolicy(ctx, policy, by))
}

// UnsetPolicy removes the policy of a prefix.
func (s *Service) UnsetPolicy(ctx context.Context, prefix string, by Operator) error {
	if err := validatePolicyPrefix(prefix); err != nil {
		return err
	}
	if err := by.validate(); err != nil {
		return err
	}
	return s.refused(ctx, s.Pointers.UnsetPolicy(ctx, prefix, by))
}
