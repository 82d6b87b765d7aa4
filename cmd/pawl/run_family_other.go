//go:build unix && !linux

package main

import "errors"

// proc is a line of the process table, which this system doesn't show in a portable way.
type proc struct{ pid, group int }

func adoptOrphans() error { return errors.ErrUnsupported }

func (f *family) list() (members []proc, known bool) { return nil, false }

func (f *family) reap() {}

// writer isn't known here.
func (f *family) writer([]string) (writer, bool) { return writer{}, false }

// anyStopped isn't known here.
func (f *family) anyStopped() bool { return true }
