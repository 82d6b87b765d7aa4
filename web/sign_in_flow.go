package web

import (
	"bytes"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"time"
)

const (
	// flowLifetime is how long people may take at the issuer.
	flowLifetime = 10 * time.Minute
	// maxFlows bounds how many attempts of one browser are under way at once, in as many tabs.
	maxFlows = 4
	// maxFlowPlace bounds the place to come back to, in bytes: browsers keep no cookie above 4 KiB, and some proxies take no more of all together than 8 KiB.
	maxFlowPlace = 512
	// flowTagLetters is how much of a state names its cookie.
	flowTagLetters = 8
)

// flowState is what rand.Text draws: 26 of 32 kinds of letters are 130 bits.
var flowState = regexp.MustCompile(`^[A-Z2-7]{26}$`)

// keptFlow is an attempt to sign in by an issuer, as a cookie keeps it until the issuer's answer comes: so that may reach any replica. The cookie is neither
// sealed nor signed. What it holds is a secret of this browser and nobody else's: it is sent to this host alone, no script can read it, and over TLS nobody but this
// host can set it. Who writes one of their own begins an attempt of their own.
type keptFlow struct {
	Issuer   string `json:"issuer"`
	State    string `json:"state"`
	Nonce    string `json:"nonce"`
	Verifier string `json:"verifier"`
	Next     string `json:"next"`
	Until    int64  `json:"until"` // in seconds since 1970
}

func newFlow(issuer, next string, now time.Time) keptFlow {
	if next = localPlace(next); len(next) > maxFlowPlace {
		next = "/"
	}
	return keptFlow{Issuer: issuer, State: rand.Text(), Nonce: rand.Text(), Verifier: rand.Text() + rand.Text(), Next: next, Until: now.Add(flowLifetime).Unix()}
}

// flowCookieFor gives the cookie of an attempt, without a value. Each has its own, so that tabs don't end each other's.
func (h *Handler) flowCookieFor(r *http.Request, tag string) *http.Cookie {
	cookie := h.sessionCookieFor(r)
	cookie.Name += "-sign-in-" + tag
	return cookie
}

// keepFlow gives an attempt to the browser. If that has too many they all go: nobody is at so many, and every request carries them.
func (h *Handler) keepFlow(c *call, flow keptFlow) error {
	r, prefix, kept := c.Request(), h.flowCookieFor(c.Request(), "").Name, 0
	for _, cookie := range r.Cookies() {
		if strings.HasPrefix(cookie.Name, prefix) {
			kept++
		}
	}
	for _, cookie := range r.Cookies() {
		if tag, found := strings.CutPrefix(cookie.Name, prefix); found && kept >= maxFlows {
			h.dropFlow(c, tag)
		}
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // It would make & six times as long.
	if err := encoder.Encode(flow); err != nil {
		return err
	}
	cookie := h.flowCookieFor(r, flow.State[:flowTagLetters])
	cookie.Value, cookie.MaxAge = base64.RawURLEncoding.EncodeToString(text.Bytes()), int(flowLifetime.Seconds())
	c.SetCookie(cookie)
	return nil
}

func (h *Handler) dropFlow(c *call, tag string) {
	cookie := h.flowCookieFor(c.Request(), tag)
	cookie.MaxAge = -1
	c.SetCookie(cookie)
}

// findFlow finds the attempt that an issuer's answer is about. It stays with the browser until the answer is used.
func (h *Handler) findFlow(c *call, state string) (flow keptFlow, ok bool) {
	if !flowState.MatchString(state) {
		return flow, false
	}
	cookies := c.Request().CookiesNamed(h.flowCookieFor(c.Request(), state[:flowTagLetters]).Name)
	if len(cookies) == 0 {
		return flow, false
	}
	text, err := base64.RawURLEncoding.DecodeString(cookies[0].Value)
	// Of two cookies nobody knows which one is the browser's own.
	if err != nil || len(cookies) > 1 || json.Unmarshal(text, &flow) != nil {
		return keptFlow{}, false
	}
	same := subtle.ConstantTimeCompare([]byte(flow.State), []byte(state)) == 1
	return flow, same && h.now().Unix() < flow.Until
}
