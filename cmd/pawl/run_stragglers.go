package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// writerGrace is how long those who outlive the command may take to close its outputs. A shell, for one, doesn't wait for the tee of
// exec > >(tee log), which ends as soon as the shell has.
const writerGrace = time.Second

// writer is a process that has a file open for writing.
type writer struct {
	pid  int
	path string
}

// unfinishedError is an output that somebody still wrote when the command had ended.
type unfinishedError struct{ writer }

func (unfinishedError) exitCode() int { return exitMissing }
func (e unfinishedError) Error() string {
	return fmt.Sprintf("the command ended while its process %d still wrote %s, which would be cut off; that was ended, and nothing is published. "+
		"Let the command wait for what it starts in the background: in a shell, by wait", e.pid, e.path)
}

// stragglers looks at those who have outlived a command that succeeded, before they are ended: none may be in the middle of an output.
func (w worker) stragglers(f *family) error {
	for start := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		f.reap()
		if !f.alive() {
			return nil
		}
		at, found := f.writer(w.outputs)
		switch {
		case !found:
			if left := len(f.members()); left > 0 {
				w.app.notice("%d process(es) of the command were still running when it ended, and were ended", left)
			}
			return nil
		case time.Since(start) > writerGrace:
			return unfinishedError{at}
		}
	}
}

// outputPlaces are the places where the outputs lie, without links: a file lies there or below.
func outputPlaces(scratch string, declared []declaredOutput) []string {
	places := []string{scratch}
	for _, d := range declared {
		if d.folder != "" {
			places = append(places, filepath.Join(d.folder, filepath.FromSlash(d.relative)))
		}
	}
	for i, place := range places {
		if folder, err := filepath.EvalSymlinks(filepath.Dir(place)); err == nil { // The output itself may not be there yet.
			places[i] = filepath.Join(folder, filepath.Base(place))
		}
	}
	return places
}

// isOutput reports whether a file lies in one of the places.
func isOutput(path string, places []string) bool {
	for _, place := range places {
		if path == place || strings.HasPrefix(path, place+"/") {
			return true
		}
	}
	return false
}
