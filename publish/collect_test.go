package publish_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/publish/publishtest"
)

// collectRig is a rig whose blob store panics when an object goes that a kept generation names. Its policy keeps one generation beside the
// current one.
func collectRig(t *testing.T) *rig {
	t.Helper()
	r := newRig(t)
	r.blobs.Keeps = r.pointers.Keeps
	r.Direct = r.blobs
	r.Markers = true
	var calls atomic.Int64 // No two changes are at the same time.
	r.pointers.Clock = func() time.Time { return time.Now().Add(time.Duration(calls.Add(1)) * time.Microsecond) }
	policy := publish.Policy{FenceMode: publish.FenceAccepted, KeepGenerations: 1, KeepUnpublishedFor: publish.Duration{Duration: time.Hour}}
	if err := r.SetPolicy(t.Context(), policy, "ops"); err != nil {
		t.Fatal(err)
	}
	return r
}

// output publishes files of a new grant, on top of those of reuse if that isn't 0, and returns the grant.
func (r *rig) output(reuse publish.Token, paths ...publish.Path) publish.Grant {
	r.Helper()
	grant := r.acquire("w")
	for _, path := range paths {
		content := fmt.Sprintf("%s of %d", path, grant.Token)
		_, err := r.Upload(r.Context(), publish.UploadRequest{Grant: grant, Path: path, Size: int64(len(content)), Body: strings.NewReader(content)})
		if err != nil {
			r.Fatal(err)
		}
	}
	if _, err := r.Publish(r.Context(), publish.PublishRequest{Grant: grant, Final: true, ReuseFrom: reuse, ReuseStale: reuse != 0}); err != nil {
		r.Fatal(err)
	}
	return grant
}

// history makes eight generations, 2 to 9, of which 2 to 7 may be collected after an hour: two that share a file with the kept
// ones, one that was abandoned with files, an unfinished upload in parts and an object of which no row tells.
func (r *rig) history() {
	r.Helper()
	first := r.output(0, "a", "b")
	r.output(first.Token, "b")
	abandoned := r.acquire("dead")
	if _, err := r.Upload(r.Context(), publish.UploadRequest{Grant: abandoned, Path: "half", Size: 1, Body: strings.NewReader("x")}); err != nil {
		r.Fatal(err)
	}
	id := fmt.Sprintf("k/-/%d/%032x/", abandoned.Token, 7)
	if _, err := r.blobs.StartParts(r.Context(), publish.ObjectName(id+"parts"), ""); err != nil {
		r.Fatal(err)
	}
	if err := r.blobs.Put(r.Context(), publish.ObjectName(id+"lost"), strings.NewReader("of no row"), 9, ""); err != nil {
		r.Fatal(err)
	}
	r.output(3, "c")
	r.output(0, "alone")
	r.output(0, "alone")
	r.output(3, "d")
	r.output(8, "e")
}

// kept are the objects that kept generations name, and their markers.
func (r *rig) kept() (names []publish.ObjectName) {
	for _, name := range r.blobs.Names() {
		token, _, _ := strings.Cut(strings.TrimPrefix(string(name), "k/-/"), "/")
		if r.pointers.Keeps(name) || strings.HasSuffix(string(name), "/published/receipt.json") && (token == "8" || token == "9") {
			names = append(names, name)
		}
	}
	return names
}

// clean checks that the blob store has what is kept, and nothing else.
func (r *rig) clean() {
	r.Helper()
	if diff := cmp.Diff(r.kept(), r.blobs.Names()); diff != "" || r.blobs.Multiparts() != 0 {
		r.Errorf("%d uploads in parts are left, and of objects (-kept +there):\n%s", r.blobs.Multiparts(), diff)
	}
}

func (r *rig) collect(opts publish.CollectOptions) publish.CollectReport {
	r.Helper()
	report, err := r.Collect(r.Context(), opts)
	if err != nil {
		r.Fatal(err)
	}
	return report
}

