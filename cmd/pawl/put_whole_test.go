package main

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/publish/publishtest"
)

// What `put FOLDER --publish` makes current is the folder, whole, and nothing else that has come into the generation: a file of an earlier
// put that is gone since, one of another command, another folder put at the same time.
func TestPutFolderIsTheWholeSet(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	env := grantEnv(r, r.acquire(t, "k", "me", time.Minute))
	folder := makeFolder(t, map[string]string{"1": "one", "2": "two", "3": "three"})
	call(t, env, "put", "k", folder).expect(t, 0)
	if err := os.Remove(filepath.Join(folder, "3")); err != nil {
		t.Fatal(err)
	}
	call(t, env, "put", "k", folder, "--publish").expect(t, exitDigest, "holds something else than", "nothing was published")
	if _, err := r.client.Pointer(t.Context(), "k"); !errors.Is(err, publish.ErrNotFound) {
		t.Errorf("something was published: %v", err)
	}
	call(t, env, "put", "k", makeFolder(t, map[string]string{"1": "one", "2": "two", "3": "three"}), "--publish").expect(t, 0)
	if want := map[string]string{"1": "one", "2": "two", "3": "three"}; !maps.Equal(r.published(t, "k"), want) {
		t.Errorf("published %v", r.published(t, "k"))
	}
}

// A folder that changes behind the upload, in files that went already or not yet, in names that come and go, is no set.
func TestPutFolderThatChangesBehind(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(folder string) error{
		"rewritten": func(folder string) error { return os.WriteFile(filepath.Join(folder, "a"), []byte("A"), 0o600) },
		"removed":   func(folder string) error { return os.Remove(filepath.Join(folder, "a")) },
		"new":       func(folder string) error { return os.WriteFile(filepath.Join(folder, "c"), []byte("c"), 0o600) },
		"replaced": func(folder string) error {
			return errors.Join(os.WriteFile(folder+".t", []byte("x"), 0o600), os.Rename(folder+".t", filepath.Join(folder, "a")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			folder := makeFolder(t, map[string]string{"a": "a", "b": "b"})
			old := time.Now().Add(-time.Hour)
			if err := os.Chtimes(filepath.Join(folder, "a"), old, old); err != nil {
				t.Fatal(err)
			}
			r.pointers.Faults.Add(publishtest.Fault{Operation: "CompleteUpload", Before: func(context.Context) {}})
			r.pointers.Faults.Add(publishtest.Fault{Operation: "CompleteUpload", Before: func(context.Context) {
				if err := change(folder); err != nil {
					t.Error(err)
				}
			}})
			call(t, []string{"PAWL_URL=" + r.url}, "put", "k", folder, "--parallel", "1").expect(t, exitDigest, "changed while it was uploaded")
			if _, err := r.client.Pointer(t.Context(), "k"); !errors.Is(err, publish.ErrNotFound) {
				t.Errorf("something was published: %v", err)
			}
		})
	}
}
