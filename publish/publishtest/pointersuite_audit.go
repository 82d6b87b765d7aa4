package publishtest

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/pawlhq/pawl/publish"
)

func auditTests() []pointerTest {
	return []pointerTest{
		{name: "changes", run: testAudit, alone: true},
		{name: "refusals", run: testAuditRefusals, alone: true},
		{name: "chosen", run: testAuditChosen, alone: true},
		{name: "refusals-at-once", run: testAuditRefusalsAtOnce, alone: true},
	}
}

// entries returns the whole audit, newest first, in pages of two.
func (s *suite) entries() (all []publish.AuditEntry) {
	s.Helper()
	return s.entriesOf(publish.AuditRequest{Reach: publish.Everything, Limit: 2})
}

// entriesOf returns all entries that are asked for, page after page.
func (s *suite) entriesOf(req publish.AuditRequest) (all []publish.AuditEntry) {
	s.Helper()
	for {
		page, err := s.Store.Audit(s.Context(), req)
		s.ok(err)
		all = append(all, page.Entries...)
		if req.Before = page.Next; req.Before == 0 {
			return all
		}
	}
}

// Every change of an operator is one entry, with who made it, from where, and with which token; what changes nothing leaves none.
func testAudit(s *suite) {
	one, _, _ := s.twoVersions(s.key("k"))
	there := publish.WithClient(s.Context(), netip.MustParseAddr("2001:db8::7"))
	req := rollbackTo(one.Key, one.Token)
	req.Pin = true
	rolled, err := s.Store.Rollback(there, req)
	s.ok(err)
	_, err = s.Store.Rollback(there, req)
	s.ok(err)
	pin := pinRequest(one.Key)
	pin.Reason = req.Reason
	s.pin(pin)
	nearby := publish.WithClient(s.Context(), netip.MustParseAddr("10.0.0.7"))
	s.ok(s.Store.Unpin(nearby, publish.UnpinRequest{Key: one.Key, By: "jo"}))
	s.ok(s.Store.Unpin(nearby, publish.UnpinRequest{Key: one.Key, By: "jo"}))
	retired := s.retire(one.Key)
	s.retire(one.Key)
	s.setPolicy(publish.Policy{Prefix: s.prefix, KeepGenerations: 3})
	s.setPolicy(publish.Policy{Prefix: s.prefix, KeepGenerations: 3})
	s.ok(s.Store.UnsetPolicy(there, s.prefix, "jo"))
	lease := s.acquire(one.Key, "worker")
	_, err = s.Store.BreakLease(there, publish.BreakLeaseRequest{Key: one.Key, Token: lease.Token, Reason: "r", By: "ops"})
	s.ok(err)
	type row struct {
		By              publish.Operator
		From            string
		Action, Subject string
		Token           publish.Token
		Before, After   bool
	}
	var got []row
	for _, entry := range s.entries() {
		got = append(got, row{entry.By, entry.From, entry.Action, entry.Subject, entry.Token, entry.Before != nil, entry.After != nil})
		s.same("time", time.Since(entry.At.Time).Abs() < time.Hour, true)
		s.same("refused", entry.Refused, publish.Code(""))
	}
	key := string(one.Key)
	s.same("audit", got, []row{
		{"ops", "2001:db8::7", "break-lease", key, lease.Token, true, true},
		{"jo", "2001:db8::7", "policy", s.prefix, 0, true, false},
		{"ops", "", "policy", s.prefix, 0, false, true},
		{"mia@ws-12", "", "retire", key, retired.Token, true, true},
		{"jo", "10.0.0.7", "unpin", key, 0, true, false},
		{"mia@ws-12", "2001:db8::7", "pin", key, rolled.Token, false, true},
		{"mia@ws-12", "2001:db8::7", "rollback", key, rolled.Token, true, true},
	})
}