// What neither a policy nor the grace keeps goes, but for what is shared. A dry run tells it before and changes nothing.
func TestCollect(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := collectRig(t)
		r.history()
		there := r.blobs.Names()
		time.Sleep(2 * time.Hour)
		if got := r.collect(publish.CollectOptions{Grace: 3 * time.Hour}); got != (publish.CollectReport{}) {
			t.Errorf("within the grace: %+v", got)
		}
		dry := r.collect(publish.CollectOptions{Grace: time.Hour, DryRun: true})
		if diff := cmp.Diff(there, r.blobs.Names()); diff != "" || dry.Condemned != 7 || dry.Collected != 0 {
			t.Errorf("a dry run says %+v and changes (-before +after):\n%s", dry, diff)
		}
		got := r.collect(publish.CollectOptions{Grace: time.Hour})
		if got.Condemned != 7 || got.Collected < 7 || got.Aborted != 1 || got.Errors != 0 || got.More {
			t.Errorf("collected %+v", got)
		}
		if len(there)-len(r.blobs.Names()) != got.Objects || dry.Objects != got.Objects || dry.Bytes != got.Bytes {
			t.Errorf("%d objects are gone, the report says %+v, the dry run %+v", len(there)-len(r.blobs.Names()), got, dry)
		}
		r.clean()
		for _, path := range []publish.Path{"a", "b", "d", "e"} {
			if file, err := r.CurrentFile(t.Context(), "k", path); err != nil {
				t.Error(err)
			} else if _, there := r.blobs.Object(file.Object); !there {
				t.Errorf("%s is gone, which the current version names", file.Object)
			}
		}
		if got := r.collect(publish.CollectOptions{Grace: time.Hour}); got != (publish.CollectReport{}) {
			t.Errorf("again: %+v", got)
		}
	})
}

// What several generations share goes with the last of them, in whatever order they are emptied.
func TestCollectShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := collectRig(t)
		first := r.output(0, "a")
		second := r.output(first.Token, "b")
		r.output(second.Token, "c")
		for range 3 {
			time.Sleep(2 * time.Hour)
			r.collect(publish.CollectOptions{Grace: time.Hour})
			r.output(0, "new")
		}
		r.output(0, "newer")
		time.Sleep(2 * time.Hour)
		r.collect(publish.CollectOptions{Grace: time.Hour})
		var left []string
		for _, name := range r.blobs.Names() {
			if r.pointers.Keeps(name) {
				left = append(left, string(name[strings.LastIndex(string(name), "/")+1:]))
			} else if !strings.HasSuffix(string(name), "receipt.json") {
				t.Errorf("%s is left", name)
			}
		}
		if diff := cmp.Diff([]string{"new", "newer"}, left); diff != "" {
			t.Errorf("kept (-want +got):\n%s", diff)
		}
	})
}

// Whatever fails, with or without an effect, or stops the process: the next collection ends the work, and nothing is left or lost.
func TestCollectInterrupted(t *testing.T) {
	t.Parallel()
	for _, operation := range []string{"Collectable", "Condemn", "DueGenerations", "Referenced", "Emptied", "Unfinished", "Discard", "List", "Delete"} {
		for _, applied := range []bool{false, true} {
			for nth := range 8 {
				t.Run(fmt.Sprintf("%s/%t/%d", operation, applied, nth), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						r := collectRig(t)
						r.history()
						time.Sleep(2 * time.Hour)
						ctx, kill := context.WithCancel(t.Context())
						defer kill()
						faults := &r.pointers.Faults
						switch operation {
						case "Unfinished", "Discard", "List", "Delete":
							faults = &r.blobs.Faults
						}
						if nth > 0 {
							faults.Add(publishtest.Fault{Operation: operation, Times: nth, Before: func(context.Context) {}})
						}
						faults.Add(publishtest.Fault{Operation: operation, Applied: applied})
						first, err := r.Collect(ctx, publish.CollectOptions{Grace: time.Hour})
						if faults.Calls(operation) > nth && err == nil && first.Errors == 0 {
							t.Errorf("a fault of %s is not told: %+v", operation, first)
						}
						faults.Clear()
						second := r.collect(publish.CollectOptions{Grace: time.Hour})
						if second.Errors != 0 || first.Condemned+second.Condemned > 7 {
							t.Errorf("first %+v, then %+v", first, second)
						}
						r.clean()
						for _, token := range []publish.Token{8, 9} {
							if _, err := r.File(t.Context(), "k", token, "a", publish.LeaseID{}); err != nil {
								t.Errorf("a file that is shared: %v", err)
							}
						}
					})
				})
			}
		}
	}
}

// A blob store that is away ends a collection soon, which says that there is more.
func TestCollectStoreAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := collectRig(t)
		for range 100 {
			r.acquire("w")
		}
		time.Sleep(2 * time.Hour)
		r.blobs.Faults.Add(publishtest.Fault{Operation: "List", Times: -1})
		got := r.collect(publish.CollectOptions{Grace: time.Hour})
		if got.Errors < 20 || got.Errors > 30 || !got.More || got.Collected != 0 {
			t.Errorf("collected %+v", got)
		}
		r.blobs.Faults.Clear()
		if got := r.collect(publish.CollectOptions{Grace: time.Hour}); got.Errors != 0 || got.Collected != 101 {
			t.Errorf("then collected %+v", got)
		}
	})
}

