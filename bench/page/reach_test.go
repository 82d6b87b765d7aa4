package page

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// Whoever may see few of many keys has them sought: no list reads what lies outside the reach, and those in the order of time look at no more than they may.
func TestReachSeeks(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	fill(t, dsn, 20_000)
	ctx := t.Context()
	fillMore(t, dsn)
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx) //nolint:errcheck // The test is over.
	for name, reach := range map[string]publish.Reach{
		"one range":    publish.ReachOf("shots/seq003/"),
		"three ranges": publish.ReachOf("shots/seq003/", "shots/seq050/", "small", "none"),
	} {
		shown := 0
		for _, call := range reachReads(reach) {
			before := count(t, conn)
			service, done := serve(t, dsn)
			rows, err := call.do(ctx, service)
			done()
			if err != nil {
				t.Errorf("%s, %s: %v", name, call.name, err)
			}
			after := count(t, conn)
			scanned, sought := after.scanned-before.scanned, after.sought-before.sought
			t.Logf("%s, %s: %d rows, %d scanned, %d sought", name, call.name, rows, scanned, sought)
			if scanned > 0 || sought > call.most {
				t.Errorf("%s, %s: %d rows scanned and %d entries of indexes sought; want 0 and at most %d", name, call.name, scanned, sought, call.most)
			}
			shown += rows
		}
		if shown == 0 {
			t.Errorf("%s shows nothing", name)
		}
	}
}

// fillMore makes policies and an audit. Its connection is closed, so that what it has read is counted before the first read.
func fillMore(t *testing.T, dsn string) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx) //nolint:errcheck // It has done its work.
	for _, sql := range []string{
		`INSERT INTO pawl.policies (prefix) SELECT 'shots/seq' || lpad((n % 200)::text, 3, '0') || '/shot' || n FROM generate_series(1, 20000) n`,
		`INSERT INTO pawl.audit (actor, action, subject) SELECT 'mia', 'retire', name FROM pawl.keys`,
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
}

// boundedRead is a read with the number of entries of indexes that it may look at.
type boundedRead struct {
	read
	most int64
}

// reachReads are the lists of what is in a reach that holds about 200 keys, the first page of each.
func reachReads(reach publish.Reach) []boundedRead {
	const (
		page  = 400  // a page of 10, with what is told of each row
		whole = 3000 // what the reach holds, with what is told of each
	)
	calls := []boundedRead{
		{read{"list", func(ctx context.Context, s *publish.Service) (int, error) {
			page, err := s.List(ctx, publish.ListRequest{Reach: reach, Limit: 10})
			return len(page.Keys), err
		}}, page},
		{read{"list of sub-prefixes", func(ctx context.Context, s *publish.Service) (int, error) {
			page, err := s.List(ctx, publish.ListRequest{Reach: reach, Prefix: "s", Delimiter: "/", Limit: 10})
			return len(page.Prefixes), err
		}}, page},
		{read{"rejections", func(ctx context.Context, s *publish.Service) (int, error) {
			page, err := s.Rejections(ctx, publish.RejectionsRequest{Reach: reach, Limit: 10})
			return len(page.Rejections), err
		}}, whole},
		{read{"leases", func(ctx context.Context, s *publish.Service) (int, error) {
			page, err := s.Leases(ctx, publish.LeasesRequest{Reach: reach, Expired: true, Limit: 10})
			return len(page.Leases), err
		}}, whole},
		{read{"events", func(ctx context.Context, s *publish.Service) (int, error) {
			page, err := s.Events(ctx, publish.EventsRequest{Reach: reach, Before: &publish.NewestEvent, Limit: 10})
			return len(page.Events), err
		}}, publish.MaxEventsSearched + page},
		{read{"policies", func(ctx context.Context, s *publish.Service) (int, error) {
			page, err := s.Policies(ctx, reach, nil, 10)
			return len(page.Policies), err
		}}, page},
		{read{"audit", func(ctx context.Context, s *publish.Service) (int, error) {
			page, err := s.Audit(ctx, publish.AuditRequest{Reach: reach, Limit: 10})
			return len(page.Entries), err
		}}, publish.MaxAuditSearched + page},
	}
	for _, filter := range []publish.BrowseRequest{{}, {Text: "layer"}, {UpdatedSince: time.Now().AddDate(0, 0, -15)}, {Leased: true}} {
		for _, sort := range publish.BrowseSorts() {
			filter.Reach, filter.Sort, filter.Limit = reach, sort, 10
			calls = append(calls, boundedRead{browse(filter), whole})
		}
	}
	return calls
}
