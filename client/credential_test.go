package client

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/pawlhq/pawl/internal/testenv"
)

// A credential in a file that is replaced is sent from the next request on; while the file is away or empty, the one from before is.
func TestCredentialFileIsReadAgain(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "credential")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("canary-1\n")
	var lines testenv.Buffer
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = lines.Write([]byte(r.Header.Get("Authorization") + "\n"))
		w.WriteHeader(http.StatusNoContent)
	})
	c := newClient(t, f.URL, Options{CredentialFile: file})
	send := func() {
		if err := c.do(t.Context(), call{what: "test", method: http.MethodGet, url: c.base}); err != nil {
			t.Error(err)
		}
	}
	send()
	write("canary-2")
	send()
	write("")
	send()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	send()
	write("  canary-3\r\n")
	var all sync.WaitGroup
	for range 8 {
		all.Go(send)
	}
	all.Wait()
	want := "Bearer canary-1\n" + strings.Repeat("Bearer canary-2\n", 3) + strings.Repeat("Bearer canary-3\n", 8)
	if got := lines.String(); got != want {
		t.Errorf("sent %q", got)
	}
}

func TestBadCredentialFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for content, want := range map[string]string{
		"canary one": "printable ASCII", "canary\r\ncanary": "only line", "": "only line", "canary-ä": "printable ASCII",
		"canary" + strings.Repeat("x", maxCredentialBytes): "only line",
	} {
		file := filepath.Join(dir, "credential")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := New("http://pawl", Options{CredentialFile: file}); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("a file of %d bytes: %v", len(content), err)
		}
	}
	if _, err := New("http://pawl", Options{CredentialFile: filepath.Join(dir, "nosuch")}); err == nil || !strings.Contains(err.Error(), "name a file that can be read") {
		t.Errorf("no file: %v", err)
	}
	if _, err := New("http://pawl", Options{Credential: "canary", CredentialFile: filepath.Join(dir, "credential")}); err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("both: %v", err)
	}
}
