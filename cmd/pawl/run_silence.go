package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// checkProgressFile tells whether --progress-file names something in PAWL_OUT, or absolutely.
func checkProgressFile(name string) error {
	if name == "" || filepath.IsAbs(name) || filepath.IsLocal(name) {
		return nil
	}
	return usageError{fmt.Errorf("--progress-file %q: must lie in PAWL_OUT, or be absolute", name)}
}

// progressPath is where --progress-file lies; "" for none.
func progressPath(scratch, name string) string {
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(scratch, name)
}

// trace is what shows that a file was worked on. What doesn't exist yet has none.
type trace struct {
	modified time.Time
	size     int64
}

func traceOf(path string) trace {
	info, err := os.Stat(path)
	if err != nil {
		return trace{}
	}
	return trace{info.ModTime(), info.Size()}
}

// watchProgress holds the renewing while the progress file stays the same for too long: a command that hangs would keep the key for
// ever, since its wrapper is well. Time counts by looks at the own clock, and never by comparing the file's time with it: those may
// be the clocks of two machines. While this process or the command was stopped no time counts, since no progress could be made.
func (w worker) watchProgress(ctx context.Context) {
	step := min(max(w.flags.maxSilence/10, 10*time.Millisecond), time.Second)
	looks := time.NewTicker(step)
	defer looks.Stop()
	goOn := func() {}
	defer func() { goOn() }()
	var silence time.Duration
	seen, before := traceOf(w.progress), time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-looks.C:
		}
		now := time.Now()
		passed := min(now.Sub(before), 2*step)
		before = now
		trace := traceOf(w.progress)
		switch {
		case trace != seen:
			seen, silence = trace, 0
			if w.hold.silent.CompareAndSwap(true, false) {
				goOn()
				if !w.isLost() {
					w.app.notice("%s has changed again; renewing the lease of token %d", w.progress, w.lease.Token)
				}
			}
		case w.hold.paused.Load():
		default:
			silence += passed
			if silence >= w.flags.maxSilence && w.hold.silent.CompareAndSwap(false, true) {
				goOn = w.keeper.Hold()
				w.app.notice("%s hasn't changed for %s (--max-silence); the lease of token %d is not renewed until it does, so that another worker can take over",
					w.progress, w.flags.maxSilence, w.lease.Token)
			}
		}
	}
}
