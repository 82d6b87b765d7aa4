package client

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/pawlhq/pawl/publish"
)

func stale() *publish.Error {
	return &publish.Error{
		Code: publish.ErrStaleToken, Detail: "token 17 is stale", Key: grant.Key, Operation: "publish",
		Token: 17, AcceptedToken: 18, GrantedToken: 18, Holder: "render-b", Next: "acquire",
	}
}

func receipt() publish.Receipt { return publish.Receipt{Key: grant.Key, Token: 17, Revision: 1} }

// A lost answer is asked for again, and the replay is the answer.
func TestPublishRepeatsALostAnswer(t *testing.T) {
	t.Parallel()
	replay := receipt()
	replay.Replayed = true
	f := newFake(t, lose, lose, answer(200, replay))
	got, err := f.client(t, Options{}).Publish(testContext(t), publish.PublishRequest{Grant: grant, Final: true})
	if err != nil || !got.Replayed || f.count() != 3 {
		t.Fatalf("got %+v, %v after %d requests", got, err, f.count())
	}
}

// An answer that breaks off in the middle is a lost one.
func TestPublishRepeatsABrokenAnswer(t *testing.T) {
	t.Parallel()
	broken := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, `{"key":"thumbs`)
		panic(http.ErrAbortHandler)
	}
	f := newFake(t, broken, answer(200, receipt()))
	if _, err := f.client(t, Options{}).Publish(testContext(t), publish.PublishRequest{Grant: grant}); err != nil {
		t.Fatal(err)
	}
}

func TestPublishWithoutAnyAnswerIsUnknown(t *testing.T) {
	t.Parallel()
	f := newFake(t, lose)
	_, err := f.client(t, Options{RetryFor: 50 * time.Millisecond}).Publish(testContext(t), publish.PublishRequest{Grant: grant})
	if !errors.Is(err, publish.ErrOutcomeUnknown) || errors.Is(err, ErrUnreachable) {
		t.Fatalf("got %v", err)
	}
	if f.count() < 2 {
		t.Fatalf("%d requests", f.count())
	}
}

// The clear word "unavailable: nothing was changed" is about its own request, not about an earlier one whose answer was lost.
func TestUnavailableAfterALostAnswerIsUnknown(t *testing.T) {
	t.Parallel()
	f := newFake(t, lose, refuse(publish.Unavailable("Postgres", nil)))
	_, err := f.client(t, Options{RetryFor: 30 * time.Millisecond}).Publish(testContext(t), publish.PublishRequest{Grant: grant})
	if !errors.Is(err, publish.ErrOutcomeUnknown) {
		t.Fatalf("got %v", err)
	}
}

// A proxy that gave up waiting says nothing about the publish behind it (case 30).
func TestGatewayTimeoutThenReplayIsSuccess(t *testing.T) {
	t.Parallel()
	timeout := func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "<html>504</html>", http.StatusGatewayTimeout)
	}
	f := newFake(t, timeout, answer(200, receipt()))
	if _, err := f.client(t, Options{}).Publish(testContext(t), publish.PublishRequest{Grant: grant}); err != nil {
		t.Fatal(err)
	}
	f = newFake(t, timeout)
	_, err := f.client(t, Options{RetryFor: -1}).Publish(testContext(t), publish.PublishRequest{Grant: grant})
	if !errors.Is(err, publish.ErrOutcomeUnknown) {
		t.Fatalf("got %v", err)
	}
}

func TestStaleIsNeverRepeated(t *testing.T) {
	t.Parallel()
	f := newFake(t, refuse(stale(), "Retry-After", "0"))
	_, err := f.client(t, Options{}).Publish(testContext(t), publish.PublishRequest{Grant: grant})
	refusal, ok := errors.AsType[*publish.Error](err)
	if !errors.Is(err, publish.ErrStaleToken) || !ok || refusal.AcceptedToken != 18 || refusal.Holder != "render-b" {
		t.Fatalf("got %v", err)
	}
	if f.count() != 1 {
		t.Fatalf("%d requests", f.count())
	}
}

func TestRefusalsAreNotRepeated(t *testing.T) {
	t.Parallel()
	for _, kind := range publish.Kinds() {
		f := newFake(t, refuse(&publish.Error{Code: kind.Code, Detail: "x"}), answer(200, receipt()))
		_, err := f.client(t, Options{}).Publish(testContext(t), publish.PublishRequest{Grant: grant})
		if repeated := f.count() > 1; repeated != (kind.Retryable && kind.Code != publish.ErrLeaseHeld) {
			t.Errorf("%s: %d requests", kind.Code, f.count())
		}
		if f.count() == 1 && !errors.Is(err, kind.Code) {
			t.Errorf("%s became %v", kind.Code, err)
		}
	}
}

