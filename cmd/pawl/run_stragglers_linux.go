package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// writer finds one of the family that has a file in one of the places open for writing. Whose files aren't shown, because it has another
// user's rights, is taken for none.
func (f *family) writer(places []string) (writer, bool) {
	for _, p := range f.members() {
		folder := "/proc/" + strconv.Itoa(p.pid)
		links, err := os.ReadDir(folder + "/fd")
		if err != nil {
			continue
		}
		for _, link := range links {
			path, err := os.Readlink(filepath.Join(folder, "fd", link.Name()))
			if err == nil && isOutput(path, places) && opensForWriting(filepath.Join(folder, "fdinfo", link.Name())) {
				return writer{p.pid, path}, true
			}
		}
	}
	return writer{}, false
}

// opensForWriting reads the flags of an open file (proc_pid_fdinfo(5)), which are octal.
func opensForWriting(info string) bool {
	text, err := os.ReadFile(info)
	if err != nil {
		return false // It is closed.
	}
	for line := range bytes.Lines(text) {
		if value, found := bytes.CutPrefix(line, []byte("flags:")); found {
			flags, err := strconv.ParseUint(string(bytes.TrimSpace(value)), 8, 64)
			return err == nil && flags&syscall.O_ACCMODE != syscall.O_RDONLY
		}
	}
	return false
}
