package client_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/publish"
)

// patience bounds every wait for something that should happen soon.
const patience = 90 * time.Second

const key publish.Key = "thumbs/image-52"

func brief(req *publish.AcquireRequest) { req.TTL = 300 * time.Millisecond }

func untilEnd(t *testing.T, ctx context.Context) {
	t.Helper()
	select {
	case <-ctx.Done():
	case <-time.After(patience):
		t.Error("the context of work doesn't end")
	}
}

// held reports whether anybody has the key.
func held(t *testing.T, c *client.Client) bool {
	t.Helper()
	lease, err := c.Lease(context.WithoutCancel(t.Context()), key)
	if err != nil {
		t.Error(err)
	}
	return lease.Held
}

func TestRun(t *testing.T) {
	t.Parallel()
	r := newRig(t, client.Options{})
	var receipt publish.Receipt
	err := r.Run(t.Context(), key, func(ctx context.Context, lease *client.Lease) error {
		if lease.Token != 1 || lease.Key != key || !held(t, r.Client) || lease.Remaining() <= 0 || lease.Remaining() > client.DefaultTTL {
			t.Errorf("the lease is %+v", lease)
		}
		if !strings.Contains(lease.Holder, ":") {
			t.Errorf("the holder is %q", lease.Holder)
		}
		if _, err := lease.Upload(ctx, "out.txt", strings.NewReader("made by A")); err != nil {
			return err
		}
		var err error
		receipt, err = lease.Publish(ctx, func(req *publish.PublishRequest) { req.Metadata = map[string]string{"job": "7"} })
		return err
	})
	if err != nil || !receipt.Final || receipt.Token != 1 || receipt.Metadata["job"] != "7" {
		t.Fatalf("got %+v, %v", receipt, err)
	}
	if held(t, r.Client) {
		t.Error("the lease wasn't released")
	}
	d, err := r.Open(t.Context(), key, 1, receipt.Primary, publish.LeaseID{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if body, err := io.ReadAll(d); string(body) != "made by A" || err != nil {
		t.Errorf("readers get %q, %v", body, err)
	}
}

func TestRunWhileHeld(t *testing.T) {
	t.Parallel()
	r := newRig(t, client.Options{})
	called := errors.New("called")
	err := r.Run(t.Context(), key, func(ctx context.Context, _ *client.Lease) error {
		return r.Run(ctx, key, func(context.Context, *client.Lease) error { return called })
	})
	if !errors.Is(err, publish.ErrLeaseHeld) || errors.Is(err, called) {
		t.Errorf("got %v", err)
	}
}

// Whatever work does, the lease is given back.
func TestRunReleases(t *testing.T) {
	t.Parallel()
	r := newRig(t, client.Options{})
	broken := errors.New("out of paint")
	if err := r.Run(t.Context(), key, func(context.Context, *client.Lease) error { return broken }); err != broken { //nolint:errorlint // The very error.
		t.Errorf("an error became %v", err)
	}
	if held(t, r.Client) {
		t.Error("held after an error")
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic is gone")
			}
		}()
		_ = r.Run(t.Context(), key, func(context.Context, *client.Lease) error { panic("no ink") })
	}()
	if held(t, r.Client) {
		t.Error("held after a panic")
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := r.Run(ctx, key, func(ctx context.Context, lease *client.Lease) error {
		cancel()
		untilEnd(t, ctx)
		if _, err := lease.Publish(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("a publish went on after the caller had called it off: %v", err)
		}
		return ctx.Err()
	})
	if !errors.Is(err, context.Canceled) || errors.Is(err, client.ErrLeaseExpired) || held(t, r.Client) {
		t.Errorf("called off: %v, held %v", err, held(t, r.Client))
	}
}

// The lease runs out by the own clock while its holder can't renew. Whether that matters is for the fence to say: nobody took over, so
// the publish is accepted; without one, nobody may take the run for a success.
func TestRunExpires(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		publishes, final bool
		want             error
	}{
		"without a publish":      {want: client.ErrLeaseExpired},
		"with a final publish":   {publishes: true, final: true},
		"with an unfinished one": {publishes: true, want: client.ErrLeaseExpired},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, client.Options{})
			r.cutOff.Store(true)
			err := r.Run(t.Context(), key, func(ctx context.Context, lease *client.Lease) error {
				if _, err := lease.Upload(ctx, "out.txt", strings.NewReader("late")); err != nil {
					return err
				}
				if _, err := lease.Effect(ctx, "invoice-52"); err != nil {
					return err
				}
				untilEnd(t, ctx)
				if got, err := lease.EffectDone(ctx, "invoice-52", "charged"); err != nil || got.Result != "charged" {
					t.Errorf("what was done can't be noted: %+v, %v", got, err)
				}
				if cause := context.Cause(ctx); cause != client.ErrLeaseExpired { //nolint:errorlint // The very error.
					t.Errorf("it ended with %v", cause)
				}
				if lease.Remaining() > 0 {
					t.Errorf("%s remain", lease.Remaining())
				}
				if !test.publishes {
					return nil
				}
				_, err := lease.Publish(ctx, func(req *publish.PublishRequest) { req.Final = test.final })
				return err
			}, brief)
			if test.want == nil && err != nil || !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
			if pointer, err := r.Pointer(t.Context(), key); (err == nil) != test.publishes {
				t.Errorf("current is %+v, %v", pointer, err)
			}
		})
	}
}

