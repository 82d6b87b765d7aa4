package client

import (
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// maxPause bounds the pause between two repetitions, unless the server asks for a longer one.
const maxPause = 5 * time.Second

// retryPolicy says when a call may be repeated.
type retryPolicy struct {
	within time.Duration // from the start of the call to the start of its last repetition
	pause  time.Duration // bound of the first pause
}

// lostAnswer is the error of a request whose answer didn't come, or not whole.
type lostAnswer struct {
	error
	sent bool // the request may have reached the server
}

func (l *lostAnswer) Unwrap() error { return l.error }

// repeated runs attempt until it succeeds, is refused for good, or the policy is used up. changing says
// that the call changes something, so that a lost answer leaves its outcome unknown.
func (c *Client) repeated(ctx context.Context, what string, changing bool, attempt func(context.Context) error) error {
	start := time.Now()
	maybeDone := false // an earlier attempt may have been carried out although its answer was lost
	for try := 0; ; try++ {
		if ctx.Err() != nil && try == 0 {
			return context.Cause(ctx)
		}
		err := attempt(ctx)
		if err == nil {
			return nil
		}
		again, pause := c.judge(err, try)
		maybeDone = maybeDone || changing && mayHaveHappened(err)
		stop := !again || ctx.Err() != nil || time.Since(start)+pause > c.retry.within
		if !stop {
			c.log.DebugContext(ctx, "request_repeated", "call", what, "attempt", try+1, "pause", pause, "error", err)
			stop = !sleep(ctx, pause)
		}
		if stop {
			return c.final(ctx, err, again, maybeDone)
		}
	}
}

// single runs attempt for a body that can be sent once only. As long as the server refuses it before any of it was read, as one that is asked
// too much does, that once is still to come.
func (c *Client) single(ctx context.Context, attempt func(context.Context) (untouched bool, err error)) error {
	start := time.Now()
	for try := 0; ; try++ {
		untouched, err := attempt(ctx)
		if err == nil {
			return nil
		}
		again, pause := c.judge(err, try)
		var answer *answerError
		if again && untouched && errors.As(err, &answer) && time.Since(start)+pause <= c.retry.within && sleep(ctx, pause) {
			continue
		}
		return c.final(ctx, err, again, mayHaveHappened(err))
	}
}

// judge tells whether the failure of an attempt is worth a repetition, and after which pause.
func (c *Client) judge(err error, try int) (again bool, pause time.Duration) {
	pause = c.drawPause(try)
	var answer *answerError
	if errors.As(err, &answer) {
		if answer.last {
			return false, 0
		}
		switch answer.refusal.Code {
		case publish.ErrLeaseHeld:
			return false, 0 // waiting for a lease is the server's business
		case publish.ErrUnavailable, publish.ErrOutcomeUnknown, publish.ErrLengthMismatch, publish.ErrRateLimited:
			return true, max(pause, answer.retryAfter)
		}
		return answer.retryable, max(pause, answer.retryAfter)
	}
	var lost *lostAnswer
	return errors.As(err, &lost) && !permanent(err), pause
}

// drawPause gives the pause after a try, at random below a bound that doubles.
func (c *Client) drawPause(try int) time.Duration {
	return rand.N(min(c.retry.pause<<min(try, 16), maxPause) + 1)
}

// mayHaveHappened reports whether the attempt behind err may have changed something.
func mayHaveHappened(err error) bool {
	var lost *lostAnswer
	if errors.As(err, &lost) {
		return lost.sent
	}
	var answer *answerError
	if !errors.As(err, &answer) {
		return false
	}
	// A proxy's 502 or 504 says nothing about what became of the request behind it.
	return answer.refusal.Code == publish.ErrOutcomeUnknown || answer.foreign && answer.status >= http.StatusInternalServerError
}

// final makes the error of a call that is given up. again says that another attempt might have helped.
func (c *Client) final(ctx context.Context, err error, again, maybeDone bool) error {
	var answer *answerError
	answered := errors.As(err, &answer)
	switch {
	case answered && !again:
		return answer.refusal // the server's clear word, also about earlier attempts
	case maybeDone:
		return outcomeUnknown(errors.Join(endOf(ctx), err))
	case answered:
		return answer.refusal
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	var lost *lostAnswer
	if errors.As(err, &lost) {
		return c.unreachable(lost.error)
	}
	return err
}

// endOf says how a context has ended, and why when that is more; nil when it hasn't.
func endOf(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, ctx.Err()) {
		return errors.Join(ctx.Err(), cause)
	}
	return ctx.Err()
}

// permanent reports whether a connection fails for a reason that a repetition doesn't cure.
func permanent(err error) bool {
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var dns *net.DNSError
	return errors.As(err, &certificate) || errors.As(err, &record) || errors.As(err, &dns) && dns.IsNotFound
}

// neverSent reports whether a request certainly didn't reach the server: no connection was made for it.
func neverSent(err error) bool {
	var op *net.OpError
	return permanent(err) || errors.As(err, &op) && op.Op == "dial" || errors.Is(err, syscall.ECONNREFUSED)
}

// sleep waits for d and reports whether ctx let it.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
