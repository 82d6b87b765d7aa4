package publish_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/publish/publishtest"
)

// sweepOptions leave no pauses, so that tests are quick.
var sweepOptions = publish.SweepOptions{Grace: time.Hour, Idle: time.Hour, Pause: 1}

// sweepRig is a rig whose blob store panics when a stored file is discarded.
func sweepRig(t *testing.T) *rig {
	t.Helper()
	r := newRig(t)
	r.blobs.Counts = r.pointers.Counts
	return r
}

// swept sweeps and checks what came of it.
func (r *rig) swept(want publish.SweepReport) {
	r.Helper()
	got, err := r.Sweep(r.Context(), sweepOptions)
	if err != nil || got != want {
		r.Fatalf("swept %+v, %v; want %+v", got, err, want)
	}
}

// keep lets time pass as a server does that says what is alive.
func (r *rig) keep(d time.Duration) {
	r.Helper()
	for ; d > 0; d -= sweepOptions.KeepEvery() {
		if err := r.KeepUploads(r.Context(), sweepOptions); err != nil {
			r.Fatal(err)
		}
		time.Sleep(sweepOptions.KeepEvery())
	}
}

// trickle is a body that gives a byte every now and then until it is told to end.
func trickle(end <-chan struct{}) io.Reader { return &trickling{end: end} }

type trickling struct{ end <-chan struct{} }

func (b *trickling) Read(p []byte) (int, error) {
	select {
	case <-b.end:
		return 0, io.EOF
	case <-time.After(time.Minute):
		p[0] = 'x'
		return 1, nil
	}
}

// A crash leaves a pending row, and an object if it came late. Both are swept: the row is failed first, the object goes after the grace.
func TestSweepAfterACrash(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := sweepRig(t)
		if _, err := r.Upload(t.Context(), publish.UploadRequest{Grant: r.grant, Path: "kept", Size: 1, Body: strings.NewReader("x")}); err != nil {
			t.Fatal(err)
		}
		crashed, err := r.pointers.BeginUpload(t.Context(), publish.BeginUploadRequest{Grant: r.grant, Path: "f", ID: publish.UploadID{1}})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.blobs.Put(t.Context(), crashed.Upload.Object(), strings.NewReader("whole"), 5, ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		r.swept(publish.SweepReport{}) // Nobody has said yet what is alive.
		r.keep(61 * time.Minute)
		r.swept(publish.SweepReport{Failed: 1})
		if len(r.blobs.Names()) != 2 {
			t.Errorf("objects: %v", r.blobs.Names())
		}
		r.keep(61 * time.Minute)
		r.swept(publish.SweepReport{Discarded: 1})
		r.swept(publish.SweepReport{})
		if len(r.blobs.Names()) != 1 {
			t.Errorf("objects: %v", r.blobs.Names())
		}
	})
}

// An upload that takes a day is alive all the while, although nothing but its server's word tells, and an outage of the database in between is
// longer than what would make it dead.
func TestSweepLeavesTheLivingAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := sweepRig(t)
		end, done := make(chan struct{}), make(chan error, 1)
		go func() {
			_, err := r.Upload(t.Context(), publish.UploadRequest{Grant: r.grant, Path: "f", Size: -1, Body: trickle(end)})
			done <- err
		}()
		for range 12 {
			r.keep(time.Hour)
			r.swept(publish.SweepReport{})
		}
		r.pointers.Faults.Add(publishtest.Fault{Operation: "KeepUploads", Times: -1})
		for range 5 {
			if err := r.KeepUploads(t.Context(), sweepOptions); !errors.Is(err, publish.ErrUnavailable) {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
		}
		r.pointers.Faults.Clear()
		// Another server may sweep before the one with the upload has said a word.
		other := &publish.Service{Pointers: r.pointers, Blobs: r.blobs, Log: r.Log}
		if err := other.KeepUploads(t.Context(), sweepOptions); err != nil {
			t.Fatal(err)
		}
		if report, err := other.Sweep(t.Context(), sweepOptions); err != nil || report != (publish.SweepReport{}) {
			t.Fatalf("swept %+v, %v", report, err)
		}
		for range 12 {
			r.keep(time.Hour)
			r.swept(publish.SweepReport{})
		}
		close(end)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if _, err := r.Publish(t.Context(), r.final()); err != nil {
			t.Fatal(err)
		}
		r.keep(3 * time.Hour)
		r.swept(publish.SweepReport{})
	})
}

