package main

import (
	"bytes"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// adoptOrphans makes orphaned descendants children of this process instead of init's, so that they can still be found.
func adoptOrphans() error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// proc is a line of the process table.
type proc struct {
	pid, parent, group int
	state              byte // a letter of proc(5)
}

// list gives the living members of the family; known is false when the process table can't be read.
func (f *family) list() (members []proc, known bool) {
	table, err := processes()
	if err != nil {
		return nil, false
	}
	for _, p := range table {
		if !p.dead() && (f.ownGroup && p.group == f.leader || f.descends(table, p)) && !f.isGuard(p) {
			members = append(members, p)
		}
	}
	return members, true
}

func (f *family) isGuard(p proc) bool { return f.guard != nil && p.pid == f.guard.PID() }

// anyStopped reports whether one of those is stopped who would stop by Ctrl-Z: the family, and a guard that was just being started.
func (f *family) anyStopped() bool {
	table, err := processes()
	if err != nil {
		return true
	}
	for _, p := range table {
		if p.state == 'T' && f.descends(table, p) {
			return true
		}
	}
	return false
}

// reap takes note of the end of adopted orphans, which stay in the process table until then. The command itself is waited for
// elsewhere.
func (f *family) reap() {
	table, err := processes()
	if err != nil || f.root != os.Getpid() {
		return
	}
	for _, p := range table {
		if p.dead() && p.parent == os.Getpid() && p.pid != f.leader && !f.isGuard(p) {
			_, _ = syscall.Wait4(p.pid, nil, syscall.WNOHANG, nil) //nolint:errcheck // Next time, then.
		}
	}
}

// descends reports whether p is a descendant of the root.
func (f *family) descends(table map[int]proc, p proc) bool {
	if f.root == 0 {
		return false
	}
	// The table isn't read at one moment, so it may hold a loop; it is bounded by its size.
	for range table {
		if p.parent == f.root {
			return true
		}
		parent, found := table[p.parent]
		if !found {
			return false
		}
		p = parent
	}
	return false
}

// dead says that it only waits to be reaped.
func (p proc) dead() bool { return p.state == 'Z' || p.state == 'X' }

// processes reads the process table.
func processes() (map[int]proc, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close() //nolint:errcheck // Nothing was written.
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	table := make(map[int]proc, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, ok := readProcess(pid); ok {
			table[pid] = p
		}
	}
	return table, nil
}

// readProcess reads /proc/<pid>/stat (proc(5)): pid (comm) state ppid pgrp …; comm may hold anything, also ")".
func readProcess(pid int) (proc, bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	end := bytes.LastIndexByte(stat, ')')
	if err != nil || end < 0 {
		return proc{}, false // it has just ended
	}
	fields := bytes.Fields(stat[end+1:])
	if len(fields) < 3 {
		return proc{}, false
	}
	parent, parentErr := strconv.Atoi(string(fields[1]))
	group, groupErr := strconv.Atoi(string(fields[2]))
	return proc{pid, parent, group, fields[0][0]}, parentErr == nil && groupErr == nil
}
