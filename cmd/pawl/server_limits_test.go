package main

import (
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

func readLimits(env ...string) (limitSettings, error) {
	a := &app{stderr: io.Discard, getenv: lookup(env)}
	s, err := a.serverSettings(serverFlags{}, slog.LevelInfo)
	return s.limits, err
}

func TestLimitSettings(t *testing.T) {
	t.Parallel()
	standard := limitSettings{
		headers: 64 << 10, json: 16 << 20, file: publish.DefaultMaxFileBytes, generationFiles: 1_000_000,
		rate: 2000, burst: 10_000, connections: 4096, uploads: 1000, direct: 10_000, leases: 10_000, idle: web.DefaultBodyIdleTimeout,
	}
	for env, change := range map[string]func(*limitSettings){
		"":                           func(*limitSettings) {},
		"PAWL_LIMIT_HEADERS=16KiB":   func(s *limitSettings) { s.headers = 16 << 10 },
		"PAWL_LIMIT_JSON=1MiB":       func(s *limitSettings) { s.json = 1 << 20 },
		"PAWL_LIMIT_FILE=5GiB":       func(s *limitSettings) { s.file = 5 << 30 },
		"PAWL_LIMIT_GENERATION=1TiB": func(s *limitSettings) { s.generationBytes = 1 << 40 },
		"PAWL_LIMIT_GENERATION=0":    func(*limitSettings) {},
		"PAWL_LIMIT_FILES=5":         func(s *limitSettings) { s.generationFiles = 5 },
		"PAWL_LIMIT_FILES=0":         func(s *limitSettings) { s.generationFiles = 0 },
		"PAWL_LIMIT_RATE=0.5":        func(s *limitSettings) { s.rate, s.burst = 0.5, 1 },
		"PAWL_LIMIT_RATE=50":         func(s *limitSettings) { s.rate, s.burst = 50, 100 },
		"PAWL_LIMIT_RATE=0":          func(s *limitSettings) { s.rate, s.burst = 0, 1 },
		"PAWL_LIMIT_BURST=7":         func(s *limitSettings) { s.burst = 7 },
		"PAWL_LIMIT_CONNECTIONS=0":   func(s *limitSettings) { s.connections = 0 },
		"PAWL_LIMIT_UPLOADS=3":       func(s *limitSettings) { s.uploads = 3 },
		"PAWL_LIMIT_DIRECT=2":        func(s *limitSettings) { s.direct = 2 },
		"PAWL_LIMIT_DIRECT=0":        func(s *limitSettings) { s.direct = 0 },
		"PAWL_LIMIT_LEASES=2":        func(s *limitSettings) { s.leases = 2 },
		"PAWL_LIMIT_LEASES=0":        func(s *limitSettings) { s.leases = 0 },
		"PAWL_LIMIT_IDLE=2m":         func(s *limitSettings) { s.idle = 2 * time.Minute },
	} {
		want := standard
		change(&want)
		got, err := readLimits(env)
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(limitSettings{})); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", env, err, diff)
		}
	}
	for env, want := range map[string]string{
		"PAWL_LIMIT_HEADERS=1KiB":      "a size such as 64KiB or 5GiB from 8KiB to 16MiB",
		"PAWL_LIMIT_JSON=17MiB":        "from 64KiB to 16MiB",
		"PAWL_LIMIT_FILE=0":            "from 1 to 5TiB",
		"PAWL_LIMIT_FILE=6TiB":         "from 1 to 5TiB",
		"PAWL_LIMIT_GENERATION=5 GB":   "or to 0 for no limit",
		"PAWL_LIMIT_FILES=1KiB":        "a number from 1 to 2147483647, or to 0 for no limit",
		"PAWL_LIMIT_FILES=-1":          "a number from 1",
		"PAWL_LIMIT_RATE=fast":         "requests a second from 0.001 to 1000000, or to 0 for no limit",
		"PAWL_LIMIT_RATE=-1":           "requests a second",
		"PAWL_LIMIT_RATE=NaN":          "requests a second",
		"PAWL_LIMIT_BURST=0":           "a number from 1 to 2147483647",
		"PAWL_LIMIT_CONNECTIONS=2e3":   "or to 0 for no limit",
		"PAWL_LIMIT_UPLOADS=1.5":       "or to 0 for no limit",
		"PAWL_LIMIT_DIRECT=x":          "a number from 1 to 1000000, or to 0 for no limit",
		"PAWL_LIMIT_LEASES=-1":         "a number from 1 to 1000000, or to 0 for no limit",
		"PAWL_LIMIT_IDLE=10ms":         "at least 1s",
		"PAWL_LIMIT_IDLE=half an hour": "at least 1s",
	} {
		name, _, _ := strings.Cut(env, "=")
		if _, err := readLimits(env); err == nil || exitCode(err) != exitConfig || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), name+" is ") {
			t.Errorf("%s gave %v, want %q", env, err, want)
		}
	}
	for _, test := range []struct{ file, generation, want int64 }{{5, 0, 5}, {5, 6, 5}, {5, 4, 4}} {
		if got := (limitSettings{file: test.file, generationBytes: test.generation}).fileBytes(); got != test.want {
			t.Errorf("%+v: %d", test, got)
		}
	}
}
