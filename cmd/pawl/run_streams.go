package main

import (
	"io"
	"os"
	"os/exec"
	"time"
)

// streams ties the command to this program's streams. It gets files alone, so that the end of the command can be told
// from that of others who hold its output open.
func (w worker) streams(cmd *exec.Cmd, foreground bool) (closeAll func(), err error) {
	stdout := w.app.stdout.to
	if w.app.json {
		stdout = w.app.stderr
	}
	// A command outside the foreground group would be stopped when it reads the terminal, and hold its lease for ever.
	if file, ok := w.app.stdin.(*os.File); ok && (foreground || !isTerminal(file)) {
		cmd.Stdin = file
	}
	var closers []func()
	closeAll = func() {
		for _, c := range closers {
			c()
		}
	}
	for _, stream := range []struct {
		from *io.Writer
		to   io.Writer
	}{{&cmd.Stdout, stdout}, {&cmd.Stderr, w.app.stderr}} {
		if file, ok := stream.to.(*os.File); ok {
			*stream.from = file
			continue
		}
		read, write, err := os.Pipe()
		if err != nil {
			closeAll()
			return nil, ioError{err}
		}
		*stream.from = write
		copied := make(chan struct{})
		go func() {
			defer close(copied)
			_, _ = io.Copy(stream.to, read) //nolint:errcheck // The command's output is its own matter.
		}()
		closers = append(closers, func() {
			_ = write.Close()                                     //nolint:errcheck // See above.
			_ = read.SetReadDeadline(time.Now().Add(time.Second)) //nolint:errcheck // See above.
			<-copied
			_ = read.Close() //nolint:errcheck // See above.
		})
	}
	return closeAll, nil
}
