package publish_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/publish/publishtest"
)

// TestWaitPointer: a long poll ends with the next version, with the first one of a key, or with its time.
func TestWaitPointer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		start := time.Now()
		_, err := r.WaitPointer(t.Context(), "k", nil, 5*time.Second)
		is(t, "nothing yet", err, publish.ErrNotFound)
		if waited := time.Since(start); waited != 5*time.Second {
			t.Errorf("waited %s of 5s", waited)
		}
		var seen *publish.Version
		for revision := range int64(2) {
			go func() {
				time.Sleep(3 * time.Second)
				if _, err := r.UploadAndPublish(t.Context(), r.upload(strings.Repeat("x", int(revision))), publish.PublishRequest{Grant: r.grant}); err != nil {
					t.Error(err)
				}
			}()
			start = time.Now()
			pointer, err := r.WaitPointer(t.Context(), "k", seen, 50*time.Second)
			is(t, "wait", err, "")
			if waited := time.Since(start); pointer.Revision != revision+1 || waited > 4*time.Second {
				t.Errorf("after %s the version is %s", waited, pointer.Version())
			}
			version := pointer.Version()
			seen = &version
		}
		old := publish.Version{Token: 1, Revision: 1}
		start = time.Now()
		if pointer, err := r.WaitPointer(t.Context(), "k", &old, 50*time.Second); err != nil || pointer.Version() != *seen || time.Since(start) != 0 {
			t.Errorf("a reader that is behind: %s after %s, %v", pointer.Version(), time.Since(start), err)
		}
		if pointer, err := r.WaitPointer(t.Context(), "k", seen, time.Second); err != nil || pointer.Version() != *seen {
			t.Errorf("a reader for which nothing came: %s, %v", pointer.Version(), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := r.WaitPointer(ctx, "k", seen, 50*time.Second); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a reader that went away: %v", err)
		}
	})
	for _, wait := range []time.Duration{-1, publish.MaxPointerWait + 1} {
		_, err := new(publish.Service).WaitPointer(t.Context(), "k", nil, wait)
		refusedField(t, wait.String(), err, publish.ErrInvalidRequest, "wait")
	}
}

// A retirement ends the wait of whoever has seen the version that it takes away, and of whoever waits for a first one. Who begins to wait for the next version of a
// retired key gets that.
func TestWaitPointerOfARetiredKey(t *testing.T) {
	t.Parallel()
	const wait, after = 50 * time.Second, 3 * time.Second
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		waiting := func(what string, seen *publish.Version, want publish.Code, soon time.Duration, do func() error) {
			t.Helper()
			go func() {
				time.Sleep(after)
				if err := do(); err != nil {
					t.Errorf("%s: %v", what, err)
				}
			}()
			start := time.Now()
			_, err := r.WaitPointer(t.Context(), "k", seen, wait)
			is(t, what, err, want)
			if waited := time.Since(start); waited > soon+time.Second {
				t.Errorf("%s: an answer after %s, not about %s", what, waited, soon)
			}
			time.Sleep(after + time.Second) // until it is done
		}
		retire := func() error {
			_, err := r.Retire(t.Context(), publish.RetireRequest{Key: "k", By: "ops", BreakLease: true})
			return err
		}
		release := func() error { return nil }
		revive := func() error {
			grant, err := r.Acquire(t.Context(), publish.AcquireRequest{Key: "k", Holder: "b", TTL: time.Minute})
			if err != nil {
				return err
			}
			r.grant = publish.Grant{Key: "k", Token: grant.Token, LeaseID: grant.LeaseID}
			_, err = r.UploadAndPublish(t.Context(), r.upload("b"), r.final())
			return err
		}
		waiting("a key that never had a version", nil, publish.ErrRetired, after, retire)
		waiting("a retired key, for the next one", nil, "", after, revive)
		second, err := r.Pointer(t.Context(), "k")
		is(t, "revived", err, "")
		seen := second.Version()
		waiting("a version that was seen", &seen, publish.ErrRetired, after, retire)
		waiting("a version that is gone", &seen, publish.ErrRetired, 0, release)
		waiting("a retired key until the end", nil, publish.ErrRetired, wait, release)
	})
}

// TestOpenFile: bytes that a manifest names and the store lacks are our fault, not the reader's.
func TestOpenFile(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if _, err := r.UploadAndPublish(t.Context(), r.upload("content"), r.final()); err != nil {
		t.Fatal(err)
	}
	file, err := r.CurrentFile(t.Context(), "k", "")
	is(t, "file", err, "")
	r.blobs.Faults.Add(publishtest.Fault{Operation: "Open"})
	_, err = r.OpenFile(t.Context(), file, 0, -1)
	is(t, "a store that is away", err, publish.ErrUnavailable)
	is(t, "delete", r.blobs.Delete(t.Context(), file.Object), "")
	_, err = r.OpenFile(t.Context(), file, 0, -1)
	is(t, "lost bytes", err, publish.ErrInternal)
	if errors.Is(err, publish.ErrNotFound) || !errors.Is(err, publish.ErrObjectNotFound) {
		t.Errorf("lost bytes: %v", err)
	}
	for _, want := range []string{strconv.Quote(string(file.Path)), string(file.Object), "generation 1 of k", "pawl verify"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("lost bytes: %v doesn't say %s", err, want)
		}
	}
}

// TestPages: sizes of pages are checked, and have a default.
func TestPages(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, limit := range []int{-1, publish.MaxPageSize + 1} {
		_, err := r.List(t.Context(), publish.ListRequest{Reach: publish.Everything, Limit: limit})
		refusedField(t, "list", err, publish.ErrInvalidRequest, "limit")
		_, err = r.History(t.Context(), "k", 0, limit)
		refusedField(t, "history", err, publish.ErrInvalidRequest, "limit")
		_, err = r.Files(t.Context(), "k", 1, "", limit)
		refusedField(t, "files", err, publish.ErrInvalidRequest, "limit")
	}
	for pointer, req := range map[string]publish.ListRequest{
		"delimiter": {Delimiter: "-"}, "prefix": {Prefix: "a/../b"}, "after": {After: "a//b"},
	} {
		_, err := r.List(t.Context(), req)
		refusedField(t, pointer, err, publish.ErrInvalidRequest, pointer)
	}
	if _, err := r.List(t.Context(), publish.ListRequest{Reach: publish.Everything, Prefix: "a/", Delimiter: "/", After: "a/b/"}); err != nil {
		t.Error(err)
	}
}
