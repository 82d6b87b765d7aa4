package blobstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// fakeS3 opens a store on a server that answers as handle says: for what no real server does when it is asked to.
func fakeS3(t *testing.T, handle http.HandlerFunc) *S3 {
	t.Helper()
	server := httptest.NewServer(handle)
	store, err := Open(t.Context(), "s3://bucket/prefix?path_style=true&endpoint="+server.URL, someKeys)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
		server.Close()
	})
	return store.(*S3)
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "<Error><Code>%s</Code><Message>no</Message></Error>", code) // The client may be gone.
}

// TestS3Answers translates what servers answer.
func TestS3Answers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		status int
		code   string
		want   error  // in the chain, or
		text   string // in the message
	}{
		{status: 412, code: "PreconditionFailed", want: publish.ErrObjectExists},
		{status: 404, code: "NoSuchKey", text: "status 404"}, // Nonsense, as the answer to a PUT.
		{status: 404, code: "NoSuchUpload", want: publish.ErrUnavailable},
		{status: 404, code: "NoSuchBucket", text: "make the bucket, or correct PAWL_BLOBS"},
		{status: 403, code: "AccessDenied", text: "check PAWL_S3_ACCESS_KEY"},
		{status: 403, code: "SignatureDoesNotMatch", text: "check PAWL_S3_ACCESS_KEY"},
		{status: 409, code: "ConditionalRequestConflict", want: publish.ErrUnavailable},
		{status: 429, code: "TooManyRequests", want: publish.ErrUnavailable},
		{status: 503, code: "SlowDown", want: publish.ErrUnavailable},
		{status: 500, code: "InternalError", want: publish.ErrUnavailable},
		{status: 507, code: "Whatever", want: publish.ErrQuotaExceeded},
		{status: 400, code: "QuotaExceeded", want: publish.ErrQuotaExceeded},
		{status: 501, code: "NotImplemented", text: "this server lacks something"},
		{status: 400, code: "EntityTooLarge", text: "EntityTooLarge, status 400"},
	} {
		t.Run(test.code, func(t *testing.T) {
			t.Parallel()
			s := fakeS3(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body) // A body that breaks off is the client's matter.
				refuse(w, test.status, test.code)
			})
			err := s.Put(t.Context(), someName, strings.NewReader("x"), 1, "")
			if test.want != nil && !errors.Is(err, test.want) || err == nil || !strings.Contains(err.Error(), test.text) {
				t.Errorf("Put gave %v", err)
			}
			if _, ok := errors.AsType[minio.ErrorResponse](err); ok {
				t.Error("the client library's error went out of the package")
			}
			if errors.Is(err, publish.ErrObjectNotFound) {
				t.Error("Put says that there is no such object")
			}
		})
	}
}

