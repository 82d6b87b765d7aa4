package main

import (
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/publish"
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
		settings.store.options().OnKeys("canary-4", "canary-5") // Keys that came later.
		leak := errors.New("dialing " + dsn + " with " + written + ", canary-2 and canary-3, canary-4 and canary-5")
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

func TestTransportSettings(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		set  string
		code int
	}{
		{"PAWL_TRUSTED_PROXIES=10.0.0.0/8, 192.0.2.7", 0},
		{"PAWL_TRUSTED_PROXIES=proxy.example", exitConfig},
		{"PAWL_TLS_CERT=cert.pem", exitConfig},
		{"PAWL_EMBED=same-site", 0},
		{"PAWL_EMBED=*", exitConfig},
		{"PAWL_CONTENT_ORIGIN=https://files.example", 0},
		{"PAWL_CONTENT_ORIGIN=https://files.example/x", exitConfig},
		{"PAWL_CONTENT_ORIGIN=http://127.0.0.1:8484", exitConfig},
		{"PAWL_ORIGIN=https://pawl.example", 0},
		{"PAWL_ORIGIN=https://pawl.example/x", exitConfig},
		{"PAWL_TLS_KEY=key.pem", exitConfig},
	} {
		a := &app{stderr: io.Discard, getenv: lookup([]string{test.set})}
		_, err := a.serverSettings(serverFlags{}, slog.LevelInfo)
		name, _, _ := strings.Cut(test.set, "=")
		if err != nil && (exitCode(err) != test.code || !strings.Contains(err.Error(), name)) || err == nil && test.code != 0 {
			t.Errorf("%s: %v", test.set, err)
		}
	}
}

// The content origin has a host that no page has, and the error names both settings.
func TestContentOriginSetting(t *testing.T) {
	t.Parallel()
	for listen, hosts := range map[string]string{"127.0.0.1:1": "pawl.example, files.example", "files.example:1": "", "0.0.0.0:1": "FILES.example."} {
		a := &app{stderr: io.Discard, getenv: lookup([]string{"PAWL_CONTENT_ORIGIN=https://files.example:8443", "PAWL_HOSTS=" + hosts})}
		_, err := a.serverSettings(serverFlags{listen: listen}, slog.LevelInfo)
		if err == nil || exitCode(err) != exitConfig || !strings.Contains(err.Error(), "PAWL_CONTENT_ORIGIN") || !strings.Contains(err.Error(), "PAWL_HOSTS") {
			t.Errorf("listening on %s with the hosts %q: %v", listen, hosts, err)
		}
	}
}

func TestStoreSettings(t *testing.T) {
	t.Parallel()
	read := func(env ...string) (storeSettings, error) {
		a := &app{stderr: io.Discard, getenv: lookup(env)}
		s, err := a.serverSettings(serverFlags{}, slog.LevelInfo)
		return s.store, err
	}
	for env, want := range map[string]string{
		"PAWL_S3_VERIFY=md5":                    `PAWL_S3_VERIFY is "md5"; it must be read or crc64nvme`,
		"PAWL_READS=direct":                     `PAWL_READS is "direct"; it must be stream or redirect`,
		"PAWL_READS=redirect":                   "names no S3 store to send readers to; set PAWL_READS=stream",
		"PAWL_S3_PART_MEMORY=15MiB":             "such as 64MiB, at least 16MiB",
		"PAWL_S3_PART_MEMORY=64 M":              "such as 64MiB",
		"PAWL_S3_PART_MEMORY=-1":                "such as 64MiB",
		"PAWL_S3_PART_MEMORY=99999999999999GiB": "such as 64MiB",
	} {
		if _, err := read(env, "PAWL_BLOBS=file:///srv/pawl"); err == nil || exitCode(err) != exitConfig || !strings.Contains(err.Error(), want) {
			t.Errorf("%s gave %v, want %q", env, err, want)
		}
	}
	got, err := read("PAWL_S3_PART_MEMORY=1GiB", "PAWL_READS=redirect", "PAWL_BLOBS=s3://bucket?region=x", "PAWL_S3_VERIFY=read")
	if err != nil || got.partMemory != 1<<30 || got.reads != readsRedirect || got.verify != publish.VerifyRead {
		t.Errorf("read %+v, %v", got, err)
	}
	if got, err = read(); err != nil || got.partMemory != 0 || got.reads != readsStream || got.verify != publish.VerifyCRC64NVME {
		t.Errorf("without anything set: %+v, %v", got, err)
	}
	for text, want := range map[string]int64{"0": 0, "5": 5, "2KiB": 2048, "3 MiB": 3 << 20, "x": -1, "5TiB": 5 << 40, "5TiB KiB": -1, "9000000TiB": -1, "": -1, "MiB": -1} {
		if n, ok := parseSize(text); ok != (want >= 0) || ok && n != want {
			t.Errorf("parseSize(%q) = %d, %t", text, n, ok)
		}
	}
}

func TestMarkersSetting(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]bool{"": false, "false": false, "true": true} {
		a := &app{stderr: io.Discard, getenv: lookup([]string{"PAWL_MARKERS=" + value})}
		if settings, err := a.serverSettings(serverFlags{}, slog.LevelInfo); err != nil || settings.markers != want {
			t.Errorf("PAWL_MARKERS=%s: %v, %v", value, settings.markers, err)
		}
	}
	a := &app{stderr: io.Discard, getenv: lookup([]string{"PAWL_MARKERS=yes"})}
	if _, err := a.serverSettings(serverFlags{}, slog.LevelInfo); exitCode(err) != exitConfig || !strings.Contains(err.Error(), "true or false") {
		t.Errorf("PAWL_MARKERS=yes: %v", err)
	}
}
