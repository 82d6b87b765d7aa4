package publishtest

import (
	"fmt"
	"strings"
	"time"

	"github.com/pawlhq/pawl/publish"
)

func policyTests() []pointerTest {
	return []pointerTest{
		{name: "kept", run: testPolicies, alone: true},
		{name: "longest-wins", run: testPolicyLongest},
		{name: "ttl", run: testPolicyTTL},
		{name: "sizes", run: testPolicySizes},
	}
}

// setPolicy sets a policy of a prefix that ends at a segment's border.
func (s *suite) setPolicy(policy publish.Policy) {
	s.Helper()
	if policy.FenceMode == "" {
		policy.FenceMode = publish.FenceAccepted
	}
	if err := s.Store.SetPolicy(s.Context(), policy, "ops"); err != nil {
		s.Fatalf("set the policy of %q: %v", policy.Prefix, err)
	}
}

func (s *suite) setFenceMode(prefix string, mode publish.FenceMode) {
	s.Helper()
	s.setPolicy(publish.Policy{Prefix: prefix, FenceMode: mode})
}

func span(d time.Duration) publish.Duration { return publish.Duration{Duration: d} }

// Policies are kept whole, listed by prefix in pages, replaced as a whole, and gone when unset.
func testPolicies(s *suite) {
	all := []publish.Policy{
		{Prefix: "", FenceMode: publish.FenceAccepted, KeepFor: span(720 * time.Hour)},
		{Prefix: "a/b", FenceMode: publish.FenceGranted, KeepGenerations: 5, KeepUnpublishedFor: span(time.Hour)},
		{Prefix: "a0", FenceMode: publish.FenceAccepted, MaxTTL: span(time.Minute), MaxFileBytes: 1 << 40, MaxGenerationBytes: 1 << 50},
	}
	for _, policy := range []int{2, 0, 1} {
		s.setPolicy(all[policy])
	}
	var got []publish.Policy
	var after *string
	for pages := 0; ; pages++ {
		page, err := s.Store.Policies(s.Context(), publish.Everything, after, 1)
		s.ok(err)
		got = append(got, page.Policies...)
		if after = page.Next; after == nil {
			s.same("pages", pages, 2)
			break
		}
	}
	s.same("policies", got, all)
	s.setPolicy(publish.Policy{Prefix: "a0", KeepGenerations: 2})
	s.ok(s.Store.UnsetPolicy(s.Context(), "", "ops"))
	s.ok(s.Store.UnsetPolicy(s.Context(), "", "ops"))
	page, err := s.Store.Policies(s.Context(), publish.Everything, nil, 10)
	s.ok(err)
	s.same("policies", page.Policies, []publish.Policy{all[1], {Prefix: "a0", FenceMode: publish.FenceAccepted, KeepGenerations: 2}})
}

// The longest prefix says what holds, but for the limits: each holds below its own prefix, at segments' borders, and no longer one lifts it.
func testPolicyLongest(s *suite) {
	minute, hour := span(time.Minute), span(time.Hour)
	s.setPolicy(publish.Policy{Prefix: string(s.key("a")), FenceMode: publish.FenceGranted, MaxTTL: minute, MaxFileBytes: 5, MaxGenerationBytes: 9, KeepGenerations: 3})
	s.setPolicy(publish.Policy{Prefix: string(s.key("a/b")), MaxFileBytes: 3})
	s.setPolicy(publish.Policy{Prefix: string(s.key("a/b/c")), MaxTTL: hour, MaxFileBytes: 1000, MaxGenerationBytes: 7, KeepFor: hour})
	type effective struct {
		Mode              publish.FenceMode
		TTL               publish.Duration
		File, Generation  int64
		KeepGenerations   int64
		KeepFor           publish.Duration
		Prefix, LimitedBy string
	}
	for name, want := range map[string]effective{
		"a":       {publish.FenceGranted, minute, 5, 9, 3, span(0), "a", "a"},
		"a/c":     {publish.FenceGranted, minute, 5, 9, 3, span(0), "a", "a"},
		"a/b":     {publish.FenceAccepted, minute, 3, 9, 0, span(0), "a/b", "a"},
		"a/b/x":   {publish.FenceAccepted, minute, 3, 9, 0, span(0), "a/b", "a"},
		"a/b/c":   {publish.FenceAccepted, minute, 3, 7, 0, hour, "a/b/c", "a"},
		"a/b/c/d": {publish.FenceAccepted, minute, 3, 7, 0, hour, "a/b/c", "a"},
	} {
		key := s.key(name)
		req := acquireRequest(key, "a")
		req.TTL = time.Minute + time.Millisecond
		_, err := s.Store.Acquire(s.Context(), req)
		refusal := s.refused(err, publish.Error{Code: publish.ErrInvalidRequest, Key: key, Limit: time.Minute.Milliseconds()})
		s.same("named", strings.Contains(refusal.Fields[0].Detail, fmt.Sprintf("prefix %q", s.key(want.LimitedBy))), true)
		req.TTL = time.Minute
		lease, err := s.Store.Acquire(s.Context(), req)
		s.ok(err)
		start, err := s.Store.BeginUpload(s.Context(), beginRequest(publish.Grant{Key: key, Token: lease.Token, LeaseID: lease.LeaseID}, "f"))
		s.ok(err)
		s.same(name+": file", start.MaxFileBytes, want.File)
		overview, err := s.Store.Overview(s.Context(), key)
		s.ok(err)
		p := overview.Policy
		s.same(name, effective{p.FenceMode, p.MaxTTL, p.MaxFileBytes, p.MaxGenerationBytes, p.KeepGenerations, p.KeepFor, strings.TrimPrefix(p.Prefix, s.prefix+"/"), want.LimitedBy}, want)
	}
	s.acquire(s.key("ab"), "a")
	s.ok(s.Store.UnsetPolicy(s.Context(), string(s.key("a")), "ops"))
	s.acquire(s.key("a/b/y"), "a") // a/b has no limit of its own
}

