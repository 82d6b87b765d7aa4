package web

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
)

// How much of a refused body is still read, and how long, so that its client gets to read the answer: many clients
// look for it only after they have sent everything, and lose it when the connection is reset under them.
const (
	lingerBytes = 64 << 20
	lingerTime  = 5 * time.Second
)

// body is a request's body. It ends a client that stands still, and it ends the connection of a body that was left
// unread. It is safe to be read by a goroutine that the handler has left behind.
type body struct {
	io.ReadCloser
	connection *http.ResponseController
	idle       time.Duration
	maxJSON    int64 // see Options.MaxJSONBytes
	expecting  bool  // the client waits for "100 Continue" before it sends
	// multiplexed is set where the connection has other requests too, by HTTP/2: there a body is ended by its own stream.
	multiplexed bool

	mu     sync.Mutex
	begun  bool
	ended  bool  // all of it was read
	closed bool  // the request is answered
	err    error // the fault that ended it early
	// refused is why the rest of it isn't wanted.
	refused error
}

// limitBody puts a body in front of a request's own, and settles what is left of it after the answer.
func (h *Handler) limitBody(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
			return next(c)
		}
		b := &body{
			ReadCloser: r.Body, connection: http.NewResponseController(c.Response().Writer), idle: h.idle, maxJSON: h.maxJSON,
			expecting: r.Header.Get("Expect") != "", multiplexed: r.ProtoMajor > 1,
		}
		r.Body = b
		c.Response().Before(func() { b.beforeAnswer(c.Response().Header()) })
		err := next(c)
		if err != nil {
			c.Error(err)
		}
		b.settle()
		return nil
	}
}

// Read passes bytes on and allows each call idle time, but no time in all. At the end net/http takes the deadline off, to
// watch the connection for a client that leaves; so a Read behind the end must not set it anew.
func (b *body) Read(p []byte) (int, error) {
	if err := b.arm(); err != nil {
		return 0, err
	}
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch {
		case errors.Is(err, io.EOF):
			b.ended = true
		case b.refused != nil: // Its client is there still, and is to read the answer.
			return n, b.refused
		default:
			b.err = err
		}
	}
	return n, err
}

// arm sets the deadline of one Read, if there may be one.
func (b *body) arm() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.ended:
		return io.EOF
	case b.closed:
		return http.ErrBodyReadAfterClose
	case b.refused != nil:
		return b.refused
	}
	b.begun = true
	_ = b.connection.SetReadDeadline(time.Now().Add(b.idle)) //nolint:errcheck // Only a recorder in tests has no deadlines.
	return nil
}

// refuse ends a body in the middle, also a Read that waits for a slow client.
func (b *body) refuse(why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended || b.closed {
		return
	}
	b.refused = why
	_ = b.connection.SetReadDeadline(time.Now()) //nolint:errcheck // See arm.
}

// beforeAnswer runs before the head of the answer is written. net/http would first read a part of what is left of
// the body, for as long as a slow client likes; here the answer goes out at once and the connection ends with it.
func (b *body) beforeAnswer(header http.Header) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ended && !b.multiplexed {
		header.Set("Connection", "close")
		_ = b.connection.EnableFullDuplex() //nolint:errcheck // Only a recorder in tests can't.
	}
}

// settle takes the body from the handler. What is left of it is read and dropped within limits, unless it broke, or its client
// was never told to send it; after that the deadline lets net/http close the connection at once.
func (b *body) settle() {
	b.mu.Lock()
	b.closed = true
	ended, drop := b.ended, b.err == nil && (b.begun || !b.expecting)
	b.mu.Unlock()
	if ended {
		return
	}
	if drop && b.connection.Flush() == nil && b.connection.SetReadDeadline(time.Now().Add(lingerTime)) == nil {
		_, _ = io.CopyN(io.Discard, b.ReadCloser, lingerBytes) //nolint:errcheck // An error means that nobody is left to read the answer.
	}
	_ = b.connection.SetReadDeadline(time.Now()) //nolint:errcheck // See arm.
}