// Case 20: what a signed request leaves in a generation that was collected goes with a later pass.
func TestCase20CollectLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := collectRig(t)
		grant := r.acquire("w")
		promise := r.promise("late")
		promise.Grant = grant
		direct, err := r.BeginDirect(t.Context(), promise)
		if err != nil {
			t.Fatal(err)
		}
		r.pointers.Antedate("k", 2*time.Hour)
		if got := r.collect(publish.CollectOptions{}); got.Collected != 2 {
			t.Fatalf("collected %+v", got)
		}
		if err := r.blobs.Deliver(*direct.Put, []byte("late")); err != nil {
			t.Fatal(err)
		}
		if got := r.collect(publish.CollectOptions{}); got != (publish.CollectReport{}) {
			t.Errorf("too early: %+v", got)
		}
		time.Sleep(25 * time.Hour)
		if got := r.collect(publish.CollectOptions{}); got.Objects != 1 || got.Collected != 2 {
			t.Errorf("late: %+v", got)
		}
		r.clean()
		time.Sleep(25 * time.Hour)
		if got := r.collect(publish.CollectOptions{}); got != (publish.CollectReport{}) {
			t.Errorf("afterwards: %+v", got)
		}
	})
}

// Who has looked a file up when its generation was given up a moment later learns that, not of missing bytes.
func TestReadOfCollected(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := collectRig(t)
		first := r.output(0, "f")
		file, err := r.File(t.Context(), "k", first.Token, "f", publish.LeaseID{})
		if err != nil {
			t.Fatal(err)
		}
		r.output(0, "f")
		r.output(0, "f")
		time.Sleep(2 * time.Hour)
		r.collect(publish.CollectOptions{})
		if _, err := r.OpenFile(t.Context(), file, 0, -1); !errors.Is(err, publish.ErrGenerationCollected) {
			t.Errorf("opened with %v", err)
		}
	})
}

// Limit bounds what is condemned, Rate how fast objects go, Prefix which keys are looked at.
func TestCollectBounds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := collectRig(t)
		for range 12 {
			r.output(0, "f")
		}
		time.Sleep(2 * time.Hour)
		if got := r.collect(publish.CollectOptions{Prefix: "k2"}); got != (publish.CollectReport{}) {
			t.Errorf("below another prefix: %+v", got)
		}
		// The first generation has no objects, the others a file and a marker each.
		if got := r.collect(publish.CollectOptions{Prefix: "k", Limit: 1}); got.Condemned != 1 || got.Collected != 1 || !got.More {
			t.Errorf("limited: %+v", got)
		}
		began := time.Now()
		got := r.collect(publish.CollectOptions{Rate: 2})
		if took := time.Since(began); got.Objects != 20 || took < 9*time.Second || took > 11*time.Second {
			t.Errorf("%d objects in %s, at 2 a second", got.Objects, took)
		}
	})
}

// One process collects at a time. One that loses the duty ends; the other one goes on.
func TestCollectAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := collectRig(t)
		r.history()
		time.Sleep(2 * time.Hour)
		blocked, goOn := make(chan struct{}), make(chan struct{})
		r.blobs.Faults.Add(publishtest.Fault{Operation: "Delete", Before: func(context.Context) { close(blocked); <-goOn }})
		ended := make(chan error, 1)
		opts := publish.CollectOptions{Grace: time.Hour}
		go func() {
			_, _, err := r.CollectAlone(t.Context(), "a", opts)
			ended <- err
		}()
		<-blocked
		time.Sleep(time.Minute) // It renews.
		if _, elected, err := r.CollectAlone(t.Context(), "b", opts); elected || err != nil {
			t.Errorf("b is elected beside a: %t, %v", elected, err)
		}
		// a is stopped for longer than its duty lasts, as by SIGSTOP.
		if err := r.pointers.LeaveDuty(t.Context(), "collect", "a"); err != nil {
			t.Fatal(err)
		}
		if has, err := r.pointers.TakeDuty(t.Context(), "collect", "b", time.Hour); err != nil || !has {
			t.Fatal(has, err)
		}
		r.collect(opts)
		time.Sleep(time.Minute)
		close(goOn)
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "another process") {
			t.Errorf("a ends with %v", err)
		}
		r.clean()
		if _, elected, _ := r.CollectAlone(t.Context(), "b", opts); !elected {
			t.Error("b isn't elected")
		}
		if has, err := r.pointers.TakeDuty(t.Context(), "collect", "c", time.Hour); err != nil || !has {
			t.Errorf("b has kept the duty: %v", err)
		}
	})
}
