package blobstore

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/signer"

	"github.com/pawlhq/pawl/internal/testenv"
)

// diagnose opens the store that a URL names and runs the check.
func diagnose(t *testing.T, rawURL string, opts Options) Report {
	t.Helper()
	store, err := Open(t.Context(), rawURL, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	return store.(*S3).Diagnose(t.Context(), DiagnoseOptions{})
}

func keysOf(server testenv.S3) Options {
	return Options{AccessKey: server.AccessKey, SecretKey: server.SecretKey}
}

func s3URL(server testenv.S3, more ...string) string {
	return "s3://" + server.Bucket + "/p?" + strings.Join(append([]string{"endpoint=" + server.Endpoint, "region=" + server.Region}, more...), "&")
}

// finding returns a finding by its name.
func finding(t *testing.T, report Report, name string) Finding {
	t.Helper()
	for _, f := range report.Findings {
		if f.Name == name {
			return f
		}
	}
	t.Fatalf("no finding %q in %+v", name, report.Findings)
	return Finding{}
}

// TestDiagnose finds nothing to complain about, and leaves nothing behind.
func TestDiagnose(t *testing.T) {
	t.Parallel()
	for name, secure := range map[string]bool{"http": false, "tls": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testenv.S3Bucket(t)
			opts := keysOf(server)
			if secure {
				server.Endpoint, opts.CAFile = tlsProxy(t, server.Endpoint)
			}
			report := diagnose(t, s3URL(server, "path_style=true"), opts)
			if report.Worst() != LevelOK || report.Down || report.Capable != able {
				t.Errorf("%+v", report)
			}
			store, err := Open(t.Context(), s3URL(server, "path_style=true"), opts)
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			s := store.(*S3)
			for found := range s.core.ListObjectsIter(t.Context(), s.bucket, minio.ListObjectsOptions{Recursive: true}) {
				t.Errorf("%s is left (%v)", found.Key, found.Err)
			}
			if left := unfinished(t, s); len(left) != 0 {
				t.Errorf("unfinished uploads are left: %q", left)
			}
			if found := finding(t, report, "unfinished uploads"); found.Level != LevelOK {
				t.Errorf("%+v", found)
			}
		})
	}
}

