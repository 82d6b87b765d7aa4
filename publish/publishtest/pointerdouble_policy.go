package publishtest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// Policies returns one page of policies; see publish.PolicyStore.
func (p *Pointers) Policies(ctx context.Context, reach publish.Reach, after *string, limit int) (publish.PolicyPage, error) {
	return transact(ctx, p, "Policies", "", func(time.Time) (publish.PolicyPage, error) {
		prefixes := slices.DeleteFunc(slices.Sorted(maps.Keys(p.policies)), func(prefix string) bool {
			return after != nil && prefix <= *after || !reach.Meets(prefix)
		})
		prefixes, more := page(prefixes, limitOr(limit))
		result := publish.PolicyPage{Policies: []publish.Policy{}}
		for _, prefix := range prefixes {
			result.Policies = append(result.Policies, p.policies[prefix])
		}
		if more {
			result.Next = &prefixes[len(prefixes)-1]
		}
		return result, nil
	})
}

// SetPolicy replaces the policy of a prefix; see publish.PolicyStore.
func (p *Pointers) SetPolicy(ctx context.Context, policy publish.Policy, by publish.Operator) error {
	_, err := transact(ctx, p, "SetPolicy", "", func(now time.Time) (struct{}, error) {
		if before, there := p.policies[policy.Prefix]; !there {
			p.note(now, by, "policy", policy.Prefix, nil, policy)
		} else if before != policy {
			p.note(now, by, "policy", policy.Prefix, before, policy)
		}
		p.policies[policy.Prefix] = policy
		return struct{}{}, nil
	})
	return err
}

// UnsetPolicy removes the policy of a prefix; see publish.PolicyStore.
func (p *Pointers) UnsetPolicy(ctx context.Context, prefix string, by publish.Operator) error {
	_, err := transact(ctx, p, "UnsetPolicy", "", func(now time.Time) (struct{}, error) {
		if before, there := p.policies[prefix]; there {
			p.note(now, by, "policy", prefix, before, nil)
			delete(p.policies, prefix)
		}
		return struct{}{}, nil
	})
	return err
}

// policy is that of the longest prefix of a key which has one, or what holds without; its limits are the least of all prefixes.
func (p *Pointers) policy(key publish.Key) publish.Policy {
	if policy, found := p.policyOf(key); found {
		return policy
	}
	return publish.Policy{FenceMode: publish.FenceAccepted}
}

func (p *Pointers) policyOf(key publish.Key) (policy publish.Policy, found bool) {
	for _, covering := range p.covering(key) {
		if !found {
			policy, found = covering, true
		}
		policy.MaxTTL.Duration = stricter(policy.MaxTTL.Duration, covering.MaxTTL.Duration)
		policy.MaxFileBytes = stricter(policy.MaxFileBytes, covering.MaxFileBytes)
		policy.MaxGenerationBytes = stricter(policy.MaxGenerationBytes, covering.MaxGenerationBytes)
	}
	return policy, found
}

// covering lists the policies of a key, that of the longest prefix first.
func (p *Pointers) covering(key publish.Key) (all []publish.Policy) {
	for prefix := string(key); ; prefix = prefix[:max(0, strings.LastIndexByte(prefix, '/'))] {
		if policy, found := p.policies[prefix]; found {
			all = append(all, policy)
		}
		if prefix == "" {
			return all
		}
	}
}

// stricter is the lower of two limits, 0 being none.
func stricter[N ~int64](a, b N) N {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// checkTTL refuses a lease that one of the key's policies finds too long.
func (p *Pointers) checkTTL(key publish.Key, ttl time.Duration) error {
	most := p.policy(key).MaxTTL.Duration
	for _, policy := range p.covering(key) {
		if most != 0 && ttl > most && policy.MaxTTL.Duration == most {
			return &publish.Error{
				Code: publish.ErrInvalidRequest, Key: key, Limit: most.Milliseconds(),
				Fields: []publish.Field{{Pointer: "/ttl", Detail: fmt.Sprintf("is longer than the %s that the policy of prefix %q allows", most, policy.Prefix)}},
			}
		}
	}
	return nil
}

// Limit sets what generations may hold, for calls from now on.
func (p *Pointers) Limit(limits publish.GenerationLimits) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limits = limits
}

// checkLimits refuses what would let a generation have more than the store's limits: files, and bytes of its own.
func (p *Pointers) checkLimits(r request, files, bytes int64) error {
	facts := publish.Error{Code: publish.ErrTooLarge, Key: r.grant.Key, Token: r.grant.Token, Operation: r.operation, Path: r.path}
	switch {
	case p.limits.Bytes != 0 && bytes > p.limits.Bytes:
		facts.Limit, facts.Came = p.limits.Bytes, fmt.Sprint(bytes)
	case p.limits.Files != 0 && files > p.limits.Files:
		facts.Limit, facts.Came, facts.Unit = p.limits.Files, fmt.Sprint(files), publish.UnitFiles
	default:
		return nil
	}
	return &facts
}

// checkSet refuses a publish whose generation has more bytes of its own than the key's policy allows.
func (p *Pointers) checkSet(k *keyRow, g *generation) error {
	most, has := p.policy(k.key).MaxGenerationBytes, int64(0)
	for _, row := range g.counting() {
		if !row.carried() {
			has += row.result.Size
		}
	}
	if most == 0 || has <= most {
		return nil
	}
	return &publish.Error{
		Code: publish.ErrTooLarge, Key: k.key, Operation: publish.OperationPublish, Token: g.token, Limit: most, Came: fmt.Sprint(has),
	}
}
