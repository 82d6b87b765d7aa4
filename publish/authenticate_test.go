package publish_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/publish/publishtest"
)

// gate is a Service and a store whose clocks a test moves together.
type gate struct {
	*testing.T
	*publish.Service
	pointers *publishtest.Pointers
	log      *testenv.Buffer
	mu       sync.Mutex
	time     time.Time
}

func newGate(t *testing.T) *gate {
	t.Helper()
	g := &gate{T: t, pointers: publishtest.NewPointers(), log: &testenv.Buffer{}, time: time.Now()}
	g.pointers.Clock = g.now
	g.Service = &publish.Service{Pointers: g.pointers, Blobs: publishtest.NewBlobs(), Clock: g.now, Log: slog.New(slog.NewTextHandler(g.log, nil))}
	t.Cleanup(g.Close)
	return g
}

func (g *gate) now() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.time
}

func (g *gate) pass(d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.time = g.time.Add(d)
}

func (g *gate) create(name string, lifetime publish.Lifetime) publish.IssuedCredential {
	g.Helper()
	made, err := g.CreateCredential(g.Context(), publish.CreateCredentialRequest{
		Name: name, Scopes: publish.Scopes{{Verb: publish.VerbPublish, Prefix: "renders/"}}, Lifetime: lifetime, By: "ops", Admin: publish.Everything,
	})
	if err != nil {
		g.Fatal(err)
	}
	return made
}

// shows checks what a credential leads to: "" for its caller, or a kind of error.
func (g *gate) shows(secret publish.Secret, want publish.Code) {
	g.Helper()
	caller, err := g.Authenticate(g.Context(), secret)
	if want == "" && (err != nil || !caller.Known()) || want != "" && (!errors.Is(err, want) || caller.Known()) {
		g.Fatalf("a credential shows %+v, %v; want the error %q", caller, err, want)
	}
}

func (g *gate) questions() int { return g.pointers.Faults.Calls("FindCredential") }

// Who shows a credential is remembered for 5 s and who shows none that opens anything for 1 s; neither beyond the credential's end.
func TestAuthenticateRemembers(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	made := g.create("ci", publish.Never)
	caller, err := g.Authenticate(t.Context(), made.Secret)
	if err != nil {
		t.Fatal(err)
	}
	want := publish.Caller{Name: "ci", Credential: made.ID, Scopes: publish.Scopes{{Verb: publish.VerbPublish, Prefix: "renders/"}}}
	if diff := cmp.Diff(want, caller); diff != "" {
		t.Errorf("the caller (-want +got):\n%s", diff)
	}
	asked := func(want int) {
		t.Helper()
		if got := g.questions(); got != want {
			t.Fatalf("Postgres was asked %d times, want %d", got, want)
		}
	}
	g.pass(5*time.Second - 1)
	g.shows(made.Secret, "")
	asked(1)
	g.pass(1)
	g.shows(made.Secret, "")
	asked(2)

	stranger := publish.NewSecret()
	g.shows(stranger, publish.ErrUnauthorized)
	g.pass(time.Second - 1)
	g.shows(stranger, publish.ErrUnauthorized)
	asked(3)
	g.pass(1)
	g.shows(stranger, publish.ErrUnauthorized)
	asked(4)
	g.shows(publish.Secret{}, publish.ErrUnauthorized)
	asked(4)

	short := g.create("short", publish.Lifetime(3*time.Second))
	caller, err = g.Authenticate(t.Context(), short.Secret)
	if err != nil || !caller.Expires.Equal(short.ExpiresAt.Time) {
		t.Errorf("the caller is %+v, %v; want the end %s", caller, err, short.ExpiresAt)
	}
	g.pass(3*time.Second - 1)
	g.shows(short.Secret, "")
	asked(5)
	g.pass(1)
	g.shows(short.Secret, publish.ErrUnauthorized)
	asked(6)
}

