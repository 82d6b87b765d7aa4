package publish_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/pawlhq/pawl/publish"
)

// What begins with a text, and which prefixes have a key of a reach under them, is as the words say for every name.
func TestReachAndPrefixes(t *testing.T) {
	t.Parallel()
	names := []string{
		"a", "a/b", "a/b/c", "a!", "a!/b", "a0", "ab", "ab/c", "A/b", "a_b", "b", "b/a", "a/\U0010ffff", "a/\U0010ffff\U0010ffff", "\U0010ffff", "a/\ud7ff", "a/\ue000", "é/x",
	}
	prefix := rapid.SampledFrom([]string{"", "a", "a/", "a/b", "a/b/", "a!", "ab/", "a/\U0010ffff", "A/", "é/", "b/a", "a/b/c/d/"})
	rapid.Check(t, func(t *rapid.T) {
		prefixes := rapid.SliceOfN(prefix, 0, 3).Draw(t, "reach")
		reach := publish.ReachOf(prefixes...)
		name := []rune(rapid.SampledFrom(names).Draw(t, "name"))
		text := string(name[:rapid.IntRange(0, len(name)).Draw(t, "length")])
		begins := reach.Beginning(text)
		from, to := begins.Spans()
		for i := range from {
			if !utf8.ValidString(to[i]) || to[i] != "" && from[i] >= to[i] || i > 0 && from[i] <= to[i-1] {
				t.Fatalf("%q beginning with %q: from %q to %q", prefixes, text, from, to)
			}
		}
		for _, key := range names {
			if got, want := begins.Has(publish.Key(key)), reach.Has(publish.Key(key)) && strings.HasPrefix(key, text); got != want {
				t.Fatalf("%q beginning with %q has %q: %v", prefixes, text, key, got)
			}
		}
		asked := strings.TrimSuffix(prefix.Draw(t, "asked"), "/")
		want := slices.ContainsFunc(prefixes, func(held string) bool {
			held = strings.TrimSuffix(held, "/")
			return asked == "" || held == "" || strings.HasPrefix(held+"/", asked+"/") || strings.HasPrefix(asked+"/", held+"/")
		})
		if got := reach.Meets(asked); got != want {
			t.Fatalf("%q meets %q: %v", prefixes, asked, got)
		}
	})
}

// Keys outside the reach resolve as keys that never were, in the places in which they stand, and the store isn't asked for them.
func TestResolveWithinReach(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if _, err := r.UploadAndPublish(t.Context(), r.upload("one"), r.final()); err != nil {
		t.Fatal(err)
	}
	keys := []publish.Key{"none", "k", "k/x", "k"}
	resolve := func(reach publish.Reach) []publish.Resolved {
		t.Helper()
		resolved, err := r.Resolve(t.Context(), reach, keys)
		if err != nil {
			t.Fatal(err)
		}
		for i, key := range keys {
			if resolved[i].Key != key {
				t.Fatalf("%+v in the place of %s", resolved[i], key)
			}
		}
		return resolved
	}
	all := resolve(publish.Everything)
	if !all[1].Found || all[1] != all[3] || all[0].Found {
		t.Fatalf("%+v", all)
	}
	if beside := resolve(publish.ReachOf("k")); !slices.Equal(beside, all) {
		t.Errorf("with the reach of the key: %+v, want %+v", beside, all)
	}
	asked := r.pointers.Faults.Calls("Resolve")
	for _, reach := range []publish.Reach{publish.ReachOf(), publish.ReachOf("k/y", "K", "k_", "%")} {
		for i, got := range resolve(reach) {
			if got != (publish.Resolved{Key: keys[i]}) {
				t.Errorf("outside the reach: %+v", got)
			}
		}
	}
	if again := r.pointers.Faults.Calls("Resolve"); again != asked {
		t.Errorf("the store was asked %d times for what is outside the reach", again-asked)
	}
}

