package publish_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

func (g *gate) signIn(secret publish.Secret, replaces publish.SessionID) publish.SessionID {
	g.Helper()
	caller, err := g.Authenticate(g.Context(), secret)
	if err != nil {
		g.Fatal(err)
	}
	id, err := g.SignIn(g.Context(), publish.SignInRequest{Caller: caller, Replaces: replaces})
	if err != nil {
		g.Fatal(err)
	}
	return id
}

// session checks what a session leads to: "" for a caller, or a kind of error. SessionStill says the same.
func (g *gate) session(id publish.SessionID, want publish.Code) publish.Caller {
	g.Helper()
	caller, err := g.Session(g.Context(), id)
	if want == "" && (err != nil || !caller.Known()) || want != "" && (!errors.Is(err, want) || caller.Known()) {
		g.Fatalf("a session shows %+v, %v; want the error %q", caller, err, want)
	}
	return caller
}

func (g *gate) sought() int { return g.pointers.Faults.Calls("FindSession") }

// The id of a session is long, new each time, and shows nowhere but by Reveal.
func TestSessionID(t *testing.T) {
	t.Parallel()
	id := publish.NewSessionID()
	text := id.Reveal()
	if len(text) != 52 || publish.ParseSessionID(text) != id || publish.NewSessionID() == id {
		t.Fatalf("the id is %q", text)
	}
	if said := fmt.Sprintf("%v %+v %#v %s", id, id, struct{ ID publish.SessionID }{id}, id); strings.Contains(said, text) {
		t.Errorf("the id shows in %s", said)
	}
	for _, bad := range []string{"", text[1:], text + "A", strings.ToLower(text), text[1:] + "1", text[1:] + "é"} {
		if !publish.ParseSessionID(bad).IsZero() {
			t.Errorf("%q is taken for an id", bad)
		}
	}
}

// Whose a session is, is remembered for 5 s, and no longer than it is good; its end in this process is known at once.
func TestSessionRemembered(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	made := g.create("ci", publish.Never)
	id := g.signIn(made.Secret, publish.SessionID{})
	end := g.now().Add(publish.DefaultSessionLifetime).Truncate(time.Microsecond)
	for range 3 {
		caller := g.session(id, "")
		if caller.Name != "ci" || caller.Credential != made.ID || len(caller.Scopes) != 1 || !caller.Expires.Equal(end) {
			t.Fatalf("the caller is %+v", caller)
		}
		g.pass(time.Second)
	}
	if n := g.sought(); n != 1 {
		t.Errorf("Postgres was asked %d times", n)
	}
	g.pass(3 * time.Second)
	g.session(id, "")
	if n := g.sought(); n != 2 {
		t.Errorf("after 5 s Postgres was asked %d times", n)
	}
	if err := g.SignOut(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	g.session(id, publish.ErrUnauthorized)
	g.session(publish.SessionID{}, publish.ErrUnauthorized)
	if err := g.SignOut(t.Context(), publish.SessionID{}); err != nil {
		t.Error(err)
	}

	// Who signs in anew, everywhere, and the end of the credential.
	first, second := g.signIn(made.Secret, publish.SessionID{}), g.signIn(made.Secret, publish.SessionID{})
	g.session(first, "")
	third := g.signIn(made.Secret, first)
	g.session(first, publish.ErrUnauthorized)
	caller := g.session(second, "")
	g.session(third, "")
	if err := g.SignOutEverywhere(t.Context(), caller); err != nil {
		t.Fatal(err)
	}
	g.session(second, publish.ErrUnauthorized)
	g.session(third, publish.ErrUnauthorized)
	fourth := g.signIn(made.Secret, publish.SessionID{})
	g.session(fourth, "")
	if _, err := g.RevokeCredential(t.Context(), made.ID, "ops", publish.Everything); err != nil {
		t.Fatal(err)
	}
	g.session(fourth, publish.ErrUnauthorized)
	if _, err := g.SignIn(t.Context(), publish.SignInRequest{Caller: caller}); !errors.Is(err, publish.ErrUnauthorized) {
		t.Errorf("a revoked credential signs in: %v", err)
	}
}

// Uses keep a session alive; that a request lasts is none.
func TestSessionIdle(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	made := g.create("ci", publish.Never)
	used, left := g.signIn(made.Secret, publish.SessionID{}), g.signIn(made.Secret, publish.SessionID{})
	for range 13 {
		g.pass(5 * time.Minute)
		notes := g.pointers.Faults.Calls("UseSession")
		g.session(used, "")
		testenv.Eventually(t, time.Minute, func() error { // It is noted beside the request.
			if g.pointers.Faults.Calls("UseSession") == notes {
				// While the use before is still being noted this one isn't: the next look does it.
				g.pass(5 * time.Second)
				g.session(used, "")
				return errors.New("the use isn't noted")
			}
			return nil
		})
		_, err := g.SessionStill(t.Context(), left)
		if g.pointers.Faults.Calls("UseSession") != notes+1 {
			t.Fatal("that a request lasts is noted as a use")
		}
		if err != nil && !errors.Is(err, publish.ErrUnauthorized) {
			t.Fatal(err)
		}
	}
	if _, err := g.SessionStill(t.Context(), left); !errors.Is(err, publish.ErrUnauthorized) {
		t.Errorf("an idle session is good still: %v", err)
	}
	g.session(left, publish.ErrUnauthorized)
	g.session(used, "")
}