// TestDiagnoseNamesTheSetting puts one setting wrong at a time, or takes a server that does one thing wrong.
func TestDiagnoseNamesTheSetting(t *testing.T) {
	t.Parallel()
	server := testenv.S3Bucket(t)
	secureEndpoint, _ := tlsProxy(t, server.Endpoint)
	secure, nowhere, noBucket, otherRegion := server, server, server, server
	secure.Endpoint, nowhere.Endpoint, noBucket.Bucket, otherRegion.Region = secureEndpoint, "http://127.0.0.1:1", "no-such-bucket", "eu-north-9"
	noTLS, wantsTLS, named := server, secure, server
	noTLS.Endpoint = strings.Replace(server.Endpoint, "http://", "https://", 1)
	wantsTLS.Endpoint = strings.Replace(secureEndpoint, "https://", "http://", 1)
	named.Endpoint = strings.Replace(server.Endpoint, "127.0.0.1", "localhost", 1)
	late := server
	late.Endpoint = lie(t, server, nil, func(answer *http.Response) {
		answer.Header.Set("Date", time.Now().Add(10*time.Minute).UTC().Format(http.TimeFormat))
	})
	slow := server
	slow.Endpoint = lie(t, server, nil, func(answer *http.Response) {
		answer.Header.Set("Date", time.Now().Add(-20*time.Second).UTC().Format(http.TimeFormat))
	})
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<p>Welcome!</p>") }))
	t.Cleanup(page.Close)
	notS3 := server
	notS3.Endpoint = page.URL

	good := keysOf(server)
	for what, test := range map[string]struct {
		url     string
		opts    Options
		finding string
		level   Level
		cure    string
		down    bool
	}{
		"no server":          {s3URL(nowhere), good, "server", LevelFail, "endpoint=… in PAWL_BLOBS", true},
		"unknown authority":  {s3URL(secure), good, "server", LevelFail, "PAWL_S3_CA_FILE", false},
		"no TLS there":       {s3URL(noTLS), good, "server", LevelFail, "endpoint=http://… in PAWL_BLOBS", false},
		"TLS wanted":         {s3URL(wantsTLS), good, "server", LevelFail, "endpoint=https://… in PAWL_BLOBS", false},
		"something else":     {s3URL(notS3, "path_style=true"), good, "read", LevelFail, "endpoint=… in PAWL_BLOBS", false},
		"wrong region":       {s3URL(otherRegion), good, "bucket", LevelFail, "region=", false},
		"wrong access key":   {s3URL(server), Options{AccessKey: "nobody", SecretKey: server.SecretKey}, "bucket", LevelFail, "PAWL_S3_ACCESS_KEY", false},
		"wrong secret key":   {s3URL(server), Options{AccessKey: server.AccessKey, SecretKey: "hush-hush"}, "bucket", LevelFail, "PAWL_S3_SECRET_KEY", false},
		"no bucket":          {s3URL(noBucket), good, "bucket", LevelFail, "make the bucket, or correct PAWL_BLOBS", false},
		"bucket in the host": {s3URL(named, "path_style=false"), good, "bucket", LevelFail, "path_style=true", true},
		"clock far off":      {s3URL(late), good, "clock", LevelWarn, "NTP", false},
		"clock a bit off":    {s3URL(slow), good, "clock", LevelNote, "", false},
		"public endpoint that can't be reached": {
			s3URL(server),
			Options{AccessKey: server.AccessKey, SecretKey: server.SecretKey, PublicEndpoint: "http://127.0.0.1:1"},
			"public endpoint", LevelNote, "PAWL_S3_PUBLIC_ENDPOINT", false,
		},
		"public endpoint that is something else": {
			s3URL(server),
			Options{AccessKey: server.AccessKey, SecretKey: server.SecretKey, PublicEndpoint: page.URL},
			"public endpoint", LevelFail, "PAWL_S3_PUBLIC_ENDPOINT", false,
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			report := diagnose(t, test.url, test.opts)
			got := finding(t, report, test.finding)
			if got.Level != test.level || !strings.Contains(got.Cure, test.cure) || report.Down != test.down {
				t.Errorf("%+v (down: %t), want %s and %q", got, report.Down, test.level, test.cure)
			}
			if text, _ := json.Marshal(report); strings.Contains(string(text), "X-Amz-Signature") || strings.Contains(string(text), "hush-hush") {
				t.Errorf("a secret in %s", text)
			}
		})
	}
}

// TestDiagnoseLiars: what a server ignores is found out, and isn't relied on.
func TestDiagnoseLiars(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		lie     func(*testing.T, testenv.S3) func(*http.Request)
		answer  func(*http.Response)
		warned  []string
		capable Capabilities
		down    bool
	}{
		"is busy for a moment": {
			answer: func(answer *http.Response) {
				if answer.StatusCode == http.StatusPreconditionFailed && answer.Request.URL.Query().Has("uploadId") {
					answer.StatusCode, answer.Status = http.StatusServiceUnavailable, "503 Slow Down"
				}
			},
			warned: []string{"create-only parts"}, down: true,
			capable: Capabilities{CreateOnlyPut: true, ChecksumSHA256: true, ChecksumCRC64NVME: true, Presign: true},
		},
		"ignores If-None-Match": {
			lie: overwrites, warned: []string{"create-only", "create-only parts"},
			capable: Capabilities{ChecksumSHA256: true, ChecksumCRC64NVME: true, Presign: true},
		},
		"ignores If-None-Match when it is signed": {
			lie: func(t *testing.T, server testenv.S3) func(*http.Request) {
				over := overwrites(t, server)
				return func(r *http.Request) {
					if r.URL.Query().Has("X-Amz-Signature") {
						over(r)
					}
				}
			},
			warned:  []string{"signed create-only"},
			capable: Capabilities{CreateOnlyComplete: true, ChecksumSHA256: true, ChecksumCRC64NVME: true, Presign: true},
		},
		"ignores checksums": {
			lie: ignoresSums, warned: []string{"checksum"},
			capable: Capabilities{CreateOnlyPut: true, CreateOnlyComplete: true, ChecksumCRC64NVME: true, Presign: true},
		},
		"computes no checksums": {
			answer: func(answer *http.Response) { answer.Header.Del("X-Amz-Checksum-Crc64nvme") }, warned: []string{"checksum of parts"},
			capable: Capabilities{CreateOnlyPut: true, CreateOnlyComplete: true, ChecksumSHA256: true, Presign: true},
		},
		"refuses signed requests": {
			answer: func(answer *http.Response) {
				if answer.Request.URL.Query().Has("X-Amz-Signature") {
					answer.StatusCode, answer.Status = http.StatusForbidden, "403 Forbidden"
				}
			},
			warned: []string{"signed requests"}, capable: Capabilities{CreateOnlyComplete: true},
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			server := testenv.S3Bucket(t)
			var change func(*http.Request)
			if test.lie != nil {
				change = test.lie(t, server)
			}
			server.Endpoint = lie(t, server, change, test.answer)
			report := diagnose(t, s3URL(server, "path_style=true"), keysOf(server))
			if report.Capable != test.capable || report.Worst() != LevelWarn || report.Down != test.down {
				t.Errorf("%+v", report)
			}
			for _, name := range test.warned {
				got := finding(t, report, name)
				if got.Level != LevelWarn || got.Cure == "" || test.lie != nil && !strings.Contains(got.Seen, "ignores it") {
					t.Errorf("%+v", got)
				}
			}
		})
	}
}

