package pointer_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/pointer"
	"github.com/pawlhq/pawl/publish"
)

// eventsAfter numbers what waits and reads all events after a cursor.
func eventsAfter(t *testing.T, store *pointer.Store, after publish.EventCursor) (all []publish.Event) {
	t.Helper()
	for {
		numbered, err := store.NumberEvents(t.Context(), 7)
		if err != nil {
			t.Fatal(err)
		}
		if !numbered.More && !numbered.Busy {
			break
		}
	}
	for {
		page, err := store.Events(t.Context(), publish.EventsRequest{Reach: publish.Everything, After: &after, Limit: 5})
		if err != nil {
			t.Fatal(err)
		}
		if *page.Next == after {
			return all
		}
		all, after = append(all, page.Events...), *page.Next
	}
}

// told gives events as "<cursor> <kind> <key>".
func told(events []publish.Event) (all []string) {
	for _, e := range events {
		all = append(all, fmt.Sprintf("%s %s %s", e.Cursor, e.Kind, e.Key))
	}
	return all
}

// A change that began earlier and commits later gets its number later: a reader that has gone on doesn't miss it. One that is rolled back leaves nothing, and no gap.
func TestEventsAreNumberedAfterTheirCommit(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	store, dsn := newStore(t)
	conns := map[string]*pgx.Conn{}
	for _, key := range []string{"slow", "undone"} {
		conn, err := pgx.Connect(ctx, dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(ctx) //nolint:errcheck // The test is over.
		grant(t, store, publish.Key(key), "w").ship()
		conns[key] = conn
	}
	begun := eventsAfter(t, store, publish.OldestEvent)
	from := begun[len(begun)-1].Cursor
	for key, conn := range conns {
		if _, err := conn.Exec(ctx, `BEGIN`); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(ctx, `SELECT pawl.retire($1, sha256('r'), '', 'ops', false)`, key); err != nil {
			t.Fatal(err)
		}
	}
	grant(t, store, "quick", "w").ship()
	if got := fmt.Sprint(told(eventsAfter(t, store, from))); got != "[0-3 published quick]" {
		t.Fatalf("before the commit: %s", got)
	}
	for key, end := range map[string]string{"slow": `COMMIT`, "undone": `ROLLBACK`} {
		if _, err := conns[key].Exec(ctx, end); err != nil {
			t.Fatal(err)
		}
	}
	grant(t, store, "last", "w").ship()
	if got := fmt.Sprint(told(eventsAfter(t, store, publish.EventCursor{N: 3}))); got != "[0-4 retired slow 0-5 published last]" {
		t.Errorf("after it: %s", got)
	}
}

// Sequencers that are at it at once number each event once, without gaps, while readers follow; each key's events are in the order of its commits.
func TestEventsUnderConcurrency(t *testing.T) {
	t.Parallel()
	_, dsn := newStore(t)
	var stores []*pointer.Store
	for range 3 {
		stores = append(stores, openStore(t, dsn))
	}
	const keys, rounds = 12, 15
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	working, stop := context.WithCancel(ctx)
	var workers, numbering, following sync.WaitGroup
	for k := range keys {
		workers.Go(func() {
			key := publish.Key(fmt.Sprintf("k/%d", k))
			for i := range rounds {
				store := stores[rand.IntN(len(stores))]
				w := grant(t, store, key, fmt.Sprintf("w%d", i))
				if err := w.upload(store, "out"); err != nil {
					t.Error(err)
				}
				if _, err := w.publish(store); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for _, store := range stores {
		numbering.Go(func() {
			for working.Err() == nil {
				if _, err := store.NumberEvents(ctx, 1+rand.IntN(5)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	const want = keys * rounds
	readers := make([][]publish.Event, 4)
	for r := range readers {
		following.Go(func() {
			after := publish.OldestEvent
			for len(readers[r]) < want && ctx.Err() == nil {
				page, err := stores[r%len(stores)].Events(ctx, publish.EventsRequest{Reach: publish.Everything, After: &after, Limit: 1 + rand.IntN(9)})
				if err != nil {
					t.Error(err)
					return
				}
				readers[r] = append(readers[r], page.Events...)
				if after = *page.Next; rand.IntN(10) == 0 && len(readers[r]) > 0 {
					after = readers[r][len(readers[r])-1].Cursor // It comes back with the cursor of the last event.
				}
			}
		})
	}
	workers.Wait()
	following.Wait()
	stop()
	numbering.Wait()
	for r, events := range readers {
		newest := map[publish.Key]publish.Token{}
		for i, e := range events {
			if e.Cursor.N != int64(i)+1 || e.Token <= newest[e.Key] || e.Kind != publish.EventPublished {
				t.Fatalf("reader %d: event %d is %+v, after token %d of its key", r, i+1, e, newest[e.Key])
			}
			newest[e.Key] = e.Token
		}
		if len(events) != want {
			t.Errorf("reader %d has %d events, want %d", r, len(events), want)
		}
	}
}

// After a dump was restored a reader of the lost history gets all of the new one, once and in order: first that it was restored.
func TestEventsAfterARestore(t *testing.T) {
	t.Parallel()
	store, dsn := newStore(t)
	for _, key := range []publish.Key{"a", "b"} {
		grant(t, store, key, "w").ship()
	}
	if n := len(eventsAfter(t, store, publish.OldestEvent)); n != 2 {
		t.Fatalf("%d events", n)
	}
	grant(t, store, "waits", "w").ship()
	dump := command(t, nil, "pg_dump", "-Fc", "-d", dsn)
	for _, key := range []publish.Key{"c", "d", "e", "f"} {
		grant(t, store, key, "lost").ship()
	}
	lost := eventsAfter(t, store, publish.OldestEvent)
	if len(lost) != 7 {
		t.Fatalf("%d events before the restore", len(lost))
	}

	command(t, dump, "pg_restore", "--clean", "--if-exists", "-d", dsn)
	restored := openStore(t, dsn)
	grant(t, restored, "g", "w").ship()
	got := eventsAfter(t, restored, lost[6].Cursor)
	if len(got) != 3 {
		t.Fatalf("after the restore a reader of the lost history gets %q", told(got))
	}
	epoch := got[0].Cursor.Epoch
	want := fmt.Sprintf("[%d-3 restored  %d-4 published waits %d-5 published g]", epoch, epoch, epoch)
	if fmt.Sprint(told(got)) != want || epoch == 0 || got[0].Reason == "" {
		t.Errorf("after the restore a reader of the lost history gets %q, want %s", told(got), want)
	}
	if all := eventsAfter(t, restored, publish.OldestEvent); len(all) != 5 || all[1].Cursor != lost[1].Cursor {
		t.Errorf("from the beginning: %q", told(all))
	}
	grant(t, restored, "h", "w").ship()
	if more := eventsAfter(t, restored, got[2].Cursor); len(more) != 1 || more[0].Cursor != (publish.EventCursor{Epoch: epoch, N: 6}) {
		t.Errorf("later: %q", told(more))
	}
}

// Whoever listens is woken by what another process numbers, and stays so until it is told to end.
func TestListenEvents(t *testing.T) {
	t.Parallel()
	store, dsn := newStore(t)
	other := openStore(t, dsn)
	ctx, cancel := context.WithCancel(t.Context())
	woken, ended := make(chan struct{}, 100), make(chan error, 1)
	go func() { ended <- other.ListenEvents(ctx, func() { woken <- struct{}{} }) }()
	<-woken // It listens.
	for range 3 {
		grant(t, store, "k", "w").ship()
		if _, err := store.NumberEvents(ctx, 10); err != nil {
			t.Fatal(err)
		}
		select {
		case <-woken:
		case <-time.After(time.Minute):
			t.Fatal("it wasn't woken")
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
}

// A page looks at no more events than it may, also where none has the prefix, and reads them by the index.
func TestEventPagesAreBounded(t *testing.T) {
	t.Parallel()
	store, dsn := newStore(t)
	exec1(t, dsn, `INSERT INTO pawl.events (epoch, n, kind, key, token, revision, at, by, facts)
		SELECT 0, n, 'published', 'k/' || n, 1, 1, now(), 'w', '{}' FROM generate_series(1, 50000) n`)
	exec1(t, dsn, `UPDATE pawl.event_feed SET n = 50000`)
	exec1(t, dsn, `ANALYZE pawl.events`)
	for prefix, want := range map[string]int{"none": 0, "k/49999": 1} {
		count, pages := 0, 0
		for before := &publish.NewestEvent; before != nil; pages++ {
			page, err := store.Events(t.Context(), publish.EventsRequest{Reach: publish.Everything, Prefix: prefix, Before: before, Limit: 100})
			if err != nil {
				t.Fatal(err)
			}
			count, before = count+len(page.Events), page.Next
		}
		if count != want || pages < 25 || pages > 27 {
			t.Errorf("%s: %d events on %d pages", prefix, count, pages)
		}
	}
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context()) //nolint:errcheck // The test is over.
	var read, sequential int64
	testenv.Eventually(t, flushTimeout, func() error {
		if _, err := conn.Exec(t.Context(), `SELECT pg_stat_force_next_flush()`); err != nil {
			return err
		}
		err := conn.QueryRow(t.Context(), `SELECT idx_tup_fetch, seq_tup_read FROM pg_stat_user_tables WHERE relname = 'events'`).Scan(&read, &sequential)
		if err == nil && read < 100_000 {
			err = fmt.Errorf("%d rows are counted", read)
		}
		return err
	})
	if read > 110_000 || sequential > 50_000 { // ANALYZE itself reads the table.
		t.Errorf("%d rows were read by the index and %d without it", read, sequential)
	}
}
