package main

import (
	"context"
	"syscall"
	"time"
)

// family is the command and all that it has started: its process group, and where the system lets us, also those who
// left the group (setsid) or whose parent died.
type family struct {
	leader int
	// whole says that all descendants of this process belong to the family.
	whole bool
}

// newFamily prepares for the start of a command.
func newFamily(ctx context.Context) *family {
	return &family{whole: isOwnProcess(ctx) && adoptOrphans() == nil}
}

func (f *family) lead(pid int) { f.leader = pid }

// signal sends sig to everyone. Those who are gone are no error.
func (f *family) signal(sig syscall.Signal) {
	_ = syscall.Kill(-f.leader, sig) //nolint:errcheck // The only failure is that nobody is left.
	for _, p := range f.members() {
		if p.group != f.leader {
			_ = syscall.Kill(p.pid, sig) //nolint:errcheck // See above.
		}
	}
}

// alive reports whether anyone is left.
func (f *family) alive() bool {
	if members, known := f.list(); known {
		return len(members) > 0
	}
	return syscall.Kill(-f.leader, 0) == nil
}

func (f *family) members() []proc {
	members, _ := f.list()
	return members
}

// end ends those who outlived the command: TERM, and KILL after the grace. It returns when nobody is left, or nothing more
// can be done about it.
func (f *family) end(grace time.Duration) {
	const poll = 10 * time.Millisecond
	f.reap()
	if !f.alive() {
		return
	}
	f.signal(syscall.SIGTERM)
	f.signal(syscall.SIGCONT)
	for start := time.Now(); time.Since(start) < grace && f.alive(); time.Sleep(poll) {
		f.reap()
	}
	for start := time.Now(); time.Since(start) < 5*time.Second && f.alive(); time.Sleep(poll) {
		f.signal(syscall.SIGKILL)
		f.reap()
	}
}