func TestDiagnoseCORS(t *testing.T) {
	t.Parallel()
	server := testenv.S3Bucket(t)
	s := openS3(t, server, "")
	origins := []string{"https://pawl.example", "https://other.example"}
	got := finding(t, s.Diagnose(t.Context(), DiagnoseOptions{Origins: origins}), "cors")
	_, rule, _ := strings.Cut(got.Cure, "--cors-configuration '")
	var document any
	if err := json.Unmarshal([]byte(strings.TrimSuffix(rule, "'")), &document); err != nil || got.Level != LevelNote || !strings.Contains(rule, `"ExposeHeaders":["ETag"]`) {
		t.Errorf("%+v (%v)", got, err)
	}
	server.Endpoint = lie(t, server, nil, func(answer *http.Response) {
		if answer.Request.Method == http.MethodOptions {
			answer.StatusCode = http.StatusOK
			answer.Header.Set("Access-Control-Allow-Origin", answer.Request.Header.Get("Origin"))
		}
	})
	s = openS3(t, server, "")
	if got := finding(t, s.Diagnose(t.Context(), DiagnoseOptions{Origins: origins}), "cors"); got.Level != LevelOK {
		t.Errorf("%+v", got)
	}
}

// lie starts a proxy that changes requests, and the answers to them. It returns its address.
func lie(t *testing.T, server testenv.S3, change func(*http.Request), answer func(*http.Response)) string {
	t.Helper()
	target, err := url.Parse(server.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	toServer := &http.Transport{}
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Transport: toServer, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = target.Scheme, target.Host
			if change != nil {
				change(r.Out)
			}
		},
		ModifyResponse: func(r *http.Response) error {
			if answer != nil {
				answer(r)
			}
			return nil
		},
	})
	t.Cleanup(func() {
		proxy.Close()
		toServer.CloseIdleConnections()
	})
	return proxy.URL
}

// overwrites removes what a condition would protect before the request comes.
func overwrites(t *testing.T, server testenv.S3) func(*http.Request) {
	t.Helper()
	s := openS3(t, server, "")
	return func(r *http.Request) {
		if r.Header.Get("If-None-Match") != "" {
			_ = s.core.RemoveObject(r.Context(), s.bucket, strings.TrimPrefix(r.URL.Path, "/"+s.bucket+"/"), minio.RemoveObjectOptions{})
		}
	}
}

// ignoresSums puts every checksum right, and signs anew.
func ignoresSums(_ *testing.T, server testenv.S3) func(*http.Request) {
	return func(r *http.Request) {
		if r.Header.Get(headerChecksumSHA256) == "" {
			return
		}
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		sum := sha256.Sum256(body)
		r.Header.Set(headerChecksumSHA256, base64.StdEncoding.EncodeToString(sum[:]))
		r.Header.Del("Authorization")
		for _, name := range []string{"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
			r.Header.Del(name)
		}
		r.Header.Set("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD")
		query := r.URL.Query()
		for name := range query {
			if strings.HasPrefix(name, "X-Amz-") {
				query.Del(name)
			}
		}
		r.URL.RawQuery = query.Encode()
		*r = *signer.SignV4(*r, server.AccessKey, server.SecretKey, "", server.Region)
	}
}
