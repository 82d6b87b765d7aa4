// Command pawl is all of Pawl in one binary: the server, the command line, and the wrapper for workers.
//
// The main verbs are dev and serve (a server), run (a worker's wrapper), and acquire, put, publish, get, ls, stat
// and history (a client). Exit codes are part of the contract; they stand in exit.go.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() { os.Exit(program()) }

// program is main for a test binary as well. INT and TERM end what runs in good order; the same signal again ends it at
// once, since by then it has its default effect.
func program() int {
	if code, asked := guard(os.Args); asked {
		return code
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	ctx, cancel := context.WithCancelCause(ownProcess(context.Background()))
	go func() {
		sig := (<-signals).(syscall.Signal) //nolint:errcheck,forcetypeassert // All signals of this system are of that type.
		signal.Stop(signals)
		cancel(interruptedError{sig})
	}()
	return run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv)
}

type ownProcessKey struct{}

// ownProcess tells verbs that this process is theirs alone: all of its children are. In a test that calls run they are not.
func ownProcess(ctx context.Context) context.Context {
	return context.WithValue(ctx, ownProcessKey{}, true)
}

func isOwnProcess(ctx context.Context) bool { return ctx.Value(ownProcessKey{}) != nil }
