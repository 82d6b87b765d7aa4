package main

import (
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestSweepSettings(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{"": 24 * time.Hour, "90m": 90 * time.Minute, "1s": time.Second, "0": 0, "-1h": 0, "1": 0, "999ms": 0} {
		a := &app{stderr: &strings.Builder{}, getenv: lookup([]string{"PAWL_SWEEP_GRACE=" + text})}
		settings, err := a.serverSettings(serverFlags{}, slog.LevelInfo)
		switch {
		case want > 0 && (err != nil || settings.sweep.Grace != want || settings.sweep.interval != defaultSweepInterval):
			t.Errorf("PAWL_SWEEP_GRACE=%s: %+v, %v", text, settings.sweep, err)
		case want == 0 && (exitCode(err) != exitConfig || !strings.Contains(err.Error(), "PAWL_SWEEP_GRACE")):
			t.Errorf("PAWL_SWEEP_GRACE=%s: %v, want an error that names it", text, err)
		}
	}
}
