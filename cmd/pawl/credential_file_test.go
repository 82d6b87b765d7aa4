package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCredential(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "token")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// A token of a workload has some KiB.
	long := strings.Repeat("eyJhbGciOiJSUzI1NiJ9", 100) + "." + strings.Repeat("e", 800) + "." + strings.Repeat("_-", 171)
	write(long + "\n")
	file := lookup([]string{"PAWL_CREDENTIAL_FILE=" + path})
	ask, err := (&app{getenv: file}).credential()
	if err != nil {
		t.Fatal(err)
	}
	check := func(want string) {
		t.Helper()
		if got, err := ask(); got != want || err != nil {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	check(long)
	// The platform puts a new one there.
	write("two")
	check("two")
	write("")
	check("two")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	check("two")
	write(" three\r\n")
	check("three")

	if ask, err = (&app{getenv: lookup([]string{"PAWL_CREDENTIAL=here", "PAWL_CREDENTIAL_FILE=" + path})}).credential(); err != nil {
		t.Fatal(err)
	}
	check("here")
	flag := &app{getenv: lookup([]string{"PAWL_CREDENTIAL=here"})}
	flag.client.credentialFile = path
	if ask, err = flag.credential(); err != nil {
		t.Fatal(err)
	}
	check("three")
	if ask, err := (&app{getenv: lookup(nil)}).credential(); ask != nil || err != nil {
		t.Errorf("without one: %v", err)
	}
	_, err = (&app{getenv: lookup([]string{"PAWL_CREDENTIAL_FILE=" + path + ".not"})}).credential()
	if exitCode(err) != exitConfig || !strings.Contains(err.Error(), "PAWL_CREDENTIAL_FILE") {
		t.Errorf("a file that isn't there: %v", err)
	}
}