// A credential that is revoked, or ends by a rotation, opens nothing in this process from then on; others learn it within 5 s.
func TestAuthenticateForgetsTheRevoked(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	other := &publish.Service{Pointers: g.pointers, Clock: g.now}
	t.Cleanup(other.Close)
	made := g.create("ci", publish.Never)
	g.shows(made.Secret, "")
	if _, err := other.Authenticate(t.Context(), made.Secret); err != nil {
		t.Fatal(err)
	}
	g.pointers.Faults.Add(publishtest.Fault{Operation: "RevokeCredential", Applied: true})
	if _, err := g.RevokeCredential(t.Context(), made.ID, "ops", publish.Everything); !errors.Is(err, publish.ErrOutcomeUnknown) {
		t.Fatal(err)
	}
	g.shows(made.Secret, publish.ErrUnauthorized)
	g.pass(5 * time.Second)
	if _, err := other.Authenticate(t.Context(), made.Secret); !errors.Is(err, publish.ErrUnauthorized) {
		t.Errorf("another replica says %v", err)
	}

	old := g.create("old", 0)
	g.shows(old.Secret, "")
	next, err := g.RotateCredential(t.Context(), publish.RotateCredentialRequest{ID: old.ID, By: "ops", Admin: publish.Everything})
	if err != nil {
		t.Fatal(err)
	}
	g.shows(old.Secret, publish.ErrUnauthorized)
	g.shows(next.Secret, "")
}

// What was asked before a revocation is neither remembered after it nor waited for: a slow answer lets nobody in.
func TestAuthenticateDuringARevocation(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	made := g.create("ci", publish.Never)
	found, goOn := make(chan struct{}), make(chan struct{})
	late := &lateStore{PointerStore: g.pointers, found: found, goOn: goOn}
	g.Pointers = late
	first := make(chan error, 1)
	go func() {
		_, err := g.Authenticate(context.WithoutCancel(t.Context()), made.Secret)
		first <- err
	}()
	<-found // Postgres has said that it is good; the answer is on its way.
	if _, err := g.RevokeCredential(t.Context(), made.ID, "ops", publish.Everything); err != nil {
		t.Fatal(err)
	}
	g.shows(made.Secret, publish.ErrUnauthorized)
	close(goOn)
	if err := <-first; err != nil {
		t.Errorf("who came before the revocation gets %v", err)
	}
	g.pass(time.Second) // what was remembered of the stranger is gone, what would be of the caller wouldn't
	g.shows(made.Secret, publish.ErrUnauthorized)
}

// lateStore holds back its first answer to FindCredential.
type lateStore struct {
	publish.PointerStore
	held        atomic.Bool
	found, goOn chan struct{}
}

func (s *lateStore) FindCredential(ctx context.Context, hash publish.Digest) (publish.FoundCredential, error) {
	found, err := s.PointerStore.FindCredential(ctx, hash)
	if !s.held.Swap(true) {
		close(s.found)
		<-s.goOn
	}
	return found, err
}

// Requests that come together with one credential ask Postgres once. When the one that asks goes away, another asks.
func TestAuthenticateAsksOnce(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	made := g.create("ci", publish.Never)
	asking, goOn := make(chan struct{}), make(chan struct{})
	g.pointers.Faults.Add(publishtest.Fault{Operation: "FindCredential", Before: func(ctx context.Context) {
		close(asking)
		<-ctx.Done()
	}})
	g.pointers.Faults.Add(publishtest.Fault{Operation: "FindCredential", Before: func(context.Context) { <-goOn }})
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		_, err := g.Authenticate(ctx, made.Secret)
		gone <- err
	}()
	<-asking
	errs, waiting := make(chan error, 20), make(chan struct{}, 40)
	for range cap(errs) {
		go func() {
			caller, err := g.Authenticate(waitingContext{t.Context(), waiting}, made.Secret)
			if err == nil && caller.Credential != made.ID {
				err = fmt.Errorf("the caller is %+v", caller)
			}
			errs <- err
		}()
	}
	for range cap(errs) {
		<-waiting
	}
	hurried, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := g.Authenticate(hurried, made.Secret); !errors.Is(err, context.Canceled) {
		t.Errorf("who can't wait gets %v", err)
	}
	leave()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("who went away gets %v", err)
	}
	close(goOn)
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if got := g.questions(); got != 2 {
		t.Errorf("Postgres was asked %d times, want once for who went away and once for all others", got)
	}
}

