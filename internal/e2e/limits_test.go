package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// Each size that a setting limits is refused with that limit, and leaves nothing.
func TestLimitsOfSizes(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	folder := t.TempDir()
	s := serve(t, testenv.Postgres(t), "file://"+folder, "PAWL_LIMIT_HEADERS=8KiB", "PAWL_LIMIT_JSON=64KiB", "PAWL_LIMIT_FILE=1MiB",
		"PAWL_LIMIT_GENERATION=2MiB", "PAWL_LIMIT_FILES=3")
	lease, err := s.api.Acquire(ctx, publish.AcquireRequest{Key: "limits/k", Holder: "W", TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	upload := func(path publish.Path, size, declared int64) error {
		_, err := s.api.Upload(ctx, publish.UploadRequest{Grant: lease.Grant(), Path: path, Size: declared, Body: bytes.NewReader(make([]byte, size))})
		return err
	}
	want := func(what string, err error, limit int64, unit string) {
		t.Helper()
		var refusal *publish.Error
		if !errors.As(err, &refusal) || refusal.Code != publish.ErrTooLarge || refusal.Limit != limit || refusal.Unit != unit {
			t.Errorf("%s: %+v, want too-large with limit %d %s", what, err, limit, unit)
		}
	}
	want("a file", upload("large", 1<<20+1, 1<<20+1), 1<<20, "")
	want("a file of unknown length", upload("large", 1<<20+1, -1), 1<<20, "")
	for _, path := range []publish.Path{"a", "b"} {
		if err := upload(path, 1<<20, -1); err != nil {
			t.Fatal(err)
		}
	}
	want("a generation", upload("large", 1, 1), 2<<20, "")
	if err := upload("c", 0, 0); err != nil {
		t.Fatal(err)
	}
	want("files", upload("large", 0, 0), 3, publish.UnitFiles)
	if objects := objectsOf(t, folder, "limits"); objects != 3 {
		t.Errorf("the store has %d objects, want those of the three files", objects)
	}
	_, err = s.api.Publish(ctx, publish.PublishRequest{Grant: lease.Grant(), Final: true, Primary: "a"})
	if !errors.Is(err, publish.ErrGenerationIncomplete) {
		t.Errorf("published without what was refused: %v", err)
	}

	if status, body := send(t, s, "/v1/resolve", strings.NewReader(strings.Repeat(" ", 64<<10+1)), nil); status != http.StatusRequestEntityTooLarge || !strings.Contains(body, `"limit":65536`) {
		t.Errorf("JSON: %d, %s", status, body)
	}
	if status, _ := send(t, s, "/v1/resolve", nil, http.Header{"X": {strings.Repeat("x", 20<<10)}}); status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("headers: %d", status)
	}
}

// One caller has so many requests and uploads and no more, a body that stands still is dropped, and connections that are too many wait.
func TestLimitsOfCallers(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := serve(t, testenv.Postgres(t), directory(t), "PAWL_LIMIT_RATE=0.001", "PAWL_LIMIT_BURST=4", "PAWL_LIMIT_UPLOADS=1", "PAWL_LIMIT_IDLE=10s",
		"PAWL_LIMIT_CONNECTIONS=3", "PAWL_TRUSTED_PROXIES=127.0.0.1")
	once, err := client.New(s.url, client.Options{RetryFor: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer once.Close()
	lease, err := once.Acquire(ctx, publish.AcquireRequest{Key: "k", Holder: "W", TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // The server has long closed it.
	if _, err := fmt.Fprintf(conn, "PUT /v1/keys/k/-/generations/%d/files/still HTTP/1.1\r\nHost: %s\r\nPawl-Lease: %s\r\nContent-Length: 9\r\n\r\nx", lease.Token, s.addr, lease.LeaseID.Hex()); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, patience, func() error {
		if line := s.metric("pawl_uploads_in_flight"); !strings.HasSuffix(line, " 1") {
			return fmt.Errorf("the upload hasn't begun: %s", line)
		}
		return nil
	})
	_, err = once.Upload(ctx, publish.UploadRequest{Grant: lease.Grant(), Path: "second", Size: 1, Body: strings.NewReader("x")})
	var refusal *publish.Error
	if !errors.As(err, &refusal) || refusal.Code != publish.ErrRateLimited || refusal.Limit != 1 {
		t.Errorf("a second upload at once: %v", err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(patience)) //nolint:errcheck // Then the read fails.
	if answer, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 400 ") {
		t.Errorf("an upload that stands still: %.50q, %v", answer, err)
	}
	if _, err := once.Pointer(ctx, "k"); !errors.Is(err, publish.ErrNotFound) {
		t.Errorf("the fourth request: %v", err)
	}
	if _, err := once.Pointer(ctx, "k"); !errors.Is(err, publish.ErrRateLimited) {
		t.Errorf("the fifth request: %v", err)
	}
	if status, _ := send(t, s, "/v1/resolve", strings.NewReader(`{"keys":["k"]}`), http.Header{"X-Forwarded-For": {"192.0.2.1"}}); status != http.StatusOK {
		t.Errorf("another caller: %d", status)
	}

	once.Close()
	http.DefaultClient.CloseIdleConnections()
	var held []net.Conn
	for range 3 {
		idle, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, idle)
	}
	answered := make(chan error, 1)
	go func() { _, err := get(s.url + "/livez"); answered <- err }()
	for _, idle := range held {
		if err := idle.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-answered; err != nil {
		t.Errorf("a connection that had to wait: %v", err)
	}
}

// send posts to a server as no client of ours does.
func send(t *testing.T, s *server, path string, body io.Reader, header http.Header) (status int, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, s.url+path, body)
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range header {
		req.Header[name] = values
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // It is only read.
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// objectsOf counts the files of a directory store below a prefix of keys.
func objectsOf(t *testing.T, folder, prefix string) (objects int) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(folder, prefix), func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			objects++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return objects
}
