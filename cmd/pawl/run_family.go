package main

import (
	"os"
	"syscall"
	"time"

	"github.com/pawlhq/pawl/internal/devpg/child"
)

// family is the command and all that it has started: its process group, and where the system lets us, also those who
// left the group (setsid) or whose parent died.
type family struct {
	leader   int  // the command
	ownGroup bool // The command leads a group of its own, in which all are of the family.
	// root is the process whose descendants all belong to the family; 0 when there is none.
	root int
	// guard is the one descendant of root that doesn't belong to it, as long as it lives; nil without.
	guard *child.Process
}

// newFamily makes the family of a command. adopting says that all descendants of this process belong to it.
func newFamily(c *command, adopting bool) *family {
	f := &family{leader: c.pid, ownGroup: !c.foreground, guard: c.guard}
	if adopting {
		f.root = os.Getpid()
	}
	return f
}

// signal sends sig to everyone. Those who are gone are no error.
func (f *family) signal(sig syscall.Signal) {
	if f.leader != 0 && f.ownGroup {
		_ = syscall.Kill(-f.leader, sig) //nolint:errcheck // The only failure is that nobody is left.
	}
	for _, p := range f.members() {
		if !f.ownGroup || p.group != f.leader {
			_ = syscall.Kill(p.pid, sig) //nolint:errcheck // See above.
		}
	}
}

// signalBeyond sends sig to those who are not in this process's group.
func (f *family) signalBeyond(sig syscall.Signal) {
	for _, p := range f.members() {
		if p.group != syscall.Getpgrp() {
			_ = syscall.Kill(p.pid, sig) //nolint:errcheck // See signal.
		}
	}
}

// alive reports whether anyone is left.
func (f *family) alive() bool {
	if f.guard != nil {
		select {
		case <-f.guard.Done():
			if f.guard.Err() == nil {
				return false // It ends well only when nobody is left.
			}
		default:
			return true
		}
	}
	if members, known := f.list(); known {
		return len(members) > 0
	}
	return syscall.Kill(-f.leader, 0) == nil
}

func (f *family) members() []proc {
	members, _ := f.list()
	return members
}

// end ends those who outlived the command: TERM, and KILL after the grace; KILL at once without one. It returns when nobody is left, or nothing more
// can be done about it.
func (f *family) end(grace time.Duration) {
	const poll = 10 * time.Millisecond
	f.reap()
	if !f.alive() {
		return
	}
	if grace > 0 {
		f.signal(syscall.SIGTERM)
		f.signal(syscall.SIGCONT)
	}
	for start := time.Now(); time.Since(start) < grace && f.alive(); time.Sleep(poll) {
		f.reap()
	}
	for start := time.Now(); time.Since(start) < 5*time.Second && f.alive(); time.Sleep(poll) {
		f.signal(syscall.SIGKILL)
		f.reap()
	}
}
