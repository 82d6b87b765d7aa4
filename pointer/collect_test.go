package pointer_test

import (
	"context"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/pointer"
	"github.com/pawlhq/pawl/publish"
)

const (
	condemnCall = `SELECT pawl.condemn($1, $2, 0)`
	reuseCall   = `SELECT pawl.publish($1, $3, sha256(convert_to($2::text, 'UTF8')), true, NULL, NULL, '{}', NULL, false, NULL, NULL, false, NULL, false, $4, true)`
)

// bothModes runs a test in both fence modes, under a policy that keeps next to nothing.
func bothModes(t *testing.T, name string, test func(t *testing.T, worker, collector *session, store *pointer.Store, age func())) {
	t.Helper()
	for _, mode := range []publish.FenceMode{publish.FenceAccepted, publish.FenceGranted} {
		t.Run(string(mode)+"/"+name, func(t *testing.T) {
			t.Parallel()
			store, dsn := newStore(t)
			policy := publish.Policy{
				FenceMode: mode, KeepGenerations: 1,
				KeepFor: publish.Duration{Duration: time.Hour}, KeepUnpublishedFor: publish.Duration{Duration: time.Hour},
			}
			if err := store.SetPolicy(context.Background(), policy, "ops"); err != nil {
				t.Fatal(err)
			}
			worker, collector := open(t, dsn), open(t, dsn)
			worker.call(acquireCall, raceKey, "A")
			worker.put("A", 1, "a")
			worker.next()
			test(t, worker, collector, store, func() { antedate(t, dsn, raceKey, 2*time.Hour) })
		})
	}
}

// next commits and begins again.
func (s *session) next() {
	s.t.Helper()
	s.commit()
	s.begin()
}

func wantDone(t *testing.T, a answer, want bool) {
	t.Helper()
	if a.Done != want {
		t.Errorf("condemned: %t, want %t", a.Done, want)
	}
}

func wantState(t *testing.T, store *pointer.Store, token publish.Token, want publish.State) {
	t.Helper()
	g, err := store.Generation(context.Background(), raceKey, token)
	if err != nil || g.State != want {
		t.Errorf("generation %d is %s, %v; want %s", token, g.State, err, want)
	}
}

// A publish and a collector that meet: either the generation is current and kept, or it is condemned and not published.
func TestCondemnAgainstPublish(t *testing.T) {
	t.Parallel()
	bothModes(t, "condemn first", func(t *testing.T, worker, collector *session, store *pointer.Store, age func()) {
		age()
		wantDone(t, collector.call(condemnCall, raceKey, 1), true)
		wantCode(t, "publish", worker.behind(collector, publishCall, raceKey, "A", 1), publish.ErrGenerationCollected)
		wantState(t, store, 1, publish.StateCondemned)
	})
	bothModes(t, "publish first", func(t *testing.T, worker, collector *session, store *pointer.Store, age func()) {
		age()
		wantCode(t, "publish", worker.call(publishCall, raceKey, "A", 1), "")
		wantDone(t, collector.behind(worker, condemnCall, raceKey, 1), false)
		wantState(t, store, 1, publish.StateSealed)
	})
	bothModes(t, "superseding publish first", func(t *testing.T, worker, collector *session, store *pointer.Store, age func()) {
		worker.call(publishCall, raceKey, "A", 1)
		worker.exec(expireCall, raceKey)
		worker.call(acquireCall, raceKey, "B")
		worker.put("B", 2, "b")
		worker.next()
		age()
		wantCode(t, "publish", worker.call(publishCall, raceKey, "B", 2), "")
		// It was current a moment ago: whoever has resolved it may still read it.
		wantDone(t, collector.behind(worker, condemnCall, raceKey, 1), false)
		wantState(t, store, 1, publish.StateSealed)
	})
}

// An upload that is registered or begun, and a collector: either it counts and the generation is kept, or it is refused.
func TestCondemnAgainstUpload(t *testing.T) {
	t.Parallel()
	for _, step := range []struct {
		name string
		call func(number int64) (string, []any)
	}{
		{"complete", func(number int64) (string, []any) { return completeCall, []any{raceKey, "A", 1, "late", number} }},
		{"begin", func(int64) (string, []any) { return beginCall, []any{raceKey, "A", 1, "later"} }},
	} {
		bothModes(t, step.name+" behind condemn", func(t *testing.T, worker, collector *session, store *pointer.Store, age func()) {
			begun := worker.call(beginCall, raceKey, "A", 1, "late")
			worker.next()
			age()
			wantDone(t, collector.call(condemnCall, raceKey, 1), true)
			sql, args := step.call(begun.Number)
			wantCode(t, step.name, worker.behind(collector, sql, args...), publish.ErrGenerationCollected)
			wantState(t, store, 1, publish.StateCondemned)
		})
		bothModes(t, "condemn behind "+step.name, func(t *testing.T, worker, collector *session, store *pointer.Store, age func()) {
			begun := worker.call(beginCall, raceKey, "A", 1, "late")
			worker.next()
			age()
			sql, args := step.call(begun.Number)
			wantCode(t, step.name, worker.call(sql, args...), "")
			wantDone(t, collector.behind(worker, condemnCall, raceKey, 1), false)
			wantState(t, store, 1, publish.StateOpen)
		})
	}
}

