package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"
)

// holdFlags say how run keeps its lease, and what becomes of the command when it can't.
type holdFlags struct {
	lost, whenAway          string
	progressFile, leaseFile string
	maxSilence, maxHold     time.Duration

	onLost lostRule // what lost says
}

func (f *holdFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.lost, "on-lost", "kill", "what happens to the command when the lease is lost: kill (TERM, then KILL), warn (it goes on), or signal=NAME\n"+
		"(it gets that signal, once). Nothing is published either way")
	flags.StringVar(&f.whenAway, "when-away", "keep", "what happens to the command when the lease has run out because the server is away: keep (it runs on) or pause (it\n"+
		"is stopped until a renewal is answered). When nobody took over, run goes on")
	flags.StringVar(&f.progressFile, "progress-file", "", "file or folder that shows that the command makes progress, relative to PAWL_OUT or absolute; the command finds it in\n"+
		"PAWL_PROGRESS_FILE. When its time and size stay the same for --max-silence, the lease isn't renewed until they change")
	flags.DurationVar(&f.maxSilence, "max-silence", 5*time.Minute, "how long --progress-file may stay the same")
	flags.DurationVar(&f.maxHold, "max-hold", 0, "how long run may hold the lease at most: then the command is ended, nothing is published, and the exit code is 124 (default: no limit)")
	flags.StringVar(&f.leaseFile, "lease-file", "", "file that is written with the lease, as 'pawl acquire --json' prints it, and again at each renewal; it is removed at the\n"+
		"end. The command finds it in PAWL_LEASE_FILE")
}

// check reads what can be wrong before a lease is taken.
func (f *holdFlags) check(a *app) (err error) {
	if f.onLost, err = parseLostRule(f.lost); err != nil {
		return err
	}
	switch {
	case f.whenAway != "keep" && f.whenAway != "pause":
		return usageError{fmt.Errorf("--when-away is %q; it must be keep or pause", f.whenAway)}
	case f.progressFile == "" && a.flagGiven("progress-file"):
		return usageError{errors.New("--progress-file is empty; name a file")}
	case f.progressFile == "" && a.flagGiven("max-silence"):
		return usageError{errors.New("--max-silence is of no use without --progress-file: name the file that shows progress")}
	case f.maxSilence <= 0:
		return usageError{fmt.Errorf("--max-silence is %s; it must be more than 0s", f.maxSilence)}
	case f.maxHold < 0, f.maxHold == 0 && a.flagGiven("max-hold"):
		return usageError{fmt.Errorf("--max-hold is %s; it must be more than 0s, or left out for no limit", f.maxHold)}
	case f.leaseFile == "" && a.flagGiven("lease-file"):
		return usageError{errors.New("--lease-file is empty; name a file")}
	}
	if err := checkProgressFile(f.progressFile); err != nil {
		return err
	}
	return checkLeaseFile(f.leaseFile)
}

// order is what the lease asks of the command.
type order int

const (
	orderEnd   order = iota // TERM, then KILL
	orderPause              // STOP, until orderGoOn or the end
	orderGoOn
)

// holding is what goes on beside the command on behalf of its lease.
type holding struct {
	orders chan order
	over   chan struct{} // closed when --max-hold has passed
	silent atomic.Bool   // the renewing is held because of --max-silence
	paused atomic.Bool   // the command is, because of --when-away
}

func newHolding() *holding {
	return &holding{orders: make(chan order), over: make(chan struct{})}
}

// tell gives an order to the command, or forgets it when ctx ends: then there is no command any more.
func (h *holding) tell(ctx context.Context, o order) {
	select {
	case h.orders <- o:
	case <-ctx.Done():
	}
}

// isOver reports whether --max-hold has passed.
func (h *holding) isOver() bool {
	select {
	case <-h.over:
		return true
	default:
		return false
	}
}

// beside runs functions until the returned stop is called, which waits for their end.
func beside(ctx context.Context, all ...func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	for _, one := range all {
		running.Go(func() { one(ctx) })
	}
	return func() {
		cancel()
		running.Wait()
	}
}

// whileHeld starts what goes on as long as the lease is kept.
func (w worker) whileHeld(ctx context.Context) (stop func()) {
	all := []func(context.Context){}
	if w.flags.maxHold > 0 {
		all = append(all, w.limitHold)
	}
	if w.leaseFile != nil {
		all = append(all, w.followRenewals)
	}
	return beside(context.WithoutCancel(ctx), all...)
}

// whileRunning starts what goes on as long as the command runs.
func (w worker) whileRunning(ctx context.Context) (stop func()) {
	all := []func(context.Context){}
	if w.progress != "" {
		all = append(all, w.watchProgress)
	}
	if w.flags.whenAway == "pause" {
		all = append(all, w.pauseWhileAway)
	}
	return beside(context.WithoutCancel(ctx), all...)
}
