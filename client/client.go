package client

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// Defaults of Options.
const (
	DefaultRetryFor   = 15 * time.Second
	DefaultRetryPause = 100 * time.Millisecond
	DefaultTimeout    = 30 * time.Second
)

// Options says how to reach a server. The zero value is good for most uses.
type Options struct {
	// Credential is sent as a bearer token, when there is one.
	Credential string
	// CredentialFile names a file that holds the credential instead. It is read for each request, so one that was replaced (by a rename, lest half of it
	// be sent) is used from then on.
	CredentialFile string
	// RetryFor is how long after its start a call may begin a repetition; 0 means DefaultRetryFor, negative
	// means never. A call ends at the latest one Timeout later.
	RetryFor time.Duration
	// RetryPause is the first pause between repetitions at most. Pauses are drawn at random (full jitter) below a bound that
	// doubles each time, up to 5 s; 0 means DefaultRetryPause.
	RetryPause time.Duration
	// Timeout bounds one request and its answer, apart from the body of an upload or download and from the time that
	// the server was asked to wait; 0 means DefaultTimeout.
	Timeout time.Duration
	// Transport carries the requests; nil means one made by NewTransport.
	Transport http.RoundTripper
	// UserAgent is sent with every request; "" means "pawl-go".
	UserAgent string
	// Log hears of repetitions and renewals, at debug and warn level; nil discards them.
	Log *slog.Logger
}

// Client talks to one server. Its methods may be called from many goroutines at once.
type Client struct {
	base string // without a trailing slash
	http *http.Client
	// straight follows no redirect: what may lead to the blob store is followed step by step, and signed requests to it go nowhere else.
	straight   *http.Client
	noWay      atomic.Bool // the blob store was found to be out of reach
	credential *credential
	userAgent  string
	retry      retryPolicy
	timeout    time.Duration
	log        *slog.Logger
	clock      clock // that leases are timed by
}

// New makes a client of the server at baseURL, e.g. "http://127.0.0.1:8484" or "https://pawl.example/base".
func New(baseURL string, opts Options) (*Client, error) {
	u, err := url.Parse(baseURL)
	switch {
	case err != nil:
		return nil, fmt.Errorf("server address: %w", err)
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, fmt.Errorf("server address %q: must look like http://127.0.0.1:8484", u.Redacted())
	case u.User != nil:
		return nil, fmt.Errorf("server address %q: must not hold a user or password; a credential has its own setting", u.Redacted())
	case u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("server address %q: must not hold a query or fragment", u.Redacted())
	}
	credential, err := newCredential(opts.Credential, opts.CredentialFile)
	if err != nil {
		return nil, err
	}
	transport := opts.Transport
	if transport == nil {
		transport = NewTransport()
	}
	log := opts.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	retryFor := cmp.Or(opts.RetryFor, DefaultRetryFor)
	return &Client{
		base: strings.TrimRight(u.String(), "/"),
		http: &http.Client{Transport: transport, CheckRedirect: checkRedirect},
		straight: &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		}},
		credential: credential,
		userAgent:  cmp.Or(opts.UserAgent, "pawl-go"),
		retry:      retryPolicy{within: max(retryFor, 0), pause: cmp.Or(opts.RetryPause, DefaultRetryPause)},
		timeout:    cmp.Or(opts.Timeout, DefaultTimeout),
		log:        log,
		clock:      newClock(),
	}, nil
}

// NewTransport makes a transport that suits uploads: it waits for the server's word before it sends a body.
func NewTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: 5 * time.Second, KeepAlive: 10 * time.Second}
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         dialer.DialContext,
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: 64, // as many transfers side by side as the command line allows
		IdleConnTimeout:     60 * time.Second,
		TLSHandshakeTimeout: 10 * time.Second,
		// A stale upload is refused within this time, before its body is sent. A proxy that swallows the
		// expectation costs this much for each upload.
		ExpectContinueTimeout: 3 * time.Second,
	}
}

// String names the server, and no secret.
func (c *Client) String() string { return "Pawl client of " + c.base }

// GoString is String, so that %#v shows no secret either.
func (c *Client) GoString() string { return c.String() }

// URL is the address that the client was made for, without a trailing slash.
func (c *Client) URL() string { return c.base }

// Close gives back idle connections. Calls that run go on.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// checkRedirect follows what a read is sent on to, e.g. the blob store, but takes no secret to another host: net/http
// drops Authorization there by itself and doesn't know Pawl-Lease. A changing call is never sent elsewhere.
func checkRedirect(next *http.Request, via []*http.Request) error {
	first := via[0]
	if first.Method != http.MethodGet && first.Method != http.MethodHead || len(via) >= 5 {
		return http.ErrUseLastResponse
	}
	if next.URL.Host != first.URL.Host || next.URL.Scheme != first.URL.Scheme {
		next.Header.Del(headerLease)
		next.Header.Del("Authorization")
	}
	return nil
}
