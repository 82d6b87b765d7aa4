package publishtest_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/publish/publishtest"
)

const someObject = publish.ObjectName("thumbs/image-52/-/17/k3v9/small.png")

func TestBlobs(t *testing.T) {
	t.Parallel()
	store := publishtest.NewBlobs()
	publishtest.TestBlobStore(t, func(*testing.T) publish.BlobStore { return store })
}

// TestBlobsFaults makes each call fail in both ways and looks what it has done.
func TestBlobsFaults(t *testing.T) {
	t.Parallel()
	full := &publish.Error{Code: publish.ErrQuotaExceeded}
	for _, test := range []struct {
		fault publishtest.Fault
		want  error
		left  int // objects, of one that was there and the one that is put
	}{
		{publishtest.Fault{Operation: "Put"}, publish.ErrUnavailable, 1},
		{publishtest.Fault{Operation: "Put", Err: full}, publish.ErrQuotaExceeded, 1},
		{publishtest.Fault{Operation: "Put", Applied: true}, publish.ErrOutcomeUnknown, 2},
		{publishtest.Fault{Operation: "Delete"}, publish.ErrUnavailable, 2},
		{publishtest.Fault{Operation: "Delete", Applied: true}, publish.ErrOutcomeUnknown, 1},
		{publishtest.Fault{Operation: "Open"}, publish.ErrUnavailable, 1},
		{publishtest.Fault{Operation: "Read"}, publish.ErrUnavailable, 1},
		{publishtest.Fault{Operation: "Stat"}, publish.ErrUnavailable, 1},
		{publishtest.Fault{Operation: "List"}, publish.ErrUnavailable, 1},
		{publishtest.Fault{Operation: "List", Applied: true}, publish.ErrOutcomeUnknown, 1},
		{publishtest.Fault{Operation: "Check"}, publish.ErrUnavailable, 1},
	} {
		store := publishtest.NewBlobs()
		if err := store.Put(t.Context(), "a/-/1/u/first", strings.NewReader("x"), 1, ""); err != nil {
			t.Fatal(err)
		}
		store.Faults.Add(test.fault)
		if err := useBlobs(t.Context(), store); !errors.Is(err, test.want) {
			t.Errorf("%+v gave %v; want %v", test.fault, err, test.want)
		}
		if names := store.Names(); len(names) != test.left {
			t.Errorf("%+v left %q", test.fault, names)
		}
	}
}

// useBlobs calls every method and returns the first error.
func useBlobs(ctx context.Context, store publish.BlobStore) error {
	checkErr := store.Check(ctx)
	if err := store.Put(ctx, someObject, strings.NewReader("data"), 4, ""); err != nil {
		return err
	}
	_, statErr := store.Stat(ctx, someObject)
	reader, openErr := store.Open(ctx, someObject, 0, -1)
	var readErr, listErr error
	if openErr == nil {
		_, readErr = io.ReadAll(reader)
		readErr = errors.Join(readErr, reader.Close())
	}
	for _, listErr = range store.List(ctx, "") {
	}
	return errors.Join(checkErr, statErr, openErr, readErr, listErr, store.Delete(ctx, someObject))
}

// TestBlobsBlock holds a Put back until the test goes on, and ends another by its context.
func TestBlobsBlock(t *testing.T) {
	t.Parallel()
	store := publishtest.NewBlobs()
	reached, release := make(chan struct{}), make(chan struct{})
	hold := func(ctx context.Context) {
		reached <- struct{}{}
		select {
		case <-release:
		case <-ctx.Done():
		}
	}
	store.Faults.Add(publishtest.Fault{Operation: "Put", Times: 2, Before: hold})
	done := make(chan error, 1)
	put := func(ctx context.Context) { done <- store.Put(ctx, someObject, strings.NewReader("x"), 1, "") }

	ctx, cancel := context.WithCancel(t.Context())
	go put(ctx)
	<-reached
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) || len(store.Names()) != 0 {
		t.Errorf("the canceled Put gave %v and left %q", err, store.Names())
	}
	go put(t.Context())
	<-reached
	if len(store.Names()) != 0 {
		t.Error("the Put that is held back has put")
	}
	close(release)
	if err := <-done; err != nil || len(store.Names()) != 1 {
		t.Errorf("the Put that went on gave %v and left %q", err, store.Names())
	}
}