// waitingContext tells when its holder begins to wait.
type waitingContext struct {
	context.Context
	waiting chan<- struct{}
}

func (c waitingContext) Done() <-chan struct{} {
	select {
	case c.waiting <- struct{}{}:
	default:
	}
	return c.Context.Done()
}

// Postgres that is away is unavailable, and not remembered.
func TestAuthenticateWithoutPostgres(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	made := g.create("ci", publish.Never)
	g.pointers.Faults.Add(publishtest.Fault{Operation: "FindCredential"})
	g.shows(made.Secret, publish.ErrUnavailable)
	g.shows(made.Secret, "")
}

// However many guesses come, who is known is remembered, and so is no more than a bounded number of guesses.
func TestAuthenticateIsBounded(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	known := make([]publish.IssuedCredential, 200)
	for i := range known {
		known[i] = g.create(fmt.Sprint("ci", i), publish.Never)
		g.shows(known[i].Secret, "")
	}
	guesses := make([]publish.Secret, 10_500)
	for i := range guesses {
		guesses[i] = publish.NewSecret()
		g.shows(guesses[i], publish.ErrUnauthorized)
	}
	before := g.questions()
	for _, made := range known {
		g.shows(made.Secret, "")
	}
	if got := g.questions(); got != before {
		t.Error("known callers were forgotten for guesses")
	}
	for _, guess := range guesses {
		g.shows(guess, publish.ErrUnauthorized)
	}
	if again := g.questions() - before; again < 500 {
		t.Errorf("only %d of %d guesses were forgotten", again, len(guesses))
	}
}

// noted waits until a use of a credential is noted, and tells when it was.
func (g *gate) noted(id publish.CredentialID, try func()) (moment *publish.Time) {
	g.Helper()
	testenv.Eventually(g.T, 20*time.Second, func() error {
		try()
		c, err := g.pointers.Credential(g.Context(), id)
		if moment = c.LastUsedAt; err == nil && moment == nil {
			err = errors.New("no use is noted")
		}
		return err
	})
	return moment
}

// A use is noted beside the request, once a minute, and none after the end of the Service.
func TestAuthenticateNotesUse(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	made := g.create("ci", publish.Never)
	notes := func(want int) {
		t.Helper()
		testenv.Eventually(t, 20*time.Second, func() error {
			if got := g.pointers.Faults.Calls("UseCredential"); got != want {
				return fmt.Errorf("%d uses were noted, want %d", got, want)
			}
			return nil
		})
	}
	g.shows(made.Secret, "")
	first := g.noted(made.ID, func() {})
	for range 11 {
		g.pass(5 * time.Second)
		g.shows(made.Secret, "")
	}
	notes(1)
	g.pass(5 * time.Second)
	testenv.Eventually(t, 20*time.Second, func() error { // The first note may still be ending.
		g.shows(made.Secret, "")
		g.pass(5 * time.Second)
		c, err := g.pointers.Credential(t.Context(), made.ID)
		if err == nil && c.LastUsedAt.Sub(first.Time) < time.Minute {
			err = fmt.Errorf("the use is noted at %s", c.LastUsedAt)
		}
		return err
	})
	g.Close()
	before := g.pointers.Faults.Calls("UseCredential")
	g.pass(2 * time.Minute)
	g.shows(made.Secret, "")
	notes(before)
}

// A use whose note fails is noted by a later look.
func TestAuthenticateNotesUseLater(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	made := g.create("ci", publish.Never)
	g.pointers.Faults.Add(publishtest.Fault{Operation: "UseCredential"})
	g.noted(made.ID, func() {
		g.shows(made.Secret, "")
		g.pass(5 * time.Second)
	})
	if !strings.Contains(g.log.String(), "credential_use_not_noted") {
		t.Error("the log says nothing of the note that failed")
	}
}
