package web_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

// tokens stands for the verifier of other issuers' tokens.
type tokens struct {
	mu      sync.Mutex
	callers map[string]publish.Caller
	refusal map[string]error
	asked   int
}

func (k *tokens) verify(_ context.Context, token string) (publish.Caller, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked++
	if err := k.refusal[token]; err != nil {
		return publish.Caller{}, err
	}
	caller, known := k.callers[token]
	if !known {
		return publish.Caller{}, &publish.Error{Code: publish.ErrUnauthorized, Detail: "the token has expired"}
	}
	return caller, nil
}

func (k *tokens) expire() {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.callers)
}

const canaryToken = "canaryheader.canaryclaims.canarysignature"

func newTokenRig(t *testing.T, scopes string, opts web.Options) (*rig, *credentials, *tokens) {
	t.Helper()
	parsed, err := publish.ParseScopes(scopes)
	if err != nil {
		t.Fatal(err)
	}
	known := &tokens{refusal: map[string]error{}, callers: map[string]publish.Caller{
		canaryToken: {Name: "github acme/renders", Credential: "oidc-0123", Scopes: parsed},
	}}
	opts.Verify = known.verify
	r, credentials := newAuthRig(t, opts)
	return r, credentials, known
}

// A token is what a credential is, by both ways, and shows nowhere (case 50).
func TestCase50Token(t *testing.T) {
	t.Parallel()
	r, _, known := newTokenRig(t, "operate:k", web.Options{})
	caller := []string{"Authorization", "Bearer " + canaryToken}
	w := r.publishedBy(caller, "k", "x")
	if got := r.call("GET", w.generation()+"/files/f", "", basic("pawl", canaryToken)...).want(200); got.body != "x" {
		t.Errorf("it reads %q", got.body)
	}
	r.with(caller, "GET", "/v1/keys/elsewhere", "").wantProblem(publish.ErrNotFound)
	r.with(caller, "GET", "/v1/audit", "").wantProblem(publish.ErrForbidden)
	pin := r.with(caller, "PUT", "/v1/keys/k/-/pin", `{"reason":"r"}`)
	if !strings.Contains(pin.body, "github acme/renders") {
		t.Errorf("the pin is by somebody else: %d %s", pin.status, pin.body)
	}

	known.refusal["a.b.c"] = &publish.Error{Code: publish.ErrForbidden, Detail: "no rule maps this token"}
	known.refusal["d.e.f"] = publish.Unavailable("the issuer https://issuer.example", nil)
	for token, want := range map[string]struct {
		code   publish.Code
		detail string
	}{
		"a.b.c":               {publish.ErrForbidden, "no rule maps this token"},
		"d.e.f":               {publish.ErrUnavailable, "the issuer https://issuer.example"},
		canaryToken + "x":     {publish.ErrUnauthorized, "the token has expired"},
		"canaryheader.claims": {publish.ErrUnauthorized, "looks like pawl_c_"},
	} {
		got := r.call("GET", "/v1/keys/k", "", "Authorization", "Bearer "+token)
		got.wantProblem(want.code)
		if asks := got.challenges() != ""; !strings.Contains(got.body, want.detail) || strings.Contains(got.body, "canary") || asks != (want.code == publish.ErrUnauthorized) {
			t.Errorf("%s is answered with %v %s", token, got.header, got.body)
		}
	}
	if log := r.log.String(); strings.Contains(log, "canary") || !strings.Contains(log, `"credential":"oidc-0123"`) {
		t.Errorf("the log is %s", log)
	}
}

// Credentials go on as ever, and nobody else is asked about them. Where no tokens are taken, none is.
func TestTokensAreNoCredentials(t *testing.T) {
	t.Parallel()
	r, credentials, known := newTokenRig(t, "admin", web.Options{})
	caller := credentials.issue(t, "alice", "publish:k")
	r.publishedBy(caller, "k", "x")
	r.with(bearer(publish.NewSecret()), "GET", "/v1/keys/k", "").wantProblem(publish.ErrUnauthorized)
	if known.asked > 0 {
		t.Errorf("the verifier was asked %d times", known.asked)
	}
	r, credentials = newAuthRig(t, web.Options{})
	got := r.call("GET", "/v1/keys/k", "", "Authorization", "Bearer "+canaryToken)
	got.wantProblem(publish.ErrUnauthorized)
	if credentials.timesAsked() > 0 || strings.Contains(got.body, "canary") {
		t.Errorf("a token is answered with %s", got.body)
	}
}

// What reads ends with its token. An upload doesn't: it would have to begin anew, and a token can be shorter than a large upload.
func TestTokenEndsWhileItLasts(t *testing.T) {
	t.Parallel()
	r, credentials, known := newTokenRig(t, "publish", web.Options{Recheck: 5 * time.Millisecond})
	caller := []string{"Authorization", "Bearer " + canaryToken}
	w := r.grantTo(caller, "k")
	body, more := io.Pipe()
	uploaded := make(chan *http.Response, 1)
	go func() {
		req, err := http.NewRequestWithContext(t.Context(), "PUT", r.server.URL+w.generation()+"/files/f", body)
		if err == nil {
			req.Header.Set(caller[0], caller[1])
			req.Header.Set("Pawl-Lease", w.lease)
			var resp *http.Response
			if resp, err = r.client.Do(req); err == nil {
				_ = resp.Body.Close()
				uploaded <- resp
			}
		}
		if err != nil {
			t.Error(err)
			_ = body.CloseWithError(err)
			close(uploaded)
		}
	}()
	if _, err := io.WriteString(more, "some, "); err != nil {
		t.Fatal(err)
	}
	asked := func() int {
		known.mu.Lock()
		defer known.mu.Unlock()
		return known.asked
	}
	await(t, func() bool { return asked() == 2 }) // once for the lease
	// While others are looked at again and again, the upload isn't.
	r.runEvents()
	alice := credentials.issue(t, "alice", "read")
	waiting := r.begin(alice, "GET", "/v1/events?wait=55s", "")
	before, others := asked(), credentials.timesAsked()
	await(t, func() bool { return credentials.timesAsked() > others+20 })
	if n := asked(); n != before {
		t.Errorf("the upload's token was looked at %d times more", n-before)
	}
	polled := r.begin(caller, "GET", "/v1/events?wait=55s", "")
	await(t, func() bool { return asked() > before+2 })
	known.expire()
	(<-polled).wantProblem(publish.ErrUnauthorized)
	credentials.revoke("alice")
	<-waiting
	if _, err := io.WriteString(more, "and the rest"); err != nil {
		t.Fatal(err)
	}
	_ = more.Close()
	if resp := <-uploaded; resp == nil || resp.StatusCode != 201 {
		t.Errorf("the upload is answered with %v", resp)
	}
	r.with(caller, "GET", "/v1/keys/k", "").wantProblem(publish.ErrUnauthorized)
}
