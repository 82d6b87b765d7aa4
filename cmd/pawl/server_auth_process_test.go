package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/pointer"
	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

// askingServer is a pawl serve on a Postgres of its own that asks for credentials.
type askingServer struct {
	*process
	url     string
	service *publish.Service // on the same Postgres, to make credentials with
	secrets []string
}

func startAsking(t *testing.T, env ...string) *askingServer {
	t.Helper()
	address, dir, dsn := freeAddress(t), t.TempDir(), emptyDatabase(t)
	if err := os.Mkdir(filepath.Join(dir, "blobs"), 0o700); err != nil {
		t.Fatal(err)
	}
	env = append(env, "PAWL_DATABASE_URL="+dsn, "PAWL_BLOBS=file://"+filepath.Join(dir, "blobs"), "PAWL_LISTEN="+address, "PAWL_AUTH=required")
	s := &askingServer{process: startPawl(t, dir, env, "serve", "--migrate", "--drain", "0s"), url: "http://" + address}
	eventually(t, "the start", func() bool { return strings.Contains(s.stderr.String(), "server_started") })
	store, err := pointer.Open(t.Context(), dsn, pointer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s.service = &publish.Service{Pointers: store}
	t.Cleanup(func() { s.service.Close(); store.Close() })
	return s
}

// issue makes a credential, and returns its text.
func (s *askingServer) issue(t *testing.T, name, scopes string) (string, publish.CredentialID) {
	t.Helper()
	parsed, err := publish.ParseScopes(scopes)
	if err != nil {
		t.Fatal(err)
	}
	made, err := s.service.CreateCredential(t.Context(), publish.CreateCredentialRequest{Name: name, Scopes: parsed, By: "test", Admin: publish.Everything})
	if err != nil {
		t.Fatal(err)
	}
	s.secrets = append(s.secrets, made.Secret.Reveal())
	return made.Secret.Reveal(), made.ID
}

// as is the environment of a command with a credential, "" for none.
func (s *askingServer) as(credential string) []string {
	return []string{"PAWL_URL=" + s.url, "PAWL_CREDENTIAL=" + credential}
}

func (s *askingServer) get(t *testing.T, method, target, credential string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.url+target, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+credential)
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

var requestID = regexp.MustCompile(`"request_id":"[^"]*"`)

// The whole way on a real Postgres: who has a credential works with the commands as ever, others are told what they lack, and what isn't theirs can't be told from
// what never was.
func TestServeAsksForCredentials(t *testing.T) {
	t.Parallel()
	s := startAsking(t, "PAWL_PUBLIC_READ=press/", "PAWL_CONTENT_ORIGIN=https://files.example")
	file := filepath.Join(t.TempDir(), "f.txt")
	if err := os.WriteFile(file, []byte("bytes of team-a"), 0o600); err != nil {
		t.Fatal(err)
	}
	root, _ := s.issue(t, "root", "admin")
	worker, workerID := s.issue(t, "worker", "publish:team-a/,publish:press/")
	other, _ := s.issue(t, "other", "admin:team-ab/,operate:team-a/y")

	call(t, s.as(""), "put", "team-a/x", file).expect(t, exitNotAllowed, "unauthorized", "PAWL_CREDENTIAL")
	call(t, s.as(publish.NewSecret().Reveal()), "put", "team-a/x", file).expect(t, exitNotAllowed, "unauthorized")
	for _, key := range []string{"team-a/x", "press/x"} {
		call(t, s.as(worker), "put", key, file).expect(t, exitOK)
	}
	call(t, s.as(other), "stat", "team-a/x").expect(t, call(t, s.as(root), "stat", "team-a/n").code, "not-found")
	call(t, s.as(other), "put", "team-a/x", file).expect(t, call(t, s.as(other), "put", "team-a/n", file).code, "not-found")
	call(t, s.as(worker), "pin", "team-a/x", "--reason", "r").expect(t, exitNotAllowed, "operate:team-a/x")
	call(t, s.as(root), "pin", "team-a/x", "--reason", "r").expect(t, exitOK)
	call(t, s.as(root), "unpin", "team-a/x", "--by", "mia").expect(t, exitUsage, "Pawl-By", "leave it out")
	if _, audit := s.get(t, "GET", "/v1/audit", root); !strings.Contains(audit, `"by":"root"`) || strings.Contains(audit, "mia") {
		t.Errorf("the audit is %s", audit)
	}
	for _, reader := range []string{"", worker} {
		got := filepath.Join(t.TempDir(), "got")
		call(t, s.as(reader), "get", "-o", got, "press/x").expect(t, exitOK)
		if text, err := os.ReadFile(got); err != nil || string(text) != "bytes of team-a" {
			t.Errorf("it has read %q, %v", text, err)
		}
	}
	call(t, s.as(""), "get", "-o", filepath.Join(t.TempDir(), "got"), "team-a/x").expect(t, exitNotAllowed)

	s.hides(t, root, other)

	call(t, s.as(worker), "stat", "team-a/x").expect(t, exitOK)
	if status, body := s.get(t, "DELETE", "/v1/credentials/"+string(workerID), root); status != http.StatusOK {
		t.Errorf("revoking is answered with %d: %s", status, body)
	}
	call(t, s.as(worker), "stat", "team-a/x").expect(t, exitNotAllowed, "unauthorized")
	for _, secret := range s.secrets {
		if strings.Contains(s.stderr.String(), secret) {
			t.Error("a credential is in the log")
		}
	}
}

// hides compares a hidden key, by every route that reads one, with one that never was.
func (s *askingServer) hides(t *testing.T, root, other string) {
	t.Helper()
	compared := 0
	for _, name := range web.RouteNames() {
		method, pattern, _ := strings.Cut(name, " ")
		if method != http.MethodGet || !strings.HasPrefix(pattern, "/v1/keys/{key}") {
			continue
		}
		at := func(key string) string {
			return strings.NewReplacer("{key}", key, "{token}", "1", "{path}", "f.txt").Replace(pattern)
		}
		status, never := s.get(t, method, at("team-a/n"), root)
		if status != http.StatusNotFound {
			t.Errorf("%s of a key that never was is answered with %d", name, status)
			continue
		}
		status, hidden := s.get(t, method, at("team-a/x"), other)
		never, hidden = strings.ReplaceAll(never, "team-a/n", "KEY"), strings.ReplaceAll(hidden, "team-a/x", "KEY")
		if never, hidden = requestID.ReplaceAllString(never, ""), requestID.ReplaceAllString(hidden, ""); status != http.StatusNotFound || hidden != never {
			t.Errorf("%s: a hidden key is answered with %d\n%sand one that never was with\n%s", name, status, hidden, never)
		}
		compared++
	}
	if compared < 10 {
		t.Errorf("only %d routes were compared", compared)
	}
}
