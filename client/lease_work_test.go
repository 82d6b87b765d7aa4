package client_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/publish"
)

// What can be read again is read for its digest first; what can't is sent as it comes. Both are stored whole, from where the body stood.
func TestLeaseUploads(t *testing.T) {
	t.Parallel()
	content := strings.Repeat("pixels ", 100_000)
	name := filepath.Join(t.TempDir(), "frame.exr")
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	begun := strings.NewReader("head:" + content)
	if _, err := io.CopyN(io.Discard, begun, 5); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, client.Options{})
	err := r.Run(t.Context(), key, func(ctx context.Context, lease *client.Lease) error {
		for what, upload := range map[string]func(publish.Path) (publish.UploadResult, error){
			"a file":          func(p publish.Path) (publish.UploadResult, error) { return lease.UploadFile(ctx, p, name) },
			"a seekable body": func(p publish.Path) (publish.UploadResult, error) { return lease.Upload(ctx, p, begun) },
			"a stream": func(p publish.Path) (publish.UploadResult, error) {
				return lease.Upload(ctx, p, iotest.HalfReader(strings.NewReader(content)))
			},
			"a stream in bytes": func(p publish.Path) (publish.UploadResult, error) {
				return lease.Upload(ctx, p, bytes.NewBufferString(content))
			},
		} {
			got, err := upload(publish.Path(what))
			if err != nil || got.SHA256 != sha256.Sum256([]byte(content)) || got.Size != int64(len(content)) {
				t.Errorf("%s: stored %+v, %v", what, got, err)
			}
		}
		for _, bad := range []string{t.TempDir(), filepath.Join(t.TempDir(), "none")} {
			if _, err := lease.UploadFile(ctx, "x", bad); err == nil {
				t.Errorf("%s was uploaded", bad)
			}
		}
		called, cancel := context.WithCancel(ctx)
		cancel()
		if _, err := lease.UploadFile(called, "x", name); !errors.Is(err, context.Canceled) {
			t.Errorf("called off: %v", err)
		}
		_, err := lease.Publish(ctx)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if pointer, err := r.Pointer(t.Context(), key); err != nil || pointer.Files != 4 {
		t.Errorf("current is %+v, %v", pointer, err)
	}
}
