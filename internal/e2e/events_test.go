package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// listener follows an event stream as a browser does, and connects again by its last id.
type listener struct {
	mu         sync.Mutex
	events     []publish.Event
	heartbeats int
	connected  int
}

// listen follows until the test ends.
func listen(t *testing.T, url, after string) *listener {
	t.Helper()
	l := &listener{}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		for last := after; ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
			l.stream(ctx, url, &last)
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	return l
}

func (l *listener) stream(ctx context.Context, url string, last *string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return
	}
	req.Header.Set("Accept", "text/event-stream")
	if *last != "" {
		req.Header.Set("Last-Event-ID", *last)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return
	}
	var id, data string
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		l.mu.Lock()
		switch name {
		case "id":
			id = value
		case "data":
			data = value
		case "retry":
			l.connected++
		case "":
			if value == "heartbeat" {
				l.heartbeats++
			} else if *last = id; data != "" {
				var e publish.Event
				_ = json.Unmarshal([]byte(data), &e)
				l.events, data = append(l.events, e), ""
			}
		}
		l.mu.Unlock()
	}
}

// await waits until the listener has what ok wants, and returns its events.
func (l *listener) await(t *testing.T, within time.Duration, what string, ok func(*listener) bool) []publish.Event {
	t.Helper()
	testenv.Eventually(t, within, func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if !ok(l) {
			return fmt.Errorf("%s: %d events, %d heartbeats, connected %d times", what, len(l.events), l.heartbeats, l.connected)
		}
		return nil
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.events
}

func count(n int) func(*listener) bool { return func(l *listener) bool { return len(l.events) >= n } }

// wantSoon checks the times after which publishes showed. On a machine that does much else one of them may be late.
func wantSoon(t *testing.T, took []time.Duration, limit time.Duration) {
	t.Helper()
	slices.Sort(took)
	if took[len(took)/2] > limit {
		t.Errorf("publishes showed after %s, want most of them within %s", took, limit)
	}
}

// Case 42: the event stream behind nginx, with the README's settings. A publish shows within a second, a silent stream has a heartbeat, and nothing is lost or doubled
// when the server, or the proxy, goes away and comes back.
func TestCase42EventStreamBehindNginx(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := serve(t, testenv.Postgres(t), directory(t), "PAWL_EVENTS_HEARTBEAT=300ms")
	url := nginx(t, s, documentedNginx(t))
	watch := start(t, []string{"PAWL_URL=" + url}, binary(t), "watch", "shots/", "--after", "0-0")
	l := listen(t, url+"/v1/events?prefix=shots/", "")
	l.await(t, patience, "a stream", func(l *listener) bool { return l.connected == 1 })
	l.await(t, patience, "two heartbeats", func(l *listener) bool { return l.heartbeats >= 2 })
	var took []time.Duration
	for i := range 5 {
		if err := ship(ctx, s.api, publish.Key(fmt.Sprintf("shots/%d", i))); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		l.await(t, patience, "the publish", count(i+1))
		took = append(took, time.Since(began))
	}
	wantSoon(t, took, time.Second)
	if err := ship(ctx, s.api, "other/1"); err != nil {
		t.Fatal(err)
	}
	const want = 20
	for i := 5; i < want; i++ {
		if i%5 == 0 {
			s.kill()
			s.start()
		}
		if err := ship(ctx, s.api, publish.Key(fmt.Sprintf("shots/%d", i))); err != nil {
			t.Fatal(err)
		}
	}
	events := l.await(t, patience, "all publishes", count(want))
	again := nginx(t, s, documentedNginx(t)) // Another proxy, as after the first one was replaced.
	all := listen(t, again+"/v1/events?prefix=shots/", "0-0").await(t, patience, "all over the other proxy", count(want))
	for i, e := range events {
		if key := publish.Key(fmt.Sprintf("shots/%d", i)); e.Key != key || e.Kind != publish.EventPublished || all[i].Cursor != e.Cursor {
			t.Fatalf("event %d is %+v, over the other proxy %+v", i, e, all[i])
		}
		if !strings.HasPrefix(e.URL, "/v1/keys/shots/") {
			t.Errorf("the address is %q", e.URL)
		}
	}
	if len(events) != want || len(all) != want {
		t.Errorf("%d and %d events, want %d", len(events), len(all), want)
	}
	testenv.Eventually(t, patience, func() error {
		if n := strings.Count(watch.out.String(), "\n"); n != want {
			return fmt.Errorf("pawl watch printed %d lines of %d", n, want)
		}
		return nil
	})
	for i, line := range strings.Split(strings.TrimSpace(watch.out.String()), "\n") {
		if !strings.HasPrefix(line, events[i].Cursor.String()+" ") || !strings.Contains(line, fmt.Sprintf(" published shots/%d 1.1 by ", i)) {
			t.Errorf("line %d is %q", i, line)
		}
	}

	// Open streams don't hold up the end.
	began := time.Now()
	s.signal(syscall.SIGTERM)
	if code := s.exit(); code != 0 || time.Since(began) > 10*time.Second { // It would wait 20 s for requests that don't end.
		t.Errorf("the server ended with %d after %s", code, time.Since(began))
	}
}

// What a replica has committed is told although it is killed before it can number it: another one does.
func TestEventsOfAKilledReplica(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	dsn, blobs := testenv.Postgres(t), directory(t)
	doomed, other := serve(t, dsn, blobs), serve(t, dsn, blobs)
	l := listen(t, other.url+"/v1/events", "0-0")
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	tx, err := conn.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, `SELECT FROM pawl.event_feed FOR UPDATE`); err != nil { // Nobody can number.
		t.Fatal(err)
	}
	if err := ship(ctx, doomed.api, "k"); err != nil {
		t.Fatal(err)
	}
	doomed.kill()
	var waiting int
	if err := tx.QueryRow(ctx, `SELECT count(*) FROM pawl.unnumbered_events`).Scan(&waiting); err != nil || waiting != 1 {
		t.Fatalf("%d events wait, %v", waiting, err)
	}
	if err := tx.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	if events := l.await(t, patience, "the event", count(1)); events[0].Key != "k" || events[0].Cursor.N != 1 {
		t.Errorf("the event is %+v", events[0])
	}
}

