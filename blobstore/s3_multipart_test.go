package blobstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
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
// is aborted, after the bounded repetition.
func TestS3Multipart(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		fail string // the step that is refused
		want error
		sent string // the steps that the server saw
	}{
		{fail: "", sent: "start part part complete"},
		{fail: "start", want: publish.ErrUnavailable, sent: "start start start start uploads"},
		{fail: "part", want: publish.ErrUnavailable, sent: "start part part part part abort uploads"},
		{fail: "complete", want: publish.ErrUnavailable, sent: "start part part complete complete complete complete abort uploads"},
	} {
		t.Run("Fail"+test.fail, func(t *testing.T) {
			t.Parallel()
			server := &multipartServer{fail: test.fail}
			s := fakeS3(t, server.ServeHTTP)
			s.pause = 1
			size := partSize + 1
			if test.fail == "part" {
				size = partSize // One part, so that it is told how often it is sent.
			}
			err := s.Put(t.Context(), someName, bytes.NewReader(make([]byte, size)), -1, "")
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
	if got := strings.Join(server.steps, " "); !slices.Contains([]string{"start part abort uploads uploads", "start abort uploads uploads", "start abort uploads"}, got) {
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
	case r.Method == http.MethodHead:
		w.WriteHeader(http.StatusNotFound)
		return
	case r.Method == http.MethodGet:
		step, answer = "uploads", "<ListMultipartUploadsResult></ListMultipartUploadsResult>"
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

func TestS3PartLength(t *testing.T) {
	t.Parallel()
	s := &S3{memory: newPartMemory(defaultPartMemory, partSize)}
	const tib = 1 << 40
	for size, want := range map[int64]int64{
		partSize + 1: partSize, partSize * maxParts: partSize, partSize*maxParts + 1: partSize + 1<<20, 5 * tib: 525 << 20,
	} {
		if got := s.partLength(1, size); got != want || size > got*maxParts {
			t.Errorf("%d bytes go in parts of %d; want %d", size, got, want)
		}
	}
	for number, want := range map[int]int64{1: partSize, growAfter: partSize, growAfter + 1: 2 * partSize, maxParts: 4 * partSize} {
		if got := s.partLength(number, -1); got != want {
			t.Errorf("part %d has %d bytes; want %d", number, got, want)
		}
	}
	if got := s.maxUnknown(); got < 500<<30 {
		t.Errorf("a body of unknown length may have %d bytes", got)
	}
	s.memory = newPartMemory(2<<30, partSize)
	if got := s.maxUnknown(); got < 5*tib {
		t.Errorf("with 2 GiB of memory, a body of unknown length may have %d bytes", got)
	}
}