// The lease is taken away and given to another: work learns so by its context, and the caller by the error of Run, whatever work returns.
func TestRunIsLost(t *testing.T) {
	t.Parallel()
	interrupted := errors.New("interrupted")
	for name, result := range map[string]func(context.Context) error{
		"it returns nothing":   func(context.Context) error { return nil },
		"it returns the cause": context.Cause,
		"an error of its own":  func(context.Context) error { return interrupted },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, client.Options{})
			b := connect(t, r.url, client.Options{})
			err := r.Run(t.Context(), key, func(ctx context.Context, lease *client.Lease) error {
				if err := b.Release(ctx, key, lease.LeaseID); err != nil {
					t.Error(err)
				}
				if _, err := b.Acquire(ctx, publish.AcquireRequest{Key: key, Holder: "B", TTL: time.Minute}); err != nil {
					t.Error(err)
				}
				untilEnd(t, ctx)
				return result(ctx)
			}, func(req *publish.AcquireRequest) { req.TTL = 2 * time.Second })
			if !errors.Is(err, publish.ErrLeaseLost) || errors.Is(err, client.ErrLeaseExpired) {
				t.Errorf("got %v", err)
			}
			if name == "an error of its own" && !errors.Is(err, interrupted) {
				t.Errorf("its own error is gone: %v", err)
			}
			if strings.Count(err.Error(), string(publish.ErrLeaseLost)) > 1 {
				t.Errorf("it says things twice: %v", err)
			}
			if !held(t, b) {
				t.Error("B's lease was given back")
			}
		})
	}
}

// A's lease has run out, B took over and published; A's publish gets the fence's word with both tokens, and what is current stays B's.
func TestRunIsStale(t *testing.T) {
	t.Parallel()
	r := newRig(t, client.Options{})
	r.cutOff.Store(true)
	err := r.Run(t.Context(), key, func(ctx context.Context, lease *client.Lease) error {
		untilEnd(t, ctx)
		ship(t, connect(t, r.url, client.Options{}), key, "B", "made by B")
		_, err := lease.Publish(ctx)
		return err
	}, brief)
	var stale *publish.Error
	if !errors.Is(err, publish.ErrStaleToken) || !errors.As(err, &stale) || stale.Token != 1 || stale.AcceptedToken != 2 || stale.Holder != "B" {
		t.Errorf("got %v, %+v", err, stale)
	}
	if pointer, err := r.Pointer(t.Context(), key); err != nil || pointer.Token != 2 {
		t.Errorf("current is %+v, %v", pointer, err)
	}
}

func TestLeaseByHandHasNoClient(t *testing.T) {
	t.Parallel()
	var lease client.Lease
	_, upload := lease.Upload(t.Context(), "a", strings.NewReader(""))
	_, file := lease.UploadFile(t.Context(), "a", "run_test.go")
	_, publishing := lease.Publish(t.Context())
	_, effect := lease.Effect(t.Context(), "invoice-52")
	_, done := lease.EffectDone(t.Context(), "invoice-52", "ok")
	for _, err := range []error{upload, file, publishing, effect, done} {
		if err == nil || !strings.Contains(err.Error(), "use the Client's methods") {
			t.Errorf("got %v", err)
		}
	}
}
