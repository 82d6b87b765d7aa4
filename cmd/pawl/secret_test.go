package main

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/internal/testenv"
)

// A secret comes from its variable, from the file that its _FILE form names, or from systemd's folder of credentials, in this order; two of the
// first are one too many.
func TestSecretsAreFound(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file := write("url", "postgres://file\n")
	write("pawl.database-url", "postgres://systemd\r\n")
	write("pawl.s3-access-key", "access")
	write("pawl.s3-secret-key", "secret")
	none := "PAWL_OTHER=1"
	for _, test := range []struct {
		env  []string
		want string
		code int
		says []string
	}{
		{env: []string{"PAWL_DATABASE_URL=postgres://variable", "CREDENTIALS_DIRECTORY=" + dir}, want: "postgres://variable"},
		{env: []string{"PAWL_DATABASE_URL_FILE=" + file, "CREDENTIALS_DIRECTORY=" + dir}, want: "postgres://file"},
		{env: []string{"CREDENTIALS_DIRECTORY=" + dir}, want: "postgres://systemd"},
		{env: []string{"CREDENTIALS_DIRECTORY=" + t.TempDir()}},
		{env: []string{none}},
		{
			env: []string{"PAWL_DATABASE_URL=canary", "PAWL_DATABASE_URL_FILE=" + file}, code: exitConfig,
			says: []string{"PAWL_DATABASE_URL and PAWL_DATABASE_URL_FILE are both set"},
		},
		{env: []string{"PAWL_DATABASE_URL_FILE=" + file + "x"}, code: exitConfig, says: []string{"PAWL_DATABASE_URL_FILE: ", "no such file"}},
		{env: []string{"PAWL_DATABASE_URL_FILE=" + write("two", "canary\ncanary")}, code: exitConfig, says: []string{"PAWL_DATABASE_URL_FILE: ", "on its only line"}},
		{env: []string{"PAWL_DATABASE_URL_FILE=" + write("empty", "\n")}, code: exitConfig, says: []string{"on its only line"}},
	} {
		a := &app{stderr: io.Discard, getenv: lookup(test.env)}
		settings, err := a.serverSettings(serverFlags{}, slog.LevelInfo)
		if test.code == 0 {
			if err != nil || settings.databaseURL != test.want {
				t.Errorf("%q: %q, %v", test.env, settings.databaseURL, err)
			}
			continue
		}
		// migrate reads that setting alone.
		migrate := call(t, test.env, "migrate")
		migrate.expect(t, test.code, test.says...)
		for _, says := range append(test.says, "") {
			if exitCode(err) != test.code || !strings.Contains(err.Error(), says) || strings.Contains(err.Error()+migrate.stderr, "canary") {
				t.Errorf("%q: %v", test.env, err)
			}
		}
	}

	a := &app{stderr: io.Discard, getenv: lookup([]string{"CREDENTIALS_DIRECTORY=" + dir})}
	settings, err := a.serverSettings(serverFlags{}, slog.LevelInfo)
	if got := settings.store; err != nil || got.accessKeyFile != filepath.Join(dir, "pawl.s3-access-key") || got.secretKeyFile != filepath.Join(dir, "pawl.s3-secret-key") {
		t.Errorf("the bucket's keys: %+v, %v", got, err)
	}
	write("pawl.credential", "canary")
	a.client = clientFlags{}
	if text, file, err := a.credential(); err != nil || text != "" || file != filepath.Join(dir, "pawl.credential") {
		t.Errorf("systemd's credential isn't found: %q, %v", file, err)
	}
	for _, key := range []string{"PAWL_S3_ACCESS_KEY", "PAWL_S3_SECRET_KEY"} {
		a := &app{stderr: io.Discard, getenv: lookup([]string{key + "=canary", key + "_FILE=" + file})}
		if _, err := a.serverSettings(serverFlags{}, slog.LevelInfo); exitCode(err) != exitConfig || !strings.Contains(err.Error(), key+" and "+key+"_FILE are both set") {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// An address in a file that is replaced is used for new connections, and its new password shows no more than the old one did.
func TestDatabaseURLFileIsReadAgain(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "url")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("postgres://me:canary-1@db/pawl")
	var stderr testenv.Buffer
	a := &app{stderr: &stderr, getenv: lookup([]string{"PAWL_DATABASE_URL_FILE=" + file})}
	settings, err := a.serverSettings(serverFlags{}, slog.LevelInfo)
	if err != nil {
		t.Fatal(err)
	}
	write("postgres://me:canary-2@db/pawl\n")
	read := settings.pointerOptions().Address
	for range 100 { // More than texts are remembered: an address that is read again and again drives out no other.
		if address, err := read(); err != nil || address != "postgres://me:canary-2@db/pawl" {
			t.Fatalf("read again: %s, %v", address, err)
		}
	}
	settings.log.Warn("failed", "error", "canary-1 and canary-2")
	if text := stderr.String(); strings.Contains(text, "canary") || strings.Count(text, "[hidden]") != 2 {
		t.Errorf("%s", text)
	}
	write("")
	if _, err := read(); err == nil || !strings.Contains(err.Error(), "PAWL_DATABASE_URL_FILE") {
		t.Errorf("an empty file: %v", err)
	}
	if fixed, err := (&app{getenv: lookup([]string{"PAWL_DATABASE_URL=postgres://db"}), stderr: io.Discard}).serverSettings(serverFlags{}, slog.LevelInfo); err != nil || fixed.pointerOptions().Address != nil {
		t.Errorf("an address that can't change is asked for again, %v", err)
	}
}
