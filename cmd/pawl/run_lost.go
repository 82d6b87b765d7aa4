package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/pawlhq/pawl/publish"
)

// lostRule is what happens to the command when its lease is lost.
type lostRule struct {
	kill   bool           // it is ended
	signal syscall.Signal // it gets this signal; 0 for none
}

// maxSignal is the greatest signal of Linux; the ones from 32 on have no names.
const maxSignal = 64

// parseLostRule reads --on-lost.
func parseLostRule(text string) (lostRule, error) {
	switch text {
	case "kill":
		return lostRule{kill: true}, nil
	case "warn":
		return lostRule{}, nil
	}
	name, found := strings.CutPrefix(text, "signal=")
	if found {
		if n, err := strconv.Atoi(name); err == nil && n >= 1 && n <= maxSignal {
			return lostRule{signal: syscall.Signal(n)}, nil
		}
		if sig := unix.SignalNum("SIG" + strings.TrimPrefix(strings.ToUpper(name), "SIG")); sig != 0 {
			return lostRule{signal: sig}, nil
		}
	}
	return lostRule{}, usageError{fmt.Errorf("--on-lost is %q; it must be kill, warn, or signal= with a number from 1 to %d or one of %s",
		text, maxSignal, strings.Join(signalNames(), " "))}
}

// signalNames lists the signals of this system without their SIG.
func signalNames() []string {
	var names []string
	for n := range maxSignal {
		if name := unix.SignalName(syscall.Signal(n)); name != "" {
			names = append(names, strings.TrimPrefix(name, "SIG"))
		}
	}
	return names
}

// tellExpired says that the lease has run out by the own clock, and why, unless that was said.
func (w worker) tellExpired() {
	switch {
	case w.isLost(), w.hold.isOver():
	case w.hold.silent.Load():
		w.app.notice("the lease of token %d has run out, because it isn't renewed (--max-silence); when %s changes before anybody took over, it is renewed", w.lease.Token, w.progress)
	default:
		w.app.notice("%s", expiryNotice(w.lease.Token))
	}
}

// tellLost says that the lease is lost, and what becomes of the command.
func (w worker) tellLost() {
	next := "ending the command"
	switch rule := w.flags.onLost; {
	case rule.signal != 0:
		next = fmt.Sprintf("telling the command by signal %d (%s); nothing will be published", int(rule.signal), rule.signal)
	case !rule.kill:
		next = "the command goes on, but nothing will be published"
	}
	why := "is lost"
	if errors.Is(w.keeper.Err(), publish.ErrGenerationCollected) {
		why = "is lost, since the retention policy has given up its generation"
	}
	w.app.notice("the lease of token %d %s; %s", w.lease.Token, why, next)
}
