package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// largeFile makes a file of 72 MiB, five parts, that takes no space.
func largeFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "large.bin")
	if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 72<<20)); err != nil {
		t.Fatal(err)
	}
	return path
}

// Case 31: a part that the store refuses once is sent again, alone; the upload succeeds at its first attempt.
func TestCase31OneBadPart(t *testing.T) {
	t.Parallel()
	bucket := testenv.S3Bucket(t)
	proxy := proxyS3(t, bucket)
	s := serveS3(t, proxy.bucket)
	sent := map[string]int{}
	proxy.set(func(r *http.Request) int {
		if !isPart(r) {
			return 0
		}
		number := r.URL.Query().Get("partNumber")
		if sent[number]++; number == "3" && sent[number] == 1 {
			return http.StatusInternalServerError
		}
		return 0
	})
	put := s.pawl("put", "parts/one-bad", largeFile(t))
	if code := put.exit(); code != 0 {
		t.Fatalf("exit code %d: %s", code, put.errs.String())
	}
	if n := proxy.set(nil); n != 1 {
		t.Errorf("%d parts were refused, want 1", n)
	}
	for number, want := range map[string]int{"1": 1, "2": 1, "3": 2, "4": 1, "5": 1} {
		if sent[number] != want {
			t.Errorf("part %s was sent %d times, want %d", number, sent[number], want)
		}
	}
	if got := s.read("parts/one-bad"); len(got) != 72<<20 || strings.Trim(got, "\x00") != "" {
		t.Errorf("%d bytes came back that aren't those sent", len(got))
	}
}

// Case 31: a part that is refused for ever fails the upload: an error, exit code 74, nothing current, nothing left in the bucket.
func TestCase31PartFailsForEver(t *testing.T) {
	t.Parallel()
	bucket := testenv.S3Bucket(t)
	proxy := proxyS3(t, bucket)
	s := serveS3(t, proxy.bucket)
	proxy.set(func(r *http.Request) int {
		if isPart(r) && r.URL.Query().Get("partNumber") == "3" {
			return http.StatusInternalServerError
		}
		return 0
	})
	put := start(t, []string{"PAWL_URL=" + s.url, "PAWL_RETRY_FOR=0s"}, binary(t), "put", "parts/for-ever", largeFile(t))
	if code := put.exit(); code != 74 {
		t.Errorf("exit code %d, want 74; it printed %q", code, put.errs.String())
	}
	if text := put.errs.String(); !strings.Contains(text, "large.bin") || !strings.Contains(text, "blob store") {
		t.Errorf("the error doesn't name the file and what failed: %q", text)
	}
	if n := proxy.refused(); n < 2 {
		t.Errorf("the part was tried %d times, want a few", n)
	}
	if _, err := s.api.Pointer(context.Background(), "parts/for-ever"); !errors.Is(err, publish.ErrNotFound) {
		t.Errorf("the pointer: %v, want not-found", err)
	}
	testenv.Eventually(t, patience, func() error {
		left, err := bucket.Unfinished()
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("unfinished uploads: %q", left)
		}
		return err
	})
}
