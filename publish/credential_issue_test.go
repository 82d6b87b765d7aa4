package publish_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/publish"
)

func TestParseLifetime(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]publish.Lifetime{
		"never": publish.Never, "90d": publish.DefaultLifetime, "1s": publish.Lifetime(time.Second), "12h": publish.Lifetime(12 * time.Hour), "3650d": publish.MaxLifetime,
		"1h30m": publish.Lifetime(90 * time.Minute),
	} {
		got, err := publish.ParseLifetime("x", text)
		if err != nil || got != want {
			t.Errorf("%q is %v, %v", text, got, err)
		}
		if again, err := publish.ParseLifetime("x", got.String()); err != nil || again != want {
			t.Errorf("%q is written as %q", text, got)
		}
	}
	for _, text := range []string{"", "0", "0s", "0d", "-1s", "-1ns", "-1d", "999ms", "3651d", "65536d", "1.5d", "+1d", "1w", "Never", " 1d", "d", "87601h"} {
		if got, err := publish.ParseLifetime("x", text); !errors.Is(err, publish.ErrInvalidRequest) || !strings.Contains(err.Error(), "x: must be from 1s") {
			t.Errorf("%q is %v, %v", text, got, err)
		}
	}
}

// What is asked for wrongly is refused by its field before anything is kept.
func TestCredentialRequests(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	good := func() publish.CreateCredentialRequest {
		return publish.CreateCredentialRequest{Name: "ci", Scopes: publish.Scopes{{Verb: publish.VerbRead}}, By: "ops", Admin: publish.Everything}
	}
	for field, change := range map[string]func(*publish.CreateCredentialRequest){
		"/name: must have":   func(r *publish.CreateCredentialRequest) { r.Name = "" },
		"/name: must have 1": func(r *publish.CreateCredentialRequest) { r.Name = strings.Repeat("x", 101) },
		"/name: has a":       func(r *publish.CreateCredentialRequest) { r.Name = "a\nb" },
		"/name: is not":      func(r *publish.CreateCredentialRequest) { r.Name = "a\xff" },
		"/scopes: must":      func(r *publish.CreateCredentialRequest) { r.Scopes = nil },
		"/scopes: must be 1": func(r *publish.CreateCredentialRequest) { r.Scopes = make(publish.Scopes, 101) },
		"/scopes/0: has no":  func(r *publish.CreateCredentialRequest) { r.Scopes = publish.Scopes{{}} },
		"/scopes/1: has no":  func(r *publish.CreateCredentialRequest) { r.Scopes = append(r.Scopes, publish.Scope{Verb: 9}) },
		"scopes: the prefix": func(r *publish.CreateCredentialRequest) { r.Scopes[0].Prefix = "a//b" },
		"/expires_in: must":  func(r *publish.CreateCredentialRequest) { r.Lifetime = 1 },
		"must be from 1s":    func(r *publish.CreateCredentialRequest) { r.Lifetime = publish.MaxLifetime + 1 },
		"-By: must":          func(r *publish.CreateCredentialRequest) { r.By = "" },
	} {
		req := good()
		change(&req)
		if made, err := g.CreateCredential(t.Context(), req); !errors.Is(err, publish.ErrInvalidRequest) || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %+v, %v", field, made, err)
		}
	}
	// A name that looks like another's would speak for it in histories and the audit.
	for _, name := range []string{"ops ", " ops", "op\u200bs", "ops\ufeff", "ops\ufe0f", "ops\u3164", "ops\u00a0", "a\u2003b"} {
		req := good()
		req.Name = name
		if made, err := g.CreateCredential(t.Context(), req); !errors.Is(err, publish.ErrInvalidRequest) || !strings.Contains(err.Error(), "/name: has a character that isn't seen") {
			t.Errorf("%q: %+v, %v", name, made, err)
		}
	}
	made, err := g.CreateCredential(t.Context(), good())
	if err != nil {
		t.Fatal(err)
	}
	for field, req := range map[string]publish.RotateCredentialRequest{
		"/expires_in: must": {Lifetime: -2, By: "ops"},
		"/overlap: must":    {Overlap: -1, By: "ops"},
		"/overlap: must be": {Overlap: publish.MaxOverlap + 1, By: "ops"},
		"-By: must":         {},
	} {
		req.ID, req.Admin = made.ID, publish.Everything
		if next, err := g.RotateCredential(t.Context(), req); !errors.Is(err, publish.ErrInvalidRequest) || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %+v, %v", field, next, err)
		}
	}
	if page, err := g.Credentials(t.Context(), "", 0, publish.Everything); err != nil || len(page.Credentials) != 1 || page.Credentials[0].State != publish.CredentialActive {
		t.Errorf("%+v, %v", page, err)
	}
}

