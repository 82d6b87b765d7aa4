package publish

import (
	"context"
	"fmt"
	"time"
)

const (
	collectDuty = "collect"
	// collectDutyTTL is how long the duty stays with a process that was killed or stopped.
	collectDutyTTL = 15 * time.Second
)

// CollectAlone collects unless another process does so just now: then elected is false. holder names this process, and no other. The
// duty is renewed while it runs; a process that couldn't renew it ends its collection. One that was stopped, and finds the duty with another one when it goes on,
// may have deleted a little more meanwhile, which is as harmless as two that collect.
func (s *Service) CollectAlone(ctx context.Context, holder string, opts CollectOptions) (report CollectReport, elected bool, err error) {
	elected, err = s.Pointers.TakeDuty(ctx, collectDuty, holder, collectDutyTTL)
	if err != nil || !elected {
		return report, elected, err
	}
	running, stop := context.WithCancelCause(ctx)
	renewed := make(chan struct{})
	go func() {
		defer close(renewed)
		s.renewDuty(running, holder, stop)
	}()
	report, err = s.Collect(running, opts)
	if cause := context.Cause(running); cause != nil && ctx.Err() == nil {
		err = cause
	}
	stop(nil)
	<-renewed
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), failTimeout)
	defer cancel()
	if leaving := s.Pointers.LeaveDuty(late, collectDuty, holder); err == nil {
		err = leaving
	}
	return report, true, err
}

// renewDuty keeps the duty until ctx ends, or stops what it is for when another one has it or may have.
func (s *Service) renewDuty(ctx context.Context, holder string, stop context.CancelCauseFunc) {
	last := time.Now()
	ticker := time.NewTicker(collectDutyTTL / 5)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		asked := time.Now()
		has, err := s.Pointers.TakeDuty(ctx, collectDuty, holder, collectDutyTTL)
		switch {
		case err == nil && has:
			last = asked
		case err == nil:
			stop(fmt.Errorf("another process collects now"))
			return
		case time.Since(last) > collectDutyTTL:
			stop(fmt.Errorf("the duty to collect could not be renewed: %w", err))
			return
		}
	}
}
