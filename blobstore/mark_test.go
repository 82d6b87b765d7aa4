package blobstore

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

func TestMark(t *testing.T) {
	t.Parallel()
	dir, err := OpenDir(filepath.Join(t.TempDir(), "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	for name, store := range map[string]Store{"dir": dir, "s3": openS3(t, testenv.S3Bucket(t), "p")} {
		if mark, err := store.Mark(t.Context()); !errors.Is(err, publish.ErrObjectNotFound) {
			t.Errorf("%s: a new store is marked %q, %v", name, mark, err)
		}
		ids := make(chan publish.StoreID, 8)
		var all sync.WaitGroup
		for range cap(ids) {
			all.Go(func() {
				id := publish.NewStoreID()
				switch err := store.SetMark(context.Background(), id); {
				case err == nil:
					ids <- id
				case !errors.Is(err, publish.ErrObjectExists):
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		all.Wait()
		if len(ids) != 1 {
			t.Fatalf("%s: %d of several marks were set", name, len(ids))
		}
		id := <-ids
		if mark, err := store.Mark(t.Context()); mark != id || err != nil {
			t.Errorf("%s: the mark is %q, %v; want %q", name, mark, err, id)
		}
		if report := store.Diagnose(t.Context(), DiagnoseOptions{}); report.Worst() == LevelFail {
			t.Errorf("%s: %+v", name, report)
		}
		if mark, err := store.Mark(t.Context()); mark != id || err != nil {
			t.Errorf("%s: after a check the mark is %q, %v; want %q", name, mark, err, id)
		}
		for info, err := range store.List(t.Context(), "") {
			t.Errorf("%s: %+v is listed, %v: a sweep would remove it", name, info, err)
		}
	}
	s := openS3(t, testenv.S3Bucket(t), "")
	if _, err := s.core.PutObject(t.Context(), s.bucket, MarkName, strings.NewReader("{}"), 2, "", "", minio.PutObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Mark(t.Context()); err == nil || !strings.Contains(err.Error(), "pawl doctor --adopt-bucket") {
		t.Errorf("a mark without an id: %v", err)
	}
}

func TestDiagnoseDir(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "blobs")
	dir, err := OpenDir(path)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if report := dir.Diagnose(t.Context(), DiagnoseOptions{}); report.Worst() == LevelFail || report.Down || len(report.Findings) != 4 {
		t.Errorf("%+v", report)
	}
	if left, err := filepath.Glob(filepath.Join(path, "-", "*", "*")); err != nil || len(left) != 0 {
		t.Errorf("%q are left (%v)", left, err)
	}
	dir.createOnly = func(root *os.Root, from, to string) error { return root.Rename(from, to) } // A file system that overwrites.
	if got := finding(t, dir.Diagnose(t.Context(), DiagnoseOptions{}), "rename"); got.Level != LevelFail || !strings.Contains(got.Cure, "PAWL_BLOBS") {
		t.Errorf("%+v", got)
	}
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	if report := dir.Diagnose(t.Context(), DiagnoseOptions{}); report.Worst() != LevelFail || !report.Down || !strings.Contains(report.Findings[0].Cure, "PAWL_BLOBS") {
		t.Errorf("without the folder: %+v", report)
	}
}
