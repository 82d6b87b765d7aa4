package publish_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/publish/publishtest"
)

func TestEventCursor(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"0-0", "0-17", "90123-9007199254740991", publish.NewestEvent.String()} {
		if c, err := publish.ParseEventCursor(text); err != nil || c.String() != text {
			t.Errorf("%s became %s, %v", text, c, err)
		}
	}
	for _, text := range []string{"", "17", "0-", "-1", "0-01", "00-1", "+0-1", "0--1", "-1-1", "0-1-2", "0-1 ", "0x1-1", "0-9007199254740992", "9007199254740992-0"} {
		if c, err := publish.ParseEventCursor(text); !errors.Is(err, publish.ErrInvalidRequest) {
			t.Errorf("%q became %s, %v", text, c, err)
		}
	}
	ordered := []publish.EventCursor{publish.OldestEvent, {N: 150}, {Epoch: 1, N: 100}, {Epoch: 1, N: 101}, {Epoch: 2}, publish.NewestEvent}
	for i, a := range ordered {
		for j, b := range ordered {
			if got := a.Compare(b); (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("%s against %s is %d", a, b, got)
			}
		}
	}
}

// feed runs the event feed of a service until the test ends.
func feed(t *testing.T, s *publish.Service, opts publish.EventsOptions) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { s.RunEvents(ctx, opts) })
	t.Cleanup(func() { cancel(); running.Wait() })
}

var errRead = errors.New("read enough")

// collect follows until it has n events, whatever it is given along with them, and checks that they are each the next one.
func collect(ctx context.Context, s *publish.Service, after publish.EventCursor, n int64, slowly func()) error {
	last := after
	err := s.FollowEvents(ctx, publish.EventsRequest{Reach: publish.Everything, After: &after}, time.Hour, func(events []publish.Event, at publish.EventCursor) error {
		for _, e := range events {
			if e.Cursor.N != last.N+1 {
				return fmt.Errorf("%s follows %s", e.Cursor, last)
			}
			last = e.Cursor
		}
		if at != last {
			return fmt.Errorf("the place is %s after %s", at, last)
		}
		if last.N >= n {
			return errRead
		}
		slowly()
		return nil
	})
	if errors.Is(err, errRead) {
		return nil
	}
	return fmt.Errorf("at %s: %w", last, err)
}

// Followers that read from the beginning, or come while events are made, quick ones and such that are too slow for the hub, see each event once and in order. The
// store is read once for all that keep up.
func TestFollowEvents(t *testing.T) {
	t.Parallel()
	pointers := publishtest.NewPointers()
	s := &publish.Service{Pointers: pointers}
	feed(t, s, publish.EventsOptions{Poll: 10 * time.Millisecond})
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	const n, early = 5000, 5
	pointers.Tell(early, publish.Event{Kind: publish.EventPublished, Key: "k"}) // No follower begins after an event that isn't there yet.
	var behind atomic.Int64
	var followers sync.WaitGroup
	for i := range 40 {
		followers.Go(func() {
			slowly := func() {}
			if i%4 == 0 {
				slowly = func() { behind.Add(1); time.Sleep(time.Duration(rand.IntN(60)) * time.Millisecond) }
			}
			if err := collect(ctx, s, publish.EventCursor{N: rand.Int64N(early)}, n, slowly); err != nil {
				t.Error(err)
			}
		})
	}
	for made := early; made < n; {
		some := min(1+rand.IntN(20), n-made)
		pointers.Tell(some, publish.Event{Kind: publish.EventPublished, Key: "k"})
		made += some
		time.Sleep(time.Duration(rand.IntN(3)) * time.Millisecond)
	}
	followers.Wait()
	t.Logf("slow followers took %d pieces, the store was read %d times", behind.Load(), pointers.Faults.Calls("Events"))
}

// A follower that has missed a few events doesn't wait for the turn of those that have missed many.
func TestNearFollowersDontQueue(t *testing.T) {
	t.Parallel()
	pointers := publishtest.NewPointers()
	s := &publish.Service{Pointers: pointers}
	feed(t, s, publish.EventsOptions{Poll: 10 * time.Millisecond})
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	pointers.Tell(300, publish.Event{Kind: publish.EventPublished, Key: "k"})
	if err := collect(ctx, s, publish.OldestEvent, 300, func() {}); err != nil {
		t.Fatal(err)
	}
	s.HoldCatchUp()
	if err := collect(ctx, s, publish.EventCursor{N: 250}, 300, func() {}); err != nil {
		t.Errorf("50 events behind: %v", err)
	}
	short, cancelShort := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancelShort()
	if err := collect(short, s, publish.EventCursor{N: 5}, 300, func() {}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("295 events behind, and no turn: %v", err)
	}
}

