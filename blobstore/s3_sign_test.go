package blobstore

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// openPublic opens a store whose server clients reach by another name.
func openPublic(t *testing.T, server testenv.S3, public string) *S3 {
	t.Helper()
	query := url.Values{"endpoint": {server.Endpoint}, "region": {server.Region}, "path_style": {"true"}}
	store, err := Open(t.Context(), "s3://"+server.Bucket+"/in?"+query.Encode(),
		Options{AccessKey: server.AccessKey, SecretKey: server.SecretKey, PublicEndpoint: public})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store.(*S3)
}

// TestCase46 signs for the public name of a server, where the requests then work.
func TestCase46(t *testing.T) {
	t.Parallel()
	server := testenv.S3Bucket(t)
	public := strings.Replace(server.Endpoint, "127.0.0.1", "localhost", 1)
	s := openPublic(t, server, public)
	if err := s.Put(t.Context(), someName, strings.NewReader("0123456789"), 10, "text/plain"); err != nil {
		t.Fatal(err)
	}
	signed, err := s.SignGet(t.Context(), someName, publish.AnswerHeaders{
		ContentType: "image/png", ContentDisposition: `attachment; filename="a b.png"`, CacheControl: "private, max-age=60",
	}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(signed.URL, public+"/"+server.Bucket+"/in/") || signed.Method != http.MethodGet || len(signed.Headers) != 0 {
		t.Errorf("signed %+v, want a GET at %s", signed, public)
	}
	if left := time.Until(signed.ExpiresAt.Time); left < 50*time.Second || left > time.Minute {
		t.Errorf("it is valid for %s", left)
	}
	got, body := carryOut(t, signed, "", "Range", "bytes=2-4")
	if got.StatusCode != http.StatusPartialContent || body != "234" || got.Header.Get("Content-Type") != "image/png" ||
		got.Header.Get("Content-Disposition") != `attachment; filename="a b.png"` || got.Header.Get("Cache-Control") != "private, max-age=60" {
		t.Errorf("%s %q with %v", got.Status, body, got.Header)
	}
	signed.Method = http.MethodPut
	if got, _ := carryOut(t, signed, "other"); got.StatusCode != http.StatusForbidden {
		t.Errorf("a PUT with the signature of a GET: %s", got.Status)
	}

	header := http.Header{"If-None-Match": {"*"}}
	put, err := s.sign(t.Context(), http.MethodPut, s.key("signed"), time.Minute, nil, header)
	if err != nil {
		t.Fatal(err)
	}
	if got, body := carryOut(t, put, "body"); got.StatusCode != http.StatusOK {
		t.Errorf("a signed PUT: %s %s", got.Status, body)
	}
	delete(put.Headers, "If-None-Match")
	if got, _ := carryOut(t, put, "body"); got.StatusCode != http.StatusForbidden {
		t.Errorf("a signed PUT without the header that was signed: %s", got.Status)
	}
}

// TestSigningCallsNobody signs where no server can be reached.
func TestSigningCallsNobody(t *testing.T) {
	t.Parallel()
	nowhere := testenv.S3{Endpoint: "http://inner.invalid:9", Bucket: "bucket", Region: "eu-1", AccessKey: "access", SecretKey: "secret"}
	s := openPublic(t, nowhere, "https://public.invalid")
	start := time.Now()
	for range 100 {
		signed, err := s.SignGet(t.Context(), "k/-/1/u/é+ %", publish.AnswerHeaders{}, 15*time.Minute)
		if err != nil || !strings.HasPrefix(signed.URL, "https://public.invalid/bucket/in/k/-/1/u/%C3%A9%2B%20%25?") {
			t.Fatalf("signed %s, %v", signed.URL, err)
		}
	}
	if took := time.Since(start); took > time.Minute/2 {
		t.Errorf("signing a hundred times took %s", took)
	}
	if _, err := s.SignGet(t.Context(), "../x", publish.AnswerHeaders{}, time.Minute); err == nil {
		t.Error("a name that leads elsewhere was signed")
	}
}

func TestPublicEndpointErrors(t *testing.T) {
	t.Parallel()
	for _, public := range []string{"s3.example", "https://s3.example/path", "ftp://s3.example", "https://me:hush@s3.example", "https://s3.example?x=1"} {
		_, err := Open(t.Context(), "s3://bucket?region=x", Options{AccessKey: "access", SecretKey: "secret", PublicEndpoint: public})
		if err == nil || !strings.HasPrefix(err.Error(), "PAWL_S3_PUBLIC_ENDPOINT is ") || !strings.Contains(err.Error(), "write https://host:port") ||
			strings.Contains(err.Error(), "hush") {
			t.Errorf("%s gave %v", public, err)
		}
	}
}

// carryOut carries out a signed request, with more headers than were signed as names and values in turn.
func carryOut(t *testing.T, signed publish.SignedRequest, body string, more ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), signed.Method, signed.URL, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range signed.Headers {
		req.Header.Set(name, value)
	}
	for i := 0; i < len(more); i += 2 {
		req.Header.Set(more[i], more[i+1])
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	res, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	got, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(got)
}
