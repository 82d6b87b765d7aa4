package blobstore

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync"
	"testing"
)

// s3Fault stands between a store and a real S3 server. Once armed, it replaces the answers of one kind of call.
type s3Fault struct {
	call      string // see callOf
	kind      string // a status, or one of "reset", "timeout", "blanks"
	applied   bool   // The server carries the request out, and only its answer is replaced.
	times     int    // how many answers are replaced
	partsFail bool   // UploadPart is refused for good, too.
	before    func(*http.Request)

	server  http.Handler
	release chan struct{} // closed when the test ends

	mu    sync.Mutex
	armed bool
	count int
}

// start returns the URL of the proxy in front of the server at endpoint.
func (f *s3Fault) start(t *testing.T, endpoint string) string {
	t.Helper()
	target, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	toServer := &http.Transport{}
	f.server = &httputil.ReverseProxy{
		Transport: toServer,
		Rewrite:   func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = target.Scheme, target.Host },
		ErrorLog:  log.New(io.Discard, "", 0), // Bodies break off here on purpose.
	}
	f.release = make(chan struct{})
	proxy := httptest.NewServer(f)
	t.Cleanup(func() {
		close(f.release)
		proxy.Close()
		toServer.CloseIdleConnections()
	})
	return proxy.URL
}

func (f *s3Fault) arm() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed = true
}

// seen is how many answers were replaced so far.
func (f *s3Fault) seen() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.count
}

// strike reports whether the answer of this call is to be replaced.
func (f *s3Fault) strike(call string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.armed || call != f.call || f.count == f.times {
		return false
	}
	f.count++
	return true
}

func callOf(r *http.Request) string {
	query := r.URL.Query()
	switch {
	case query.Has("uploads") && r.Method == http.MethodGet:
		return "ListMultipart"
	case query.Has("uploads"):
		return "CreateMultipart"
	case query.Has("uploadId") && r.Method == http.MethodGet:
		return "ListParts"
	case query.Has("uploadId"):
		return map[string]string{http.MethodPut: "UploadPart", http.MethodPost: "Complete", http.MethodDelete: "Abort"}[r.Method]
	case r.Method == http.MethodGet && query.Has("list-type"):
		return "LIST"
	}
	return r.Method
}

func (f *s3Fault) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	call := callOf(r)
	if f.before != nil {
		f.before(r)
	}
	if f.partsFail && call == "UploadPart" {
		_, _ = io.Copy(io.Discard, r.Body) // A body that breaks off is the client's matter.
		refuse(w, http.StatusNotFound, "NoSuchUpload")
		return
	}
	if !f.strike(call) {
		f.server.ServeHTTP(w, r)
		return
	}
	if f.applied {
		f.server.ServeHTTP(httptest.NewRecorder(), r)
	} else {
		_, _ = io.Copy(io.Discard, r.Body) // A body that breaks off is the client's matter.
	}
	switch f.kind {
	case "reset":
		reset(w)
	case "timeout":
		select {
		case <-r.Context().Done():
		case <-f.release:
		}
	case "blanks":
		w.WriteHeader(http.StatusOK)
		_, _ = fmt.Fprintf(w, "%20s<Error><Code>InternalError</Code><Message>no</Message></Error>", "") // The client is there.
	default:
		status, err := strconv.Atoi(f.kind)
		if err != nil {
			panic(err)
		}
		refuse(w, status, codeOf(call, status))
	}
}

// codeOf is what S3 says with a status.
func codeOf(call string, status int) string {
	switch status {
	case http.StatusBadRequest:
		return "InvalidRequest"
	case http.StatusForbidden:
		return "AccessDenied"
	case http.StatusNotFound:
		switch call {
		case "UploadPart", "Complete", "Abort", "ListParts":
			return "NoSuchUpload"
		case "LIST", "CreateMultipart":
			return "NoSuchBucket"
		}
		return "NoSuchKey"
	case http.StatusConflict:
		return "ConditionalRequestConflict"
	case http.StatusPreconditionFailed:
		return "PreconditionFailed"
	case http.StatusTooManyRequests:
		return "TooManyRequests"
	case http.StatusInternalServerError:
		return "InternalError"
	case http.StatusServiceUnavailable:
		return "SlowDown"
	}
	return http.StatusText(status) // Not S3's own, but of something on the way.
}

// reset cuts the connection so that the client gets a reset, not an end.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) //nolint:errcheck // Closing is what counts.
	}
	_ = conn.Close() //nolint:errcheck // See above.
}