// What an upload stores after it was swept, because its server couldn't reach the database, is swept again.
func TestSweepOfWhatCameLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := sweepRig(t)
		late := &publish.Service{Pointers: r.pointers, Blobs: r.blobs, Log: r.Log}
		end, done := make(chan struct{}), make(chan error, 1)
		go func() {
			_, err := late.Upload(t.Context(), publish.UploadRequest{Grant: r.grant, Path: "f", Size: -1, Body: trickle(end)})
			done <- err
		}()
		r.keep(2 * time.Hour)
		r.swept(publish.SweepReport{Failed: 1})
		r.keep(2 * time.Hour)
		r.swept(publish.SweepReport{Discarded: 1})
		close(end)
		if err := <-done; !errors.Is(err, publish.ErrGenerationIncomplete) {
			t.Fatalf("the end of an upload that was given up: %v", err)
		}
		if len(r.blobs.Names()) != 1 {
			t.Fatalf("objects: %v", r.blobs.Names())
		}
		if err := late.KeepUploads(t.Context(), sweepOptions); err != nil {
			t.Fatal(err)
		}
		r.keep(2 * time.Hour)
		r.swept(publish.SweepReport{Discarded: 1})
		if len(r.blobs.Names()) != 0 {
			t.Errorf("objects: %v", r.blobs.Names())
		}
	})
}

// What can't be removed stays due, for this process and for one that is started later, and doesn't stand before the rest.
func TestSweepTriesAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := sweepRig(t)
		for range 30 {
			r.blobs.Faults.Add(publishtest.Fault{Operation: "Put", Applied: true})
			if _, err := r.Upload(t.Context(), r.upload("content")); err == nil {
				t.Fatal("the upload succeeded")
			}
		}
		r.keep(2 * time.Hour)
		r.blobs.Faults.Add(publishtest.Fault{Operation: "Discard", Times: 25})
		r.swept(publish.SweepReport{Errors: 20}) // The store seems to be away.
		r.swept(publish.SweepReport{Errors: 5, Discarded: 5})
		r.pointers.Faults.Add(publishtest.Fault{Operation: "Swept"}) // A crash before the end has the same effect.
		restarted := &publish.Service{Pointers: r.pointers, Blobs: r.blobs, Log: r.Log}
		if _, err := restarted.Sweep(t.Context(), sweepOptions); !errors.Is(err, publish.ErrUnavailable) {
			t.Fatal(err)
		}
		r.swept(publish.SweepReport{Discarded: 25})
		if len(r.blobs.Names()) != 0 {
			t.Errorf("objects: %v", r.blobs.Names())
		}
		r.swept(publish.SweepReport{})
	})
}

// A sweep ends soon when it is told to, notes what it has done, and goes on in the next one; its limit cuts it likewise.
func TestSweepIsCut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := sweepRig(t)
		for range 10 {
			r.blobs.Faults.Add(publishtest.Fault{Operation: "Put", Applied: true})
			if _, err := r.Upload(t.Context(), r.upload("content")); err == nil {
				t.Fatal("the upload succeeded")
			}
		}
		r.keep(2 * time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		r.blobs.Faults.Add(publishtest.Fault{Operation: "Discard", Times: 2, Before: func(context.Context) {}})
		r.blobs.Faults.Add(publishtest.Fault{Operation: "Discard", Before: func(context.Context) { cancel() }})
		report, err := r.Sweep(ctx, sweepOptions)
		if !errors.Is(err, context.Canceled) || report.Discarded != 2 {
			t.Errorf("swept %+v, %v", report, err)
		}
		opts := sweepOptions
		opts.Limit = 5
		if report, err := r.Sweep(t.Context(), opts); err != nil || report != (publish.SweepReport{Discarded: 5, More: true}) {
			t.Errorf("swept %+v, %v", report, err)
		}
		r.swept(publish.SweepReport{Discarded: 3})
	})
}