// Streams of events, and requests that wait for them, tell of keys in the reach alone, also when they come from the hub.
func TestFollowEventsWithinReach(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	feed(t, r.Service, publish.EventsOptions{Poll: time.Millisecond})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req := publish.EventsRequest{Reach: publish.ReachOf("team-a/", "end"), After: &publish.OldestEvent}
	told := make(chan publish.Key, 100)
	begun, ended := make(chan struct{}), make(chan error, 1)
	tell := func() {
		for _, key := range []publish.Key{"team-ab/x", "team-a", "team-a/x", "TEAM-A/x", "team-a!/x", "team-a/y"} {
			r.pointers.Tell(1, publish.Event{Kind: publish.EventPublished, Key: key})
		}
	}
	tell() // It is caught up with.
	go func() {
		ended <- r.FollowEvents(ctx, req, time.Hour, func(events []publish.Event, _ publish.EventCursor) error {
			for _, e := range events {
				if told <- e.Key; len(told) == 1 {
					close(begun)
				}
				if e.Key == "end" {
					return errRead
				}
			}
			return nil
		})
	}()
	<-begun
	page, err := r.WaitEvents(ctx, publish.EventsRequest{Reach: publish.ReachOf("team-ab"), After: &publish.OldestEvent}, publish.MaxEventsWait)
	if err != nil || len(page.Events) != 1 || page.Events[0].Key != "team-ab/x" {
		t.Errorf("it waited for %+v, %v", page, err)
	}
	waited := make(chan error, 1)
	go func() { // It waits at the hub.
		page, err := r.WaitEvents(ctx, publish.EventsRequest{Reach: publish.ReachOf("end"), Limit: 1}, publish.MaxEventsWait)
		if err == nil && (len(page.Events) != 1 || page.Events[0].Key != "end") {
			err = fmt.Errorf("it waited for %+v", page)
		}
		waited <- err
	}()
	tell()
	for waiting := true; waiting; {
		r.pointers.Tell(1, publish.Event{Kind: publish.EventPublished, Key: "end"})
		select {
		case err = <-waited:
			waiting = false
		case <-time.After(10 * time.Millisecond): // It may not have begun to wait.
		}
	}
	if err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, errRead) {
		t.Fatal(err)
	}
	close(told)
	var got []publish.Key
	for key := range told {
		got = append(got, key)
	}
	if want := []publish.Key{"team-a/x", "team-a/y", "team-a/x", "team-a/y", "end"}; !slices.Equal(got, want) {
		t.Errorf("told of %q, want %q", got, want)
	}
}

// A cursor that names a key outside the reach is refused: what follows it would tell whether the key exists.
func TestCursorsStayInReach(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if _, err := r.UploadAndPublish(t.Context(), r.upload("one"), r.final()); err != nil {
		t.Fatal(err)
	}
	stale := r.grant
	for _, holder := range []string{"b", "c"} {
		r.grant = r.acquire(holder)
		if _, err := r.UploadAndPublish(t.Context(), r.upload(holder), r.final()); err != nil {
			t.Fatal(err)
		}
		late := r.upload("late")
		late.Grant = stale
		if _, err := r.Upload(t.Context(), late); !errors.Is(err, publish.ErrStaleToken) {
			t.Fatal(err)
		}
		stale = r.grant
	}
	lease, err := r.Acquire(t.Context(), publish.AcquireRequest{Key: "l", Holder: "d", TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	r.grant = publish.Grant{Key: "l", Token: lease.Token, LeaseID: lease.LeaseID}
	if _, err := r.UploadAndPublish(t.Context(), r.upload("l"), r.final()); err != nil {
		t.Fatal(err)
	}
	calls := map[string]func(publish.Reach, string) (string, error){
		"leases": func(reach publish.Reach, after string) (string, error) {
			page, err := r.Leases(t.Context(), publish.LeasesRequest{Reach: reach, Expired: true, After: after, Limit: 1})
			return page.Next, err
		},
		"rejections": func(reach publish.Reach, after string) (string, error) {
			page, err := r.Rejections(t.Context(), publish.RejectionsRequest{Reach: reach, After: after, Limit: 1})
			return page.Next, err
		},
	}
	for _, sort := range publish.BrowseSorts() {
		if !sort.ByName() { // A name is compared with others there, and not looked up.
			calls["browse by "+string(sort)] = func(reach publish.Reach, after string) (string, error) {
				page, err := r.Browse(t.Context(), publish.BrowseRequest{Reach: reach, Sort: sort, After: after, Limit: 1})
				return page.Next, err
			}
		}
	}
	for name, call := range calls {
		next, err := call(publish.Everything, "")
		if err != nil || next == "" {
			t.Fatalf("%s: %q, %v", name, next, err)
		}
		if _, err := call(publish.ReachOf("k", "l"), next); err != nil {
			t.Errorf("%s goes on in the reach with %v", name, err)
		}
		var refusal *publish.Error
		if _, err := call(publish.ReachOf("k/", "m"), next); !errors.As(err, &refusal) || refusal.Code != publish.ErrInvalidRequest || refusal.Fields[0].Pointer != "after" {
			t.Errorf("%s goes on outside the reach with %v", name, err)
		}
	}
}
