package e2e

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"

	"github.com/pawlhq/pawl/internal/testenv"
)

// s3Proxy stands between servers and the S3 server, and answers some requests itself, with an error.
type s3Proxy struct {
	bucket testenv.S3 // as it is reached through the proxy

	mu     sync.Mutex
	refuse func(r *http.Request) (status int) // 0 passes a request on
	seen   int                                // how many were refused
}

func proxyS3(t *testing.T, bucket testenv.S3) *s3Proxy {
	t.Helper()
	target, err := url.Parse(bucket.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	pass := &httputil.ReverseProxy{
		Transport: transport,
		Rewrite:   func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = target.Scheme, target.Host },
		ErrorLog:  log.New(io.Discard, "", 0), // Bodies break off here on purpose.
	}
	p := &s3Proxy{bucket: bucket}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status := p.refusal(r); status != 0 {
			_, _ = io.Copy(io.Discard, r.Body) // A body that breaks off is the client's matter.
			w.WriteHeader(status)
			_, _ = fmt.Fprintf(w, "<Error><Code>InternalError</Code><Message>by the test</Message></Error>")
			return
		}
		pass.ServeHTTP(w, r)
	}))
	p.bucket.Endpoint = server.URL
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		transport.CloseIdleConnections()
	})
	return p
}

func (p *s3Proxy) refusal(r *http.Request) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuse == nil {
		return 0
	}
	status := p.refuse(r)
	if status != 0 {
		p.seen++
	}
	return status
}

// set says what is refused from now on, and returns how many requests were refused before.
func (p *s3Proxy) set(refuse func(r *http.Request) (status int)) (seen int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	seen, p.seen, p.refuse = p.seen, 0, refuse
	return seen
}

func (p *s3Proxy) refused() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen
}

// isPart, isAbort tell requests of multipart uploads apart.
func isPart(r *http.Request) bool {
	return r.Method == http.MethodPut && r.URL.Query().Has("partNumber")
}

func isAbort(r *http.Request) bool {
	return r.Method == http.MethodDelete && r.URL.Query().Has("uploadId")
}
