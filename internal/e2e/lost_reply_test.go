package e2e

import (
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// loseFirstReply puts a proxy before a server that carries the first publish out and loses the reply to it. Before the client can see
// that, between is called. It returns the proxy's address.
func (s *server) loseFirstReply(between func()) (address string) {
	s.t.Helper()
	target, err := url.Parse(s.url)
	if err != nil {
		s.t.Fatal(err)
	}
	transport := &http.Transport{}
	pass := &httputil.ReverseProxy{
		Transport: transport,
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ErrorLog:  log.New(io.Discard, "", 0),
	}
	var first sync.Once
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lost := false
		if strings.HasSuffix(r.URL.Path, "/publish") {
			first.Do(func() { lost = true })
		}
		if !lost {
			pass.ServeHTTP(w, r)
			return
		}
		reply := httptest.NewRecorder()
		pass.ServeHTTP(reply, r)
		if reply.Code != http.StatusOK {
			s.t.Errorf("the publish is answered with %d: %s", reply.Code, reply.Body)
		}
		between()
		panic(http.ErrAbortHandler)
	}))
	s.t.Cleanup(func() {
		proxy.CloseClientConnections()
		proxy.Close()
		transport.CloseIdleConnections()
	})
	return proxy.URL
}

// Case 16: the reply to A's publish is lost, and B publishes before A repeats. A learns that it has published and was superseded since;
// that is no error, and B's version stays current.
func TestCase16LostReplyOnTheCommandLine(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"run", "run as JSON", "publish"} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			s := serve(t, testenv.Postgres(t), directory(t))
			ctx := context.Background()
			const key = "lost/reply"
			folder := t.TempDir()
			file, lease := filepath.Join(folder, "out.txt"), filepath.Join(folder, "lease.json")
			if err := os.WriteFile(file, []byte("by A"), 0o600); err != nil {
				t.Fatal(err)
			}
			published := false
			address := s.loseFirstReply(func() {
				b, err := s.api.Acquire(ctx, publish.AcquireRequest{Key: key, Holder: "worker-b", TTL: time.Minute, Wait: patience / 2})
				if err != nil {
					t.Error(err)
					return
				}
				_, err = s.api.UploadAndPublish(ctx, publish.UploadRequest{Grant: b.Grant(), Path: "out.txt", Size: 4, Body: strings.NewReader("by B")})
				published = err == nil
			})
			env := []string{"PAWL_URL=" + address}
			var a *process
			switch verb {
			case "publish":
				acquired := s.pawl("acquire", key, "--ttl", "2s", "--json")
				if code := acquired.exit(); code != 0 {
					t.Fatal(code)
				}
				if err := os.WriteFile(lease, []byte(acquired.out.String()), 0o600); err != nil {
					t.Fatal(err)
				}
				if code := s.pawl("put", key, file, "--lease-file", lease).exit(); code != 0 {
					t.Fatal(code)
				}
				a = start(t, env, binary(t), "publish", key, "--lease-file", lease)
			case "run":
				a = start(t, env, binary(t), "run", "--key", key, "--out", file, "--", "true")
			default:
				a = start(t, env, binary(t), "run", "--key", key, "--out", file, "--json", "--", "true")
			}
			if code := a.exit(); code != 0 || !published {
				t.Errorf("A exits %d; B has published: %t", code, published)
			}
			said, want := a.out.String()+a.errs.String(), "published before, since superseded by 2.1 "+key+" version 1.1"
			if verb == "run as JSON" {
				said, want = a.out.String(), `"outcome":"superseded","exit_code":0}`
			}
			if !strings.Contains(said, want) {
				t.Errorf("A says %q, want %q", said, want)
			}
			if got := s.read(key); got != "by B" {
				t.Errorf("current is %q", got)
			}
		})
	}
}
