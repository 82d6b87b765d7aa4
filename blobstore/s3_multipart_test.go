package blobstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

func TestS3KeepsContentType(t *testing.T) {
	t.Parallel()
	s := openS3(t, testenv.S3Bucket(t), "types")
	for name, size := range map[publish.ObjectName]int64{"a/-/1/u/whole.png": 10, "a/-/1/u/parts.png": partSize + 1} {
		if err := s.Put(t.Context(), name, bytes.NewReader(make([]byte, size)), size, "image/png"); err != nil {
			t.Fatal(err)
		}
		info, err := s.core.StatObject(t.Context(), s.bucket, s.key(name), minio.StatObjectOptions{})
		if err != nil || info.ContentType != "image/png" {
			t.Errorf("%s has the type %q, %v", name, info.ContentType, err)
		}
	}
}

// TestS3Multipart makes each step of a multipart upload fail, and counts the requests: whatever happens, the upload
// is aborted, and no part is begun after the failure.
func TestS3Multipart(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		fail string // the step that is refused
		want error
		sent string // the steps that the server saw
	}{
		{fail: "", sent: "start part part complete"},
		{fail: "start", want: publish.ErrUnavailable, sent: "start"},
		{fail: "part", want: publish.ErrUnavailable, sent: "start part abort"},
		{fail: "complete", want: publish.ErrUnavailable, sent: "start part part complete abort"},
	} {
		t.Run("Fail"+test.fail, func(t *testing.T) {
			t.Parallel()
			server := &multipartServer{fail: test.fail}
			s := fakeS3(t, server.ServeHTTP)
			err := s.Put(t.Context(), someName, bytes.NewReader(make([]byte, partSize+1)), -1, "")
			if !errors.Is(err, test.want) || (err == nil) != (test.want == nil) {
				t.Errorf("Put gave %v; want %v", err, test.want)
			}
			if got := strings.Join(server.steps, " "); got != test.sent {
				t.Errorf("the server saw %q; want %q", got, test.sent)
			}
			if test.fail == "" && server.condition != "*" {
				t.Errorf("the completion had If-None-Match: %q", server.condition)
			}
		})
	}
}

// TestS3MultipartCanceled ends the context between two parts: the parts are removed all the same.
func TestS3MultipartCanceled(t *testing.T) {
	t.Parallel()
	server := &multipartServer{fail: "nothing"}
	s := fakeS3(t, server.ServeHTTP)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	body := io.MultiReader(bytes.NewReader(make([]byte, partSize)), readerFunc(func(p []byte) (int, error) {
		cancel()
		return len(p), nil
	}))
	if err := s.Put(ctx, someName, body, -1, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("Put gave %v", err)
	}
	if got := strings.Join(server.steps, " "); got != "start part abort" {
		t.Errorf("the server saw %q", got)
	}
}

// multipartServer knows multipart uploads just well enough.
type multipartServer struct {
	fail string

	mu        sync.Mutex
	steps     []string
	condition string
}

func (m *multipartServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // A body that breaks off is the client's matter.
	m.mu.Lock()
	defer m.mu.Unlock()
	query := r.URL.Query()
	step, answer := "", ""
	switch {
	case query.Has("uploads"):
		step, answer = "start", "<InitiateMultipartUploadResult><UploadId>id</UploadId></InitiateMultipartUploadResult>"
	case r.Method == http.MethodPut:
		step = "part"
		w.Header().Set("ETag", `"etag"`)
	case r.Method == http.MethodPost:
		step, answer = "complete", "<CompleteMultipartUploadResult><Bucket>bucket</Bucket><ETag>etag</ETag></CompleteMultipartUploadResult>"
		m.condition = r.Header.Get("If-None-Match")
	case r.Method == http.MethodDelete:
		step = "abort"
	}
	m.steps = append(m.steps, step)
	switch step {
	case m.fail:
		refuse(w, http.StatusConflict, "OperationAborted")
	case "abort":
		w.WriteHeader(http.StatusNoContent)
	default:
		_, _ = fmt.Fprint(w, answer) // The client is there.
	}
}

func TestS3PartSize(t *testing.T) {
	t.Parallel()
	s := &S3{}
	s.parts.New = func() any { b := make([]byte, partSize); return &b }
	for size, want := range map[int64]int{-1: partSize, partSize + 1: partSize, partSize * maxParts: partSize, partSize*maxParts + 1: partSize + 1<<20} {
		buffer, free := s.part(size)
		if len(buffer) != want || size > int64(len(buffer))*maxParts {
			t.Errorf("%d bytes go in parts of %d; want %d", size, len(buffer), want)
		}
		free()
	}
}
