package main

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/pawlhq/pawl/blobstore"
	"github.com/pawlhq/pawl/publish"
)

func TestAuthSettings(t *testing.T) {
	t.Parallel()
	for env, want := range map[string]struct {
		required bool
		public   []publish.Key // that are read without a credential
		private  []publish.Key
		problem  string // of what is refused
	}{
		"":                            {private: []publish.Key{"a"}},
		"PAWL_AUTH=none":              {private: []publish.Key{"a"}},
		"PAWL_AUTH=required":          {required: true, private: []publish.Key{"a"}},
		"PAWL_AUTH=yes":               {problem: `PAWL_AUTH is "yes"; it must be required or none`},
		"PAWL_AUTH=Required":          {problem: "PAWL_AUTH"},
		"PAWL_SESSION_IDLE=1m":        {problem: "PAWL_SESSION_IDLE is \"1m\"; set it to a duration of at least 5m0s"},
		"PAWL_SESSION_LIFETIME=9999h": {problem: "PAWL_SESSION_LIFETIME is \"9999h\"; set it to a duration of at most 720h0m0s"},
		"PAWL_SESSION_LIFETIME=30d":   {problem: "PAWL_SESSION_LIFETIME is \"30d\", which is no duration; write numbers with the units ms, s, m and h, such as \"12h0m0s\", of at least 5m0s"},
		"PAWL_PUBLIC_READ=a/":         {problem: "set PAWL_AUTH=required too"},
		"PAWL_AUTH=required PAWL_PUBLIC_READ=a/,b":     {required: true, public: []publish.Key{"a/x", "b", "b/x"}, private: []publish.Key{"a", "ab", "b2", "c"}},
		"PAWL_AUTH=required PAWL_PUBLIC_READ=all":      {required: true, public: []publish.Key{"a", "all", "z/z"}},
		"PAWL_AUTH=required PAWL_PUBLIC_READ=all/,a":   {required: true, public: []publish.Key{"all/x", "a"}, private: []publish.Key{"b", "all"}},
		"PAWL_AUTH=required PAWL_PUBLIC_READ=a/,all":   {problem: "PAWL_PUBLIC_READ: all stands beside other prefixes: write all alone for all keys, or all/ for those below all/"},
		"PAWL_AUTH=required PAWL_PUBLIC_READ=*":        {required: true, public: []publish.Key{"*"}, private: []publish.Key{"a", "a/x"}},
		"PAWL_AUTH=required PAWL_PUBLIC_READ=/":        {problem: "PAWL_PUBLIC_READ"},
		"PAWL_AUTH=required PAWL_PUBLIC_READ=a/,":      {problem: "PAWL_PUBLIC_READ"},
		"PAWL_AUTH=required PAWL_PUBLIC_READ=a/../b":   {problem: "PAWL_PUBLIC_READ"},
		"PAWL_AUTH=required PAWL_PUBLIC_READ=publish:": {required: true, public: []publish.Key{"publish:"}},
	} {
		a := &app{stderr: io.Discard, getenv: lookup(strings.Fields(env))}
		settings, err := a.serverSettings(serverFlags{}, slog.LevelInfo)
		if want.problem != "" {
			if exitCode(err) != exitConfig || !strings.Contains(err.Error(), want.problem) {
				t.Errorf("%s: %v", env, err)
			}
			continue
		}
		if err != nil || settings.auth.required != want.required {
			t.Errorf("%s: %+v, %v", env, settings.auth, err)
		}
		for _, key := range want.public {
			if !settings.auth.public.Has(key) {
				t.Errorf("%s: %s isn't public", env, key)
			}
		}
		for _, key := range want.private {
			if settings.auth.public.Has(key) {
				t.Errorf("%s: %s is public", env, key)
			}
		}
	}
}

// What counts for callers who are known alone is named at the start where nobody is asked who he is.
func TestSettingsThatNeedAuth(t *testing.T) {
	t.Parallel()
	given := []string{"PAWL_LIMIT_LEASES=5", "PAWL_LIMIT_DIRECT=5", "PAWL_ORIGIN=https://pawl.example", "PAWL_SESSION_LIFETIME=2h", "PAWL_SESSION_IDLE=1h"}
	for auth, want := range map[string]int{"PAWL_AUTH=none": len(given), "PAWL_AUTH=required": 0} {
		var log bytes.Buffer
		a := &app{stderr: &log, getenv: lookup(append(given, auth))}
		settings, err := a.serverSettings(serverFlags{}, slog.LevelInfo)
		if err != nil {
			t.Fatal(err)
		}
		settings.auth.warnUnused(t.Context(), settings.log)
		if got := strings.Count(log.String(), "level=WARN msg=setting_needs_auth"); got != want {
			t.Errorf("%s: %d lines, want %d:\n%s", auth, got, want, &log)
		}
		for _, setting := range given {
			name, _, _ := strings.Cut(setting, "=")
			if strings.Contains(log.String(), "set PAWL_AUTH=required too, or leave "+name+" out") != (want > 0) {
				t.Errorf("%s and %s: %s", auth, name, &log)
			}
		}
	}
}