// A hundred followers cost the store what one does.
func TestFollowersShareReads(t *testing.T) {
	t.Parallel()
	pointers := publishtest.NewPointers()
	s := &publish.Service{Pointers: pointers}
	feed(t, s, publish.EventsOptions{Poll: time.Hour})
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	var followers, begun sync.WaitGroup
	for range 100 {
		begun.Add(1)
		followers.Go(func() {
			first := true
			err := s.FollowEvents(ctx, publish.EventsRequest{Reach: publish.Everything}, time.Hour, func(events []publish.Event, _ publish.EventCursor) error {
				if first {
					first = false
					begun.Done()
				}
				if len(events) > 0 && events[len(events)-1].Cursor.N == 10 {
					return errRead
				}
				return nil
			})
			if !errors.Is(err, errRead) {
				t.Error(err)
			}
		})
	}
	begun.Wait()
	before := pointers.Faults.Calls("Events")
	for range 10 {
		pointers.Tell(1, publish.Event{Kind: publish.EventPublished, Key: "k"})
		if _, err := pointers.NumberEvents(ctx, 10); err != nil {
			t.Fatal(err)
		}
	}
	followers.Wait()
	if reads := pointers.Faults.Calls("Events") - before; reads > 130 {
		t.Errorf("the store was read %d times for 10 events and 100 followers", reads)
	}
}

// A follower of an expired cursor is told so; while the store is away followers wait, and lose nothing.
func TestFollowEventsFaults(t *testing.T) {
	t.Parallel()
	pointers := publishtest.NewPointers()
	s := &publish.Service{Pointers: pointers}
	feed(t, s, publish.EventsOptions{Poll: time.Millisecond})
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	done := make(chan error, 1)
	began := make(chan struct{})
	go func() {
		var once sync.Once
		done <- collect(ctx, s, publish.OldestEvent, 3, func() { once.Do(func() { close(began) }) })
	}()
	<-began
	for _, operation := range []string{"Events", "NumberEvents"} {
		pointers.Faults.Add(publishtest.Fault{Operation: operation, Times: 20, Err: publish.Unavailable("Postgres", nil)})
	}
	pointers.Tell(3, publish.Event{Kind: publish.EventPublished, Key: "k"})
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := pointers.TrimEvents(ctx, -time.Hour, 2); err != nil {
		t.Fatal(err)
	}
	err := s.FollowEvents(ctx, publish.EventsRequest{Reach: publish.Everything, After: &publish.EventCursor{N: 1}}, time.Hour, func([]publish.Event, publish.EventCursor) error { return nil })
	if !errors.Is(err, publish.ErrCursorExpired) {
		t.Errorf("after a trimmed cursor: %v", err)
	}
}

// A cursor that is ahead of all events is refused, also by a reader that was following when the database was put back. Where that is a restore, which the
// refusal makes sure is noticed, the cursor of the lost history goes on with the new epoch.
func TestEventsAhead(t *testing.T) {
	t.Parallel()
	pointers := publishtest.NewPointers()
	s := &publish.Service{Pointers: pointers}
	pointers.Tell(2, publish.Event{Kind: publish.EventPublished, Key: "k"})
	if _, err := pointers.NumberEvents(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	ahead := publish.EventCursor{N: 7}
	refused := func(what string, err error) {
		t.Helper()
		refusal, ok := errors.AsType[*publish.Error](err)
		if !ok || refusal.Code != publish.ErrCursorExpired || refusal.Newest == nil || refusal.Newest.N != 2 || refusal.Oldest != nil ||
			!strings.Contains(refusal.Detail, "ahead of the newest event, 0-2: ") || !strings.HasSuffix(refusal.Detail, "go on after 0-2") {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := s.Events(t.Context(), publish.EventsRequest{Reach: publish.Everything, After: &ahead})
	refused("a page", err)
	_, err = s.WaitEvents(t.Context(), publish.EventsRequest{Reach: publish.Everything, After: &ahead}, time.Second)
	refused("a page that is waited for", err)
	refused("a stream", s.FollowEvents(t.Context(), publish.EventsRequest{Reach: publish.Everything, After: &ahead}, time.Hour, func([]publish.Event, publish.EventCursor) error {
		return errors.New("it began")
	}))

	pointers.RaiseEpoch()
	page, err := s.Events(t.Context(), publish.EventsRequest{Reach: publish.Everything, After: &ahead})
	if err != nil || len(page.Events) != 1 || page.Events[0].Kind != publish.EventRestored || page.Next.N != 3 {
		t.Errorf("after a restore that nobody has noticed yet: %+v, %v", page, err)
	}
}

// Nobody waits for what precedes an event.
func TestWaitEventsBefore(t *testing.T) {
	t.Parallel()
	s := &publish.Service{Pointers: publishtest.NewPointers()}
	_, err := s.WaitEvents(t.Context(), publish.EventsRequest{Reach: publish.Everything, Before: &publish.NewestEvent}, time.Second)
	if refusal, ok := errors.AsType[*publish.Error](err); !ok || refusal.Code != publish.ErrInvalidRequest || refusal.Fields[0].Pointer != "wait" {
		t.Errorf("waiting before the newest: %v", err)
	}
}

// What is kept for a while goes by itself.
func TestRunEventsTrims(t *testing.T) {
	t.Parallel()
	pointers := publishtest.NewPointers()
	s := &publish.Service{Pointers: pointers}
	feed(t, s, publish.EventsOptions{Poll: time.Millisecond, Keep: 10 * time.Millisecond})
	pointers.Tell(2500, publish.Event{Kind: publish.EventPublished, Key: "k"})
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		page, err := s.Events(t.Context(), publish.EventsRequest{Reach: publish.Everything, After: &publish.OldestEvent})
		end, errEnd := s.Events(t.Context(), publish.EventsRequest{Reach: publish.Everything})
		if err != nil || errEnd != nil {
			t.Fatal(err, errEnd)
		}
		if end.Next.N == 2500 && len(page.Events) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d events are left", len(page.Events))
		}
	}
}
