package web_test

import (
	"maps"
	"net/http"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlhq/pawl/web"
)

// stopClock makes time stand still for sign-ins, so that what failed stays counted however busy the machine is. passed are the nanoseconds that a test lets pass.
func (r *rig) stopClock() (passed *atomic.Int64) {
	stopped, passed := time.Now(), new(atomic.Int64)
	r.handler.SetNow(func() time.Time { return stopped.Add(time.Duration(passed.Load())) })
	return passed
}

// statuses awaits answers, and counts them by status.
func statuses(answers []<-chan answer) map[int]int {
	counts := map[int]int{}
	for _, each := range answers {
		counts[(<-each).status]++
	}
	return counts
}

// holdTokens keeps requests to the issuer's token endpoint until release, and counts them.
func (r *issuerRig) holdTokens() (asked *atomic.Int64, release func()) {
	asked, released := new(atomic.Int64), make(chan struct{})
	r.issuers[0].Intercept(func(_ http.ResponseWriter, req *http.Request) bool {
		if req.URL.Path == "/token" {
			asked.Add(1)
			<-released
		}
		return false
	})
	return asked, func() { close(released) }
}

// Good sign-ins at the same moment hold nobody up: those that are too many at once wait for their turn, and cost nothing.
func TestManyGoodSignInsAtOnce(t *testing.T) {
	t.Parallel()
	r := newIssuerRig(t)
	r.stopClock()
	mia := r.make("mia", "read")
	var agreed [12]string
	var begun [12]attempt
	for i := range begun {
		begun[i] = r.begin(r.issuers[0].URL, "/")
		agreed[i] = r.agree(begun[i])
	}
	asked, release := r.holdTokens()
	var answers []<-chan answer
	for i := range begun {
		answers = append(answers, r.rig.begin(browser(begun[i].cookie), "GET", agreed[i], ""))
	}
	await(t, func() bool { return asked.Load() == 5 })
	release()
	if got := statuses(answers); got[303] <= 5 || got[303]+got[429] != 12 {
		t.Errorf("by an issuer: %v", got)
	}
	answers = nil
	form := url.Values{"credential": {mia.Secret.Reveal()}}.Encode()
	for range 12 {
		answers = append(answers, r.rig.begin(browser(), "POST", "/sign-in", form, "Content-Type", formType))
	}
	if got := statuses(answers); got[303] <= 5 || got[303]+got[429] != 12 {
		t.Errorf("by a credential: %v", got)
	}
	for range 5 { // As many as may fail: none has.
		r.signIn(mia.Secret.Reveal(), "").want(303)
	}
	if n := r.handler.SignInsKnown(); n != 0 {
		t.Errorf("%d clients are remembered", n)
	}
}

// Guesses at the same moment don't get past the limit, whatever each of them waits for.
func TestManyBadSignInsAtOnce(t *testing.T) {
	t.Parallel()
	r := newIssuerRig(t)
	r.stopClock()
	begun := r.begin(r.issuers[0].URL, "/")
	guess := changed(r.agree(begun), "code", "guessed")
	asked, release := r.holdTokens()
	var answers []<-chan answer
	for range 100 {
		answers = append(answers, r.rig.begin(browser(begun.cookie), "GET", guess, ""))
	}
	await(t, func() bool { return asked.Load() == 5 })
	release()
	if got, want := statuses(answers), map[int]int{401: 5, 429: 95}; !maps.Equal(got, want) || asked.Load() != 5 {
		t.Errorf("%v, and the issuer was asked %d times", got, asked.Load())
	}
	if n := r.handler.SignInsKnown(); n != 0 {
		t.Errorf("%d clients are remembered", n)
	}

	other := newSignRig(t, web.Options{})
	other.stopClock()
	answers = nil
	for range 100 {
		answers = append(answers, other.begin(browser(), "POST", "/sign-in", "credential=guessed", "Content-Type", formType))
	}
	if got, want := statuses(answers), map[int]int{401: 5, 429: 95}; !maps.Equal(got, want) {
		t.Errorf("by a credential: %v", got)
	}
}
