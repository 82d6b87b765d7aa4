package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

var (
	// endingSignals tell a run to end.
	endingSignals = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT}
	// passedSignals are for the command alone, or for job control. They end nothing.
	passedSignals = []os.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGTSTP, syscall.SIGCONT}
)

// signals are those that a run has got and has not acted on. Each kind has its own channel, so that a flood of the harmless ones
// pushes out no request to end.
type signals struct{ ending, passed chan os.Signal }

// catchSignals catches signals until release is called. Before the command starts and after its end those in passed
// still mustn't have their default effect: whoever sends them doesn't know when that is.
func catchSignals() (s signals, release func()) {
	s = signals{make(chan os.Signal, 8), make(chan os.Signal, 8)}
	catch(s.ending, endingSignals)
	catch(s.passed, passedSignals)
	return s, func() {
		signal.Stop(s.ending)
		signal.Stop(s.passed)
	}
}

// catch is signal.Notify, but under nohup HUP stays ignored, by this process and by those that it starts.
func catch(into chan<- os.Signal, caught []os.Signal) {
	for _, sig := range caught {
		if sig != syscall.SIGHUP || !signal.Ignored(sig) {
			signal.Notify(into, sig)
		}
	}
}

// untilEnding makes a context that ends with the next signal to end, until done is called. Such a signal after that stays in the
// channel. Ctrl-Z stops this process alone meanwhile.
func (s signals) untilEnding(ctx context.Context) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case sig := <-s.ending:
				if ctx.Err() != nil {
					select {
					case s.ending <- sig:
					default: // there are eight newer ones
					}
					return
				}
				cancel(interruptedError{sig.(syscall.Signal)}) //nolint:errcheck,forcetypeassert // All signals of this system are of that type.
				return
			case sig := <-s.passed:
				if sig == syscall.SIGTSTP {
					stopSelf()
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, func() {
		cancel(errDone)
		<-ended
	}
}

// stopSelf stops this process until somebody continues it.
func stopSelf() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) //nolint:errcheck // A process may always signal itself.
}

// suspend stops the family and this process, and wakes the family when this process is woken.
func (s signals) suspend(f *family) {
	for { // of what came before
		select {
		case <-s.passed:
			continue
		default:
		}
		break
	}
	f.signal(syscall.SIGSTOP)
	stopSelf()
	// The stop takes effect soon, not at once, so that whoever goes on here may not have been stopped yet. But it has none on the first
	// process of a container.
	woken := time.NewTimer(time.Second)
	defer woken.Stop()
	for {
		select {
		case sig := <-s.passed:
			if sig != syscall.SIGCONT {
				continue
			}
		case <-woken.C:
		}
		break
	}
	f.signal(syscall.SIGCONT)
}