// A refusal is one entry a minute for each name, action and key, beside those of changes, and nothing else comes of it.
func testAuditRefusals(s *suite) {
	key := s.key("k")
	one := s.acquire(key, "worker")
	s.upload(one, "f", "bytes")
	s.publish(final(one))
	there := publish.WithClient(s.Context(), netip.MustParseAddr("10.0.0.7"))
	refused := publish.RefusedAction{By: "ci", Action: publish.OperationPin, Subject: string(key), Code: publish.ErrForbidden}
	for attempt := 1; ; attempt++ {
		refused.By = publish.Operator(fmt.Sprintf("ci-%d", attempt))
		before := len(s.entries())
		for range 3 {
			s.ok(s.Store.RecordRefusal(there, refused))
		}
		if made := len(s.entries()) - before; made == 1 {
			break
		} else if made != 2 || attempt == 3 { // Two are made when a minute ends in between.
			s.Fatalf("three refusals made %d entries", made)
		}
	}
	entry := s.entries()[0]
	entry.ID, entry.At = 0, publish.Time{}
	s.same("entry", entry, publish.AuditEntry{By: refused.By, From: "10.0.0.7", Action: publish.OperationPin, Subject: string(key), Refused: publish.ErrForbidden})

	before := len(s.entries())
	for _, other := range []publish.RefusedAction{
		{By: refused.By + "x", Action: refused.Action, Subject: refused.Subject, Code: publish.ErrForbidden},
		{By: refused.By, Action: "publish", Subject: refused.Subject, Code: publish.ErrForbidden},
		{By: refused.By, Action: refused.Action, Subject: refused.Subject + "/x", Code: publish.ErrForbidden},
		{By: refused.By, Action: refused.Action, Code: publish.ErrForbidden},
	} {
		s.ok(s.Store.RecordRefusal(s.Context(), other))
	}
	s.same("entries of others", len(s.entries())-before, 4)
	// The key isn't pinned, nor is anybody told so; and a pin of that name is an entry of its own.
	s.pin(publish.PinRequest{Key: key, Reason: "r", By: refused.By})
	s.same("the pin", s.entries()[0].Refused, publish.Code(""))
	_, err := s.Store.NumberEvents(s.Context(), 100)
	s.ok(err)
	page, err := s.Store.Events(s.Context(), publish.EventsRequest{Reach: publish.Everything, Prefix: string(key), Before: &publish.NewestEvent, Limit: 100})
	s.ok(err)
	pins := 0
	for _, event := range page.Events {
		if event.Kind == publish.EventPinned {
			pins++
		}
	}
	s.same("events of pins", pins, 1)
}

// The audit can be asked for what is about some keys, for refusals, and for changes. A prefix is compared byte by byte.
func testAuditChosen(s *suite) {
	names := []publish.Key{s.key("a_b"), s.key("a_b/c"), s.key("axb"), s.key("A_B")}
	for _, key := range names {
		s.setPolicy(publish.Policy{Prefix: string(key), KeepGenerations: 3})
		s.ok(s.Store.RecordRefusal(s.Context(), publish.RefusedAction{By: "ci", Action: "publish", Subject: string(key), Code: publish.ErrForbidden}))
	}
	all := s.entries()
	reach := publish.ReachOf(string(names[1]), string(names[2]))
	for _, req := range []publish.AuditRequest{
		{Prefix: s.prefix + "/a_b"},
		{Prefix: s.prefix + "/a_b/"},
		{Prefix: s.prefix + "/%"},
		{Prefix: s.prefix + "/a", Only: publish.AuditRefusals},
		{Only: publish.AuditRefusals},
		{Only: publish.AuditChanges},
		{Prefix: s.prefix + "/a", Only: publish.AuditChanges, Reach: reach},
		{Prefix: s.prefix + "/axb", Reach: reach},
	} {
		if req.Reach.Empty() {
			req.Reach = publish.Everything
		}
		for _, req.Limit = range []int{1, 3, 100} {
			want := slices.DeleteFunc(slices.Clone(all), func(entry publish.AuditEntry) bool { return !req.Chosen(entry) })
			s.same(fmt.Sprintf("%+v", req), s.entriesOf(req), want)
		}
	}
	s.same("refusals of a_b", len(s.entriesOf(publish.AuditRequest{Reach: publish.Everything, Prefix: s.prefix + "/a_b", Only: publish.AuditRefusals, Limit: 100})), 2)
}

// Replicas that record the same refusal at once make one entry.
func testAuditRefusalsAtOnce(s *suite) {
	refused := publish.RefusedAction{By: "ci", Action: "publish", Subject: string(s.key("k")), Code: publish.ErrForbidden}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := s.Store.RecordRefusal(s.Context(), refused); err != nil {
				s.Error(err)
			}
		})
	}
	all.Wait()
	minutes := map[time.Time]bool{}
	for _, entry := range s.entries() {
		minute := entry.At.Truncate(time.Minute)
		s.same("a second entry in the same minute", minutes[minute], false)
		minutes[minute] = true
	}
	s.same("entries", len(minutes) == 1 || len(minutes) == 2, true)
}
