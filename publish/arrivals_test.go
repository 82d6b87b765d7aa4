package publish_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/publish/publishtest"
)

// TestArrivals: what came first is first, however long the store takes to begin it: the last of many uploads counts, and a deletion behind
// them deletes.
func TestArrivals(t *testing.T) {
	t.Parallel()
	for _, last := range []string{"upload", "refusal", "deletion"} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			goOn := make(chan struct{})
			r.pointers.Faults.Add(publishtest.Fault{Operation: "BeginUpload", Before: func(context.Context) { <-goOn }})
			var all sync.WaitGroup
			arrive := func(do func() error) {
				all.Go(func() {
					if err := do(); err != nil {
						t.Error(err)
					}
				})
				synctest.Wait()
			}
			upload := func(path publish.Path, content string) func() error {
				return func() error {
					req := r.upload(content)
					req.Path = path
					_, err := r.Upload(t.Context(), req)
					return err
				}
			}
			arrive(upload("f", "first"))
			arrive(upload("f", "second"))
			switch last {
			case "upload":
				arrive(upload("f", "third"))
			case "refusal":
				arrive(func() error {
					if err := r.RefuseUpload(t.Context(), r.grant, "f", publish.ErrInvalidRequest); !errors.Is(err, publish.ErrInvalidRequest) {
						return err
					}
					return nil
				})
			case "deletion":
				arrive(func() error { return r.DeleteFile(t.Context(), r.grant, "f") })
			}
			arrive(upload("g", "another path"))
			if _, err := r.File(t.Context(), "k", r.grant.Token, "g", r.grant.LeaseID); err != nil {
				t.Errorf("another path waits too: %v", err)
			}
			close(goOn)
			all.Wait()

			_, err := r.Publish(t.Context(), publish.PublishRequest{Grant: r.grant, Final: true, Primary: "g"})
			if last == "refusal" {
				is(t, last, err, publish.ErrGenerationIncomplete)
				return
			}
			is(t, last, err, "")
			if last == "deletion" {
				r.served("")
			} else {
				r.served("third")
			}
		})
	}
}

// TestArrivalsThatLeave: a request whose client leaves while it waits is over, and those behind it come to their turn.
func TestArrivalsThatLeave(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		goOn := make(chan struct{})
		r.pointers.Faults.Add(publishtest.Fault{Operation: "BeginUpload", Before: func(context.Context) { <-goOn }})
		var all sync.WaitGroup
		all.Go(func() {
			_, err := r.Upload(t.Context(), r.upload("first"))
			is(t, "first", err, "")
		})
		synctest.Wait()
		ctx, leave := context.WithCancel(t.Context())
		left := make(chan struct{})
		all.Go(func() {
			defer close(left)
			if err := r.DeleteFile(ctx, r.grant, "f"); !errors.Is(err, context.Canceled) {
				t.Errorf("the one that left: %v", err)
			}
		})
		synctest.Wait()
		all.Go(func() {
			req := r.upload("third")
			req.Body = strings.NewReader("third")
			_, err := r.Upload(t.Context(), req)
			is(t, "third", err, "")
		})
		synctest.Wait()
		leave()
		time.Sleep(2 * time.Minute) // of the bubble's time: one that left gets another minute
		select {
		case <-left:
		default:
			t.Error("a request that nobody waits for goes on")
		}
		close(goOn)
		all.Wait()
		_, err := r.Upload(t.Context(), r.upload("fourth"))
		is(t, "fourth", err, "")
		_, err = r.Publish(t.Context(), r.final())
		is(t, "publish", err, "")
		r.served("fourth")
	})
}