func TestRetryAfterIsHonoured(t *testing.T) {
	t.Parallel()
	f := newFake(t, refuse(publish.Unavailable("Postgres", nil), "Retry-After", "1"), answer(200, publish.Pointer{Key: "k", Token: 1, Revision: 1}))
	start := time.Now()
	if _, err := f.client(t, Options{}).Pointer(testContext(t), "k"); err != nil {
		t.Fatal(err)
	}
	if waited := time.Since(start); waited < time.Second {
		t.Fatalf("repeated after %s", waited)
	}
	// One that goes beyond the policy isn't waited for.
	f = newFake(t, refuse(publish.Unavailable("Postgres", nil), "Retry-After", "3600"))
	if _, err := f.client(t, Options{}).Pointer(testContext(t), "k"); !errors.Is(err, publish.ErrUnavailable) || f.count() != 1 {
		t.Fatalf("got %v after %d requests", err, f.count())
	}
}

// A Retry-After date counts from the Date of the same answer: the own clock may be years off.
func TestRetryAfterDateNeedsNoOwnClock(t *testing.T) {
	t.Parallel()
	h := http.Header{"Retry-After": {"Mon, 02 Jan 2006 15:04:35 GMT"}, "Date": {"Mon, 02 Jan 2006 15:04:05 GMT"}}
	if got := retryAfter(h); got != 30*time.Second {
		t.Fatalf("got %s", got)
	}
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := "http://" + listener.Addr().String()
	_ = listener.Close()
	c := newClient(t, address, Options{RetryFor: 20 * time.Millisecond})
	// Nobody was there, so a publish has certainly not happened.
	_, err = c.Publish(testContext(t), publish.PublishRequest{Grant: grant})
	if !errors.Is(err, ErrUnreachable) || errors.Is(err, publish.ErrOutcomeUnknown) {
		t.Fatalf("got %v", err)
	}
}

// A publish that is called off while it waits for its answer may have happened.
func TestCanceledPublishIsUnknown(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(testContext(t))
	f := newFake(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		cancel()
		<-r.Context().Done()
	})
	_, err := f.client(t, Options{}).Publish(ctx, publish.PublishRequest{Grant: grant})
	if !errors.Is(err, publish.ErrOutcomeUnknown) || !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	if _, err = f.client(t, Options{}).Publish(ctx, publish.PublishRequest{Grant: grant}); errors.Is(err, publish.ErrOutcomeUnknown) {
		t.Fatalf("called off before it was sent: %v", err)
	}
}

func TestForeignAnswers(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]publish.Code{
		400: publish.ErrInvalidRequest, 401: publish.ErrUnauthorized, 403: publish.ErrForbidden,
		404: publish.ErrNotFound, 409: "http-409", 410: "http-410", 412: publish.ErrPreconditionFailed, 413: publish.ErrTooLarge,
		418: "http-418", 422: "http-422", 429: publish.ErrRateLimited, 500: publish.ErrInternal, 502: publish.ErrUnavailable, 503: publish.ErrUnavailable,
	} {
		f := newFake(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>no</html>", status) })
		_, err := f.client(t, Options{RetryFor: -1}).Pointer(testContext(t), "k")
		if !errors.Is(err, want) {
			t.Errorf("%d became %v, want %s", status, err, want)
		}
	}
}

// A secret is never sent on to another host, and a changing call is sent nowhere else.
func TestRedirects(t *testing.T) {
	t.Parallel()
	seen := make(chan http.Header, 1)
	elsewhere := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header
		w.Header().Set("ETag", `"x"`)
		_, _ = io.WriteString(w, "bytes")
	})
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL+"/bucket", http.StatusTemporaryRedirect)
	})
	c := f.client(t, Options{Credential: "canary", RetryFor: -1})
	d, err := c.Open(testContext(t), grant.Key, grant.Token, "a.png", grant.LeaseID)
	if err != nil {
		t.Fatal(err)
	}
	_ = d.Close()
	if h := <-seen; h.Get("Authorization") != "" || h.Get(headerLease) != "" {
		t.Errorf("secrets went along: %v", h)
	}
	if _, err := c.Publish(testContext(t), publish.PublishRequest{Grant: grant}); err == nil || elsewhere.count() != 1 {
		t.Errorf("a publish was sent on: %v", err)
	}
}

// Pauses are drawn at random below a bound that doubles up to 5 s, so that workers who were cut off together don't come back together.
func TestPausesAreRandom(t *testing.T) {
	t.Parallel()
	c := newClient(t, "http://host", Options{RetryPause: 100 * time.Millisecond})
	for try, bound := range map[int]time.Duration{0: 100 * time.Millisecond, 3: 800 * time.Millisecond, 6: maxPause, 60: maxPause} {
		var low, high int
		for range 200 {
			again, pause := c.judge(&answerError{refusal: publish.Unavailable("Postgres", nil)}, try)
			if !again || pause < 0 || pause > bound {
				t.Fatalf("try %d: a pause of %s, %v", try, pause, again)
			}
			if pause < bound/2 {
				low++
			} else {
				high++
			}
		}
		if low < 50 || high < 50 {
			t.Errorf("try %d: %d pauses below half of %s, %d above", try, low, bound, high)
		}
		_, pause := c.judge(&answerError{refusal: publish.Unavailable("Postgres", nil), retryAfter: time.Minute}, try)
		if pause < time.Minute {
			t.Errorf("try %d: the server asked for a minute, and got %s", try, pause)
		}
	}
}