// A session that nobody uses can't last for longer than one that is used.
func TestSessionSettings(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		env            string
		lifetime, idle time.Duration
		problem        string
	}{
		{env: "", lifetime: 12 * time.Hour, idle: time.Hour},
		{env: "PAWL_SESSION_LIFETIME=30m", lifetime: 30 * time.Minute, idle: 30 * time.Minute},
		{env: "PAWL_SESSION_LIFETIME=30m PAWL_SESSION_IDLE=30m", lifetime: 30 * time.Minute, idle: 30 * time.Minute},
		{env: "PAWL_SESSION_IDLE=12h", lifetime: 12 * time.Hour, idle: 12 * time.Hour},
		{env: "PAWL_SESSION_IDLE=13h", problem: "PAWL_SESSION_IDLE is 13h0m0s, and a session ends after 12h0m0s in any case: set PAWL_SESSION_IDLE to that at most, or PAWL_SESSION_LIFETIME to more"},
		{env: "PAWL_SESSION_LIFETIME=30m PAWL_SESSION_IDLE=31m", problem: "PAWL_SESSION_IDLE is 31m0s"},
	} {
		a := &app{stderr: io.Discard, getenv: lookup(strings.Fields(test.env))}
		s, err := a.authSettings()
		if test.problem != "" {
			if exitCode(err) != exitConfig || !strings.Contains(err.Error(), test.problem) {
				t.Errorf("%s: %v", test.env, err)
			}
		} else if err != nil || s.sessionLifetime != test.lifetime || s.sessionIdle != test.idle {
			t.Errorf("%s: %s, %s, %v", test.env, s.sessionLifetime, s.sessionIdle, err)
		}
	}
}

// Beyond this machine nobody is served unasked, unless somebody has said so; doctor tells what would be.
func TestServeBeyondLoopback(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		env, listen string
		served      bool
		level       blobstore.Level
	}{
		{"", "127.0.0.1:1", true, blobstore.LevelNote},
		{"", "0.0.0.0:1", false, blobstore.LevelFail},
		{"PAWL_AUTH=none", "pawl.example:1", false, blobstore.LevelFail},
		{"PAWL_ALLOW_UNAUTHENTICATED=true", "0.0.0.0:1", true, blobstore.LevelWarn},
		{"PAWL_AUTH=required", "0.0.0.0:1", true, blobstore.LevelOK},
		{"PAWL_AUTH=required PAWL_PUBLIC_READ=all", "[::]:1", true, blobstore.LevelOK},
		{"PAWL_AUTH=required PAWL_PUBLIC_READ=press/", "127.0.0.1:1", true, blobstore.LevelOK},
	} {
		env := append(strings.Fields(test.env), "PAWL_DATABASE_URL=postgres://db/pawl", "PAWL_BLOBS=file:///srv/pawl", "PAWL_LISTEN="+test.listen)
		a := &app{stderr: io.Discard, getenv: lookup(env)}
		settings, err := a.serverSettings(serverFlags{}, slog.LevelInfo)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.checkServe(settings); (err == nil) != test.served || err != nil && !strings.Contains(err.Error(), "PAWL_AUTH=required") {
			t.Errorf("%+v: %v", test, err)
		}
		if found := a.authFinding(settings); found.Level != test.level || (found.Cure == "") != (found.Level == blobstore.LevelOK) {
			t.Errorf("%+v: doctor says %+v", test, found)
		}
	}
}

// With a credential the server knows who acts, and refuses to be told somebody else.
func TestOperatorOfACommand(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "credential")
	if err := os.WriteFile(file, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		env, by string
		want    publish.Operator
	}{
		{"", "", publish.Operator(userAtHost())},
		{"", "mia", "mia"},
		{"PAWL_CREDENTIAL=secret", "", ""},
		{"PAWL_CREDENTIAL_FILE=" + file, "", ""},
		{"PAWL_CREDENTIAL_FILE=" + file + ".not", "", ""},
		{"PAWL_CREDENTIAL=secret", "mia", "mia"},
	} {
		a := &app{getenv: lookup(strings.Fields(test.env)), flags: pflag.NewFlagSet("", pflag.ContinueOnError)}
		if got := (&operatorFlags{by: test.by}).operator(a); got != test.want {
			t.Errorf("%+v: %q", test, got)
		}
	}
}
