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
	dead               bool // a zombie
}

// list gives the living members of the family; known is false when the process table can't be read.
func (f *family) list() (members []proc, known bool) {
	table, err := processes()
	if err != nil {
		return nil, false
	}
	for _, p := range table {
		if !p.dead && (p.group == f.leader || f.whole && descends(table, p)) {
			members = append(members, p)
		}
	}
	return members, true
}

// reap takes note of the end of adopted orphans, which stay in the process table until then. The command itself is waited for
// elsewhere.
func (f *family) reap() {
	table, err := processes()
	if err != nil || !f.whole {
		return
	}
	for _, p := range table {
		if p.dead && p.parent == os.Getpid() && p.pid != f.leader {
			_, _ = syscall.Wait4(p.pid, nil, syscall.WNOHANG, nil) //nolint:errcheck // Next time, then.
		}
	}
}

// descends reports whether p is a descendant of this process.
func descends(table map[int]proc, p proc) bool {
	// The table isn't read at one moment, so it may hold a loop; it is bounded by its size.
	for range table {
		if p.parent == os.Getpid() {
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
	state := fields[0][0]
	return proc{pid: pid, parent: parent, group: group, dead: state == 'Z' || state == 'X'}, parentErr == nil && groupErr == nil
}
