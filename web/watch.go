package web

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// DefaultRecheck is how long a request may last before its credential is looked at again.
const DefaultRecheck = 20 * time.Second

// errEnded is why a request was ended whose credential was revoked, or ran out, meanwhile.
var errEnded = errors.New("the credential isn't good any more")

// watch looks at the credential of a request again and again while it lasts, and ends the request's context and its body when it isn't good any more.
type watch struct {
	handler *Handler
	call    *call
	ctx     context.Context
	end     context.CancelCauseFunc
	body    io.Reader // of the request

	mu      sync.Mutex // held while the credential is looked at
	stopped bool
	timer   *time.Timer
}

// serve hands a request to its route, once it is known who makes it and that the names in its URL are legal.
func (h *Handler) serve(c *call, r route) error {
	if err := h.admit(c, r.need); err != nil {
		h.recordRefusal(c, r, err)
		return err
	}
	if c.asked {
		c.keepPrivate()
	}
	_, tail, _ := strings.Cut(r.pattern, "/-/")
	if err := h.turnedAway(c, tail); err != nil {
		return err
	}
	if !c.watched() {
		return r.handle(h, c)
	}
	request := c.Request()
	ctx, end := context.WithCancelCause(request.Context())
	w := &watch{handler: h, call: c, ctx: ctx, end: end, body: request.Body}
	w.start()
	c.SetRequest(request.WithContext(ctx))
	defer func() {
		w.stop()
		c.SetRequest(request) // Whether its client has left is told from its own context.
	}()
	err := r.handle(h, c)
	if err != nil && ended(ctx) != nil && !errors.Is(err, publish.ErrOutcomeUnknown) {
		return c.unauthorized("")
	}
	return err
}

func (w *watch) start() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(w.handler.recheck, w.look)
}

// look asks whether the credential is good still. A database that is away says nothing about it: then the request goes on, and is looked at again.
func (w *watch) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	caller, err := w.call.proof.ask(w.ctx)
	if errors.Is(err, publish.ErrUnauthorized) || err == nil && !slices.Equal(caller.Scopes, w.call.caller.Scopes) {
		w.end(errEnded)
		// A store reads a body to its end, which may be hours away.
		if body, unread := w.body.(*body); unread {
			body.refuse(errEnded)
		}
		return
	}
	w.timer.Reset(w.handler.recheck)
}

// stop ends the watch, and waits for a look that is under way.
func (w *watch) stop() {
	w.end(context.Canceled)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	w.timer.Stop()
}

// ended is errEnded if that has ended the context of a request, else nil.
func ended(ctx context.Context) error {
	if errors.Is(context.Cause(ctx), errEnded) {
		return errEnded
	}
	return nil
}