// A publish that reuses files, or a rollback, and a collector of the generation that they are taken from: either that one is condemned and nothing is
// taken from it, or its objects are referenced.
func TestCondemnAgainstReuse(t *testing.T) {
	t.Parallel()
	for _, take := range []struct {
		name string
		sql  string
		args []any
	}{
		{"reuse", reuseCall, []any{raceKey, "D", 4, 1}},
		{"rollback", rollbackCall, []any{raceKey, "R"}},
	} {
		// Generation 1 is published, and 2 and 3 after it, so that one beside the current is kept. D has token 4.
		prepare := func(worker *session, age func()) {
			worker.call(publishCall, raceKey, "A", 1)
			for token, lease := range []string{"", "", "B", "C", "D"} {
				if lease != "" {
					worker.exec(expireCall, raceKey)
					worker.call(acquireCall, raceKey, lease)
					worker.put(lease, int64(token), lease)
					if lease != "D" {
						worker.call(publishCall, raceKey, lease, int64(token))
					}
				}
			}
			worker.next()
			age()
		}
		object := func(t *testing.T, store *pointer.Store) []publish.StoredUpload {
			file, err := store.File(context.Background(), raceKey, 1, "a", publish.LeaseID{})
			if err != nil {
				t.Fatal(err)
			}
			return []publish.StoredUpload{storedUpload(t, file.Object)}
		}
		bothModes(t, take.name+" behind condemn", func(t *testing.T, worker, collector *session, store *pointer.Store, age func()) {
			prepare(worker, age)
			objects := object(t, store)
			wantDone(t, collector.call(condemnCall, raceKey, 1), true)
			wantCode(t, take.name, worker.behind(collector, take.sql, take.args...), publish.ErrGenerationCollected)
			wantReferenced(t, store, objects, false)
		})
		bothModes(t, "condemn behind "+take.name, func(t *testing.T, worker, collector *session, store *pointer.Store, age func()) {
			prepare(worker, age)
			objects := object(t, store)
			wantCode(t, take.name, worker.call(take.sql, take.args...), "")
			wantDone(t, collector.behind(worker, condemnCall, raceKey, 1), true)
			wantReferenced(t, store, objects, true)
		})
	}
}

func wantReferenced(t *testing.T, store *pointer.Store, objects []publish.StoredUpload, want ...bool) {
	t.Helper()
	got, err := store.Referenced(context.Background(), publish.GenerationName{Key: raceKey, Token: 1}, objects)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("referenced: %v %s", err, diff)
	}
}

// storedUpload takes the name of an object apart.
func storedUpload(t *testing.T, object publish.ObjectName) (upload publish.StoredUpload) {
	t.Helper()
	_, rest, found := strings.Cut(string(object), "/-/")
	parts := strings.SplitN(rest, "/", 3)
	if !found || len(parts) != 3 {
		t.Fatalf("%q is no object's name", object)
	}
	if _, err := hex.Decode(upload.ID[:], []byte(parts[1])); err != nil {
		t.Fatal(err)
	}
	upload.Path = publish.Path(parts[2])
	return upload
}

// A renewal and a collector that meet, and likewise the repeat of an acquire: either the lease is whole and the generation is given up after it, which its
// holder learns by the next one, or it is given up before and the lease ends.
func TestCondemnAgainstRenew(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]string{
		"renew":   `SELECT pawl.unless_collected(pawl.renew($1, sha256(convert_to($2::text, 'UTF8')), NULL), 'renew', $1, sha256(convert_to($2::text, 'UTF8')))`,
		"acquire": `SELECT pawl.unless_collected(pawl.acquire($1, sha256(convert_to($2::text, 'UTF8')), $2::text, 60000, '{}'), 'acquire', $1, sha256(convert_to($2::text, 'UTF8')))`,
	} {
		bothModes(t, name+" behind condemn", func(t *testing.T, worker, collector *session, store *pointer.Store, age func()) {
			age()
			wantDone(t, collector.call(condemnCall, raceKey, 1), true)
			wantCode(t, name, worker.behind(collector, call, raceKey, "A"), publish.ErrGenerationCollected)
			if lease, err := store.Lease(t.Context(), raceKey); err != nil || lease.Held {
				t.Errorf("the lease goes on: %+v, %v", lease, err)
			}
		})
		bothModes(t, "condemn behind "+name, func(t *testing.T, worker, collector *session, store *pointer.Store, age func()) {
			age()
			wantCode(t, name, worker.call(call, raceKey, "A"), "")
			wantDone(t, collector.behind(worker, condemnCall, raceKey, 1), true)
			worker.begin()
			wantCode(t, name+" again", worker.call(call, raceKey, "A"), publish.ErrGenerationCollected)
			wantCode(t, "B acquires at once", worker.call(acquireCall, raceKey, "B"), "")
			worker.commit()
			if lease, err := store.Lease(t.Context(), raceKey); err != nil || lease.Token != 2 || !lease.Held {
				t.Errorf("B has %+v, %v", lease, err)
			}
		})
	}
}
