package main

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/pawlhq/pawl/publish"
)

// codeFlags are exit codes of the user's own choice, for schedulers that have their own idea of them.
type codeFlags struct{ held, fenced int }

func (f *codeFlags) register(flags *pflag.FlagSet) {
	flags.IntVar(&f.held, "held-exit-code", exitLeaseHeld, "exit code when another holder has the lease; 0 makes it a notice")
	flags.IntVar(&f.fenced, "fenced-exit-code", exitFenced, "exit code when this run is fenced: its token is stale, or its lease lost; 0 makes it a notice")
}

func (f codeFlags) check() error {
	for flag, code := range map[string]int{"held-exit-code": f.held, "fenced-exit-code": f.fenced} {
		if code < 0 || code > 255 {
			return usageError{fmt.Errorf("--%s is %d; it must be from 0 to 255", flag, code)}
		}
	}
	return nil
}

// choose replaces the exit code of an error by the one that its kind was given. The command's own code isn't touched, whatever it is.
func (f codeFlags) choose(err error) error {
	var child childError
	if err == nil || errors.As(err, &child) {
		return err
	}
	switch {
	case errors.Is(err, publish.ErrLeaseHeld) && f.held != exitLeaseHeld:
		return chosenError{err, f.held}
	case exitCode(err) == exitFenced && f.fenced != exitFenced:
		return chosenError{err, f.fenced}
	}
	return err
}

// chosenError is an error with the exit code that the user has chosen for its kind.
type chosenError struct {
	err  error
	code int
}

func (e chosenError) Error() string { return message(e.err) }
func (e chosenError) Unwrap() error { return e.err }
func (e chosenError) exitCode() int { return e.code }