// TestS3Unreachable has nothing where the server should be.
func TestS3Unreachable(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	store, err := Open(t.Context(), "s3://bucket?endpoint="+server.URL, someKeys)
	if err != nil {
		t.Fatal(err)
	}
	_, openErr := store.Open(t.Context(), someName, 0, -1)
	_, statErr := store.Stat(t.Context(), someName)
	var listErr error
	for _, listErr = range store.List(t.Context(), "") {
	}
	for call, err := range map[string]error{
		"Put":    store.Put(t.Context(), someName, strings.NewReader("x"), 1, ""),
		"PutAny": store.Put(t.Context(), someName, strings.NewReader("x"), -1, ""),
		"Open":   openErr,
		"Stat":   statErr,
		"Delete": store.Delete(t.Context(), someName),
		"List":   listErr,
		"Check":  store.Check(t.Context()),
	} {
		if !errors.Is(err, publish.ErrUnavailable) {
			t.Errorf("%s gave %v", call, err)
		}
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}

func TestS3CheckNamesBucket(t *testing.T) {
	t.Parallel()
	server := testenv.S3Bucket(t)
	server.Bucket = "no-such-bucket"
	store, err := Open(t.Context(), "s3://no-such-bucket?endpoint="+server.Endpoint, Options{AccessKey: server.AccessKey, SecretKey: server.SecretKey})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Check(t.Context()); !errors.Is(err, publish.ErrUnavailable) || !strings.Contains(err.Error(), `no bucket "no-such-bucket": make it, or correct PAWL_BLOBS`) {
		t.Errorf("Check gave %v", err)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}

// TestS3SendsAgain counts how often a refused body is sent: a stream once, since it can't be rewound, and what is in
// memory several times, whole each time.
func TestS3SendsAgain(t *testing.T) {
	t.Parallel()
	data := bytes.Repeat([]byte("0123456789"), 10_000)
	for declared, want := range map[int64]int{int64(len(data)): 1, -1: attempts} {
		var mu sync.Mutex
		var lengths []string
		s := fakeS3(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // A body that breaks off is the client's matter.
			if r.Method == http.MethodHead {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			lengths = append(lengths, r.Header.Get("X-Amz-Decoded-Content-Length"))
			refuse(w, http.StatusServiceUnavailable, "SlowDown")
		})
		reads := 0
		body := bytes.NewReader(data)
		err := s.Put(t.Context(), someName, readerFunc(func(p []byte) (int, error) {
			n, err := body.Read(p)
			reads += n
			return n, err
		}), declared, "")
		if !errors.Is(err, publish.ErrUnavailable) || reads != len(data) || len(lengths) != want {
			t.Errorf("declared as %d: %v; %d bytes were read, requests with %q bytes", declared, err, reads, lengths)
		}
		for _, length := range lengths {
			if length != fmt.Sprint(len(data)) {
				t.Errorf("a request had %s bytes", length)
			}
		}
	}
}

// TestS3EarlySuccess has a server that says yes before it has the body.
func TestS3EarlySuccess(t *testing.T) {
	t.Parallel()
	s := fakeS3(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	if err := s.Put(t.Context(), someName, bytes.NewReader(make([]byte, partSize)), partSize, ""); err == nil {
		t.Error("Put believed it")
	}
}

// TestS3Hangs ends calls whose server never answers.
func TestS3Hangs(t *testing.T) {
	t.Parallel()
	reached, release := make(chan struct{}), make(chan struct{})
	s := fakeS3(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // The client goes in the middle.
		reached <- struct{}{}
		<-release
	})
	t.Cleanup(func() { close(release) })
	for name, call := range map[string]func(context.Context) error{
		"Put":    func(ctx context.Context) error { return s.Put(ctx, someName, strings.NewReader("x"), 1, "") },
		"PutAny": func(ctx context.Context) error { return s.Put(ctx, someName, strings.NewReader("x"), -1, "") },
		"Open":   func(ctx context.Context) error { _, err := s.Open(ctx, someName, 0, -1); return err },
		"Stat":   func(ctx context.Context) error { _, err := s.Stat(ctx, someName); return err },
		"Delete": func(ctx context.Context) error { return s.Delete(ctx, someName) },
		"Check":  s.Check,
		"List": func(ctx context.Context) (err error) {
			for _, err = range s.List(ctx, "") {
			}
			return err
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- call(ctx) }()
		<-reached
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("%s gave %v", name, err)
		}
	}
}

// TestS3BrokenDownload cuts an answer off, and has one that isn't what was asked for.
func TestS3BrokenDownload(t *testing.T) {
	t.Parallel()
	s := fakeS3(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
		w.Header().Set("Content-Length", "10")
		if r.Header.Get("Range") == "" {
			_, _ = w.Write([]byte("01234")) // And then the handler ends, which cuts the connection.
			return
		}
		_, _ = w.Write([]byte("0123456789")) // The client may not read it.
	})
	reader, err := s.Open(t.Context(), someName, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(reader); string(got) != "01234" || !errors.Is(err, io.ErrUnexpectedEOF) || !errors.Is(err, publish.ErrUnavailable) {
		t.Errorf("reading gave %q, %v", got, err)
	}
	_ = reader.Close() // What it returns after a broken read says nothing.
	if _, err := s.Open(t.Context(), someName, 2, 3); err == nil || !strings.Contains(err.Error(), "doesn't know ranges") {
		t.Errorf("a range of a server without ranges gave %v", err)
	}
}

// TestS3ListOutOfOrder has a server whose list isn't sorted.
func TestS3ListOutOfOrder(t *testing.T) {
	t.Parallel()
	s := fakeS3(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `<ListBucketResult><Contents><Key>prefix/b/-/1/u/x</Key></Contents><Contents><Key>prefix/a/-/1/u/x</Key></Contents></ListBucketResult>`)
	})
	var last error
	for _, err := range s.List(t.Context(), "") {
		last = err
	}
	if last == nil || !strings.Contains(last.Error(), "must list in byte order") {
		t.Errorf("List ended with %v", last)
	}
}