// A lease that is longer than the policy allows is refused and draws no token; a lease from before may be renewed as it is.
func testPolicyTTL(s *suite) {
	early := s.acquire(s.key("k"), "early")
	s.setPolicy(publish.Policy{Prefix: s.prefix, MaxTTL: span(time.Minute)})
	_, err := s.Store.Renew(s.Context(), early.Key, early.LeaseID, 0)
	s.ok(err)
	_, err = s.Store.Renew(s.Context(), early.Key, early.LeaseID, 2*time.Minute)
	s.refused(err, publish.Error{Code: publish.ErrInvalidRequest, Limit: time.Minute.Milliseconds()})
	_, err = s.Store.Renew(s.Context(), early.Key, early.LeaseID, time.Minute)
	s.ok(err)
	s.Expire(s.T, early.Key)
	req := acquireRequest(early.Key, "b")
	req.TTL = time.Minute + time.Millisecond
	_, err = s.Store.Acquire(s.Context(), req)
	refusal := s.refused(err, publish.Error{Code: publish.ErrInvalidRequest, Key: early.Key})
	s.same("field", refusal.Fields[0].Pointer, "/ttl")
	req.TTL = time.Minute
	lease, err := s.Store.Acquire(s.Context(), req)
	s.ok(err)
	s.same("token", lease.Token, early.Token+1)
}

// An upload learns the limit of a file from its start; the set is measured at its publish, without what it carries over.
func testPolicySizes(s *suite) {
	a := s.acquire(s.key("k"), "a")
	s.upload(a, "big", "0123456789")
	s.publish(final(a))
	s.setPolicy(publish.Policy{Prefix: s.prefix, MaxFileBytes: 4, MaxGenerationBytes: 6})
	b := s.takeOver(a.Key, "b")
	start, err := s.Store.BeginUpload(s.Context(), beginRequest(b, "one"))
	s.ok(err)
	s.same("limit", start.MaxFileBytes, int64(4))
	s.complete(start.Upload, "1111")
	req := publish.BeginDirectRequest{Grant: b, ID: newUploadID(), Promise: publish.Promise{File: fileOf("two", "22222")}}
	_, err = s.Store.BeginDirect(s.Context(), req)
	s.refused(err, publish.Error{Code: publish.ErrTooLarge, Limit: 4, Path: "two"})
	s.upload(b, "two", "222")
	_, err = s.Store.Publish(s.Context(), reusing(b, a.Token))
	s.refused(err, publish.Error{Code: publish.ErrTooLarge, Limit: 6, Came: "7", Token: b.Token, Operation: publish.OperationPublish})
	s.upload(b, "two", "22")
	receipt := s.publish(reusing(b, a.Token))
	s.same("bytes", receipt.Bytes, int64(16))
	s.rollback(publish.RollbackRequest{
		Key: a.Key, To: publish.Version{Token: a.Token}, Reason: "r", By: "ops", BreakLease: true, RequestID: publish.NewLeaseID(),
	})
}