// Through a pooler that shares sessions nobody can listen: polling goes on, and a publish shows soon all the same.
func TestCase44EventsThroughPooler(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	dsn, blobs := testenv.PrivatePostgres(t).DSN(), directory(t)
	direct := serve(t, dsn, blobs)
	pooled := serve(t, pgbouncer(t, dsn, "transaction")+"?default_query_exec_mode=exec", blobs)
	awaitWord(t, pooled.process, "events_polled")
	l, other := listen(t, pooled.url+"/v1/events", "0-0"), listen(t, direct.url+"/v1/events", "0-0")
	var took []time.Duration
	for i, s := range []*server{direct, pooled, direct, pooled} {
		if err := ship(ctx, s.api, publish.Key(fmt.Sprintf("k%d", i))); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		l.await(t, patience, "the event", count(i+1))
		other.await(t, patience, "the event", count(i+1))
		took = append(took, time.Since(began))
	}
	wantSoon(t, took, 2*time.Second)
}

// Ten streams on a server whose pool has five connections hold none of them.
func TestCase43EventStreamsHoldNoConnection(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	dsn := testenv.Postgres(t)
	joint := "?" // The pool's size stands in the address.
	if strings.Contains(dsn, "?") {
		joint = "&"
	}
	s := serve(t, dsn+joint+"pool_max_conns=5", directory(t))
	var streams []*listener
	for range 10 {
		streams = append(streams, listen(t, s.url+"/v1/events", "0-0"))
	}
	var slowest time.Duration
	const n = 40
	for i := range n {
		began := time.Now()
		if err := ship(ctx, s.api, publish.Key(fmt.Sprintf("k/%d", i))); err != nil {
			t.Fatal(err)
		}
		slowest = max(slowest, time.Since(began))
	}
	for _, l := range streams {
		l.await(t, patience, "all events", count(n))
	}
	if slowest > 3*time.Second { // Four requests, on a busy machine.
		t.Errorf("acquire, upload, publish and release took %s", slowest)
	}
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	testenv.Eventually(t, patience, func() error {
		var all, inTransaction int
		err := conn.QueryRow(ctx, `SELECT count(*), count(*) FILTER (WHERE state LIKE 'idle in transaction%') FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = 'pawl'`).Scan(&all, &inTransaction)
		if err == nil && (inTransaction > 0 || all > 6) {
			err = fmt.Errorf("%d connections, %d of them idle in a transaction", all, inTransaction)
		}
		return err
	})
}