// Who is admin of some keys hands on no more than them, and sees nothing of what reaches beyond them.
func TestCredentialsWithinReach(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	narrow := publish.ReachOf("team-a/")
	create := func(name string, admin publish.Reach, scopes ...string) (publish.IssuedCredential, error) {
		parsed, err := publish.ParseScopes(strings.Join(scopes, ","))
		if err != nil {
			t.Fatal(err)
		}
		return g.CreateCredential(t.Context(), publish.CreateCredentialRequest{Name: name, Scopes: parsed, By: "ops", Admin: admin})
	}
	for _, scopes := range [][]string{{"read"}, {"read:team-ab/"}, {"read:team-a"}, {"read:TEAM-A/"}, {"admin:team-a/x", "publish:team-b/"}, {"admin"}} {
		if made, err := create("n", narrow, scopes...); !errors.Is(err, publish.ErrForbidden) || !strings.Contains(err.Error(), `who has the scope "admin`) {
			t.Errorf("%v: %+v, %v", scopes, made, err)
		}
	}
	if _, err := create("n", publish.Reach{}, "read:team-a/"); !errors.Is(err, publish.ErrForbidden) {
		t.Errorf("who is admin of nothing gets %v", err)
	}
	own, err := create("own", narrow, "admin:team-a/x", "publish:team-a/")
	if err != nil {
		t.Fatal(err)
	}
	both, err := create("both", publish.Everything, "read:team-a/", "read:team-b/")
	if err != nil {
		t.Fatal(err)
	}
	// A name is taken for all, and that is all there is to learn.
	if made, err := create("both", narrow, "read:team-a/"); !errors.Is(err, publish.ErrCredentialConflict) || strings.Contains(fmt.Sprintf("%+v", err), string(both.ID)) || strings.Contains(err.Error(), "team-b") {
		t.Errorf("the name of another one gives %+v, %v", made, err)
	}
	for i := range 5 {
		if _, err := create(fmt.Sprint("a", i), publish.Everything, "read"); err != nil {
			t.Fatal(err)
		}
	}
	page, err := g.Credentials(t.Context(), "", 2, narrow)
	if err != nil || len(page.Credentials) != 1 || page.Credentials[0].ID != own.ID || page.Next != "" {
		t.Errorf("the admin of team-a/ sees %+v, %v", page, err)
	}
	for _, name := range []string{"b", "z"} {
		if _, err := create(name, narrow, "read:team-a/"); err != nil {
			t.Fatal(err)
		}
	}
	// Pages of one each, and between them what isn't shown.
	var seen []string
	asked := g.pointers.Faults.Calls("Credentials")
	for after := publish.CredentialID(""); len(seen) < 9; {
		page, err := g.Credentials(t.Context(), after, 1, narrow)
		if err != nil || len(page.Credentials) != 1 {
			t.Fatalf("behind %q is %+v, %v", after, page, err)
		}
		seen = append(seen, page.Credentials[0].Name)
		if after = page.Next; after == "" {
			break
		}
		if after != page.Credentials[0].ID {
			t.Errorf("the next page begins behind %s, which isn't shown", after)
		}
	}
	if !slices.Equal(seen, []string{"b", "own", "z"}) || g.pointers.Faults.Calls("Credentials") != asked+3 {
		t.Errorf("%q are seen", seen)
	}
	const nothing = "there is no such credential"
	missing := publish.RotateCredentialRequest{ID: publish.NewCredentialID(), By: "ops", Admin: narrow}
	_, none := g.RotateCredential(t.Context(), missing)
	missing.ID = both.ID
	_, rotate := g.RotateCredential(t.Context(), missing)
	_, revoke := g.RevokeCredential(t.Context(), both.ID, "ops", narrow)
	for _, err := range []error{none, rotate, revoke} {
		if !errors.Is(err, publish.ErrNotFound) || !strings.Contains(err.Error(), nothing) {
			t.Errorf("a credential beyond the reach is %v", err)
		}
	}
	g.shows(both.Secret, "")
	if _, err := g.RotateCredential(t.Context(), publish.RotateCredentialRequest{ID: own.ID, By: "ops", Admin: narrow, Overlap: time.Hour}); err != nil {
		t.Error(err)
	}
	if _, err := g.RevokeCredential(t.Context(), own.ID, "ops", narrow); err != nil {
		t.Error(err)
	}
	g.shows(own.Secret, publish.ErrUnauthorized)
}

// A repeated request gives the same credential with another text; the text stands in no encoding of it.
func TestCredentialRepeated(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	req := publish.CreateCredentialRequest{
		Name: "ci", Scopes: publish.Scopes{{Verb: publish.VerbRead}}, By: "ops", Admin: publish.Everything, RequestID: publish.NewLeaseID(),
	}
	first, err := g.CreateCredential(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	second, err := g.CreateCredential(t.Context(), req)
	if err != nil || second.ID != first.ID || second.Secret == first.Secret {
		t.Fatalf("%+v, %v", second, err)
	}
	g.shows(first.Secret, publish.ErrUnauthorized)
	g.shows(second.Secret, "")
	raw, err := json.Marshal(second)
	if err != nil {
		t.Fatal(err)
	}
	if said := string(raw) + fmt.Sprintf("%v %+v %#v", second, second, second); strings.Contains(said, second.Secret.Reveal()[len("pawl_c_"):]) {
		t.Errorf("the text shows in %s", said)
	}
}
