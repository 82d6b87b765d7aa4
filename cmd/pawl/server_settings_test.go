package main

import (
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
)

func TestLoopback(t *testing.T) {
	t.Parallel()
	for listen, want := range map[string]bool{
		"127.0.0.1:8484": true, "127.9.9.9:1": true, "[::1]:8484": true, "localhost:8484": true, "[::ffff:127.0.0.1]:1": true,
		":8484": false, "0.0.0.0:8484": false, "[::]:8484": false, "10.0.0.1:8484": false, "example.com:8484": false, "nonsense": false,
	} {
		if got := loopback(listen); got != want {
			t.Errorf("loopback(%q) = %v", listen, got)
		}
	}
}

// Case 50: neither an address with its password nor a key of the store shows in a log or an error.
func TestCase50NoSecretInTheLog(t *testing.T) {
	t.Parallel()
	for dsn, written := range map[string]string{
		"postgres://me:canary-1%40@db/pawl":   "canary-1@, canary-1%40",
		"host=db user=me password='canary-1'": "canary-1",
	} {
		var stderr strings.Builder
		a := &app{stderr: &stderr, getenv: lookup([]string{
			"PAWL_DATABASE_URL=" + dsn, "PAWL_S3_ACCESS_KEY=canary-2",
			"PAWL_S3_SECRET_KEY=canary-3", "PAWL_LOG_FORMAT=json",
		})}
		settings, err := a.serverSettings(serverFlags{}, slog.LevelInfo)
		if err != nil {
			t.Fatal(err)
		}
		leak := errors.New("dialing " + dsn + " with " + written + ", canary-2 and canary-3")
		settings.log.Warn("failed", "error", leak)
		clean := settings.redacted(configError{leak})
		for _, text := range []string{stderr.String(), clean.Error()} {
			if strings.Contains(text, "canary") || !strings.Contains(text, "[hidden]") {
				t.Errorf("%s", text)
			}
		}
		if exitCode(clean) != exitConfig {
			t.Errorf("exit code %d", exitCode(clean))
		}
	}
}

// Hosts are checked on loopback, and elsewhere once some are named.
func TestHostsSetting(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		listen, hosts string
		check         bool
		code          int
	}{
		{listen: "127.0.0.1:1", check: true},
		{listen: "localhost:1", hosts: "pawl.example", check: true},
		{listen: "0.0.0.0:1"},
		{listen: "0.0.0.0:1", hosts: "pawl.example", check: true},
		{listen: "127.0.0.1:1", hosts: "https://pawl.example", code: exitConfig},
	} {
		a := &app{stderr: io.Discard, getenv: lookup([]string{"PAWL_HOSTS=" + test.hosts})}
		settings, err := a.serverSettings(serverFlags{listen: test.listen}, slog.LevelInfo)
		if err != nil && (exitCode(err) != test.code || !strings.Contains(err.Error(), "PAWL_HOSTS")) || err == nil && test.code != 0 {
			t.Errorf("%+v: %v", test, err)
		} else if err == nil && settings.checkHost() != test.check {
			t.Errorf("%+v: hosts are checked: %v", test, settings.checkHost())
		}
	}
}
