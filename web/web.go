// Package web serves Pawl over HTTP: the REST API, the page of current pointers, and what operators watch.
//
// A handler parses its request, calls one method of publish.Service and answers. It returns its error; one place
// (problem.go) writes every error. The files read as the way of a request: routes.go finds the handler, name.go
// the key, and one file a noun answers: lease.go, upload.go, publish.go, effect.go, file.go, archive.go, pointer.go, current.go, browse.go, operator.go, page.go.
package web

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/pawlhq/pawl/publish"
)

// Defaults of Options.
const (
	DefaultBodyIdleTimeout = 30 * time.Second
	DefaultReadyTimeout    = 2 * time.Second
)

// Options are the settings of a Handler. The zero value serves at the root of a host.
type Options struct {
	// BasePath is where a proxy serves Pawl, e.g. "/pawl": it begins every generated URL. Requests are served with it
	// and, for proxies that strip it, without it.
	BasePath string
	// CheckHost refuses every request whose Host is neither this machine's own (localhost, 127.0.0.0/8, ::1) nor one of Hosts,
	// whatever its port. Set it where a browser on this machine can reach a server that asks for no credential.
	CheckHost bool
	// Hosts are the further names that CheckHost lets pass, as ParseHosts gives them.
	Hosts []string
	// TrustedProxies are the addresses whose X-Forwarded-For and X-Forwarded-Proto are believed, as ParseProxies gives them.
	TrustedProxies []netip.Prefix
	// Embed says the pages of which sites may show files, as ParseEmbed gives it; "" is EmbedSameOrigin.
	Embed Embed
	// StoreOrigin is the origin of the store that Service.Reads sends readers to, such as https://s3.example: pages may show files from
	// there too. "" is for files that this server streams.
	StoreOrigin string
	// ContentOrigin is an origin of its own, as ParseContentOrigin gives it, where files are shown that may run script: requests for its host get those alone. "" is
	// for none. ContentKey signs its addresses: at least 32 secret bytes, the same for all replicas.
	ContentOrigin string
	ContentKey    []byte
	// Metrics is where requests are counted and what /metrics shows. Give the same one to Service.Observer. nil means a new one.
	Metrics *Metrics
	// Log gets one line a request; nil means slog.Default().
	Log *slog.Logger
	// BodyIdleTimeout is how long a request's body may stay without a single new byte.
	BodyIdleTimeout time.Duration
	// MaxJSONBytes lowers how large a JSON body may be, in bytes; 0 leaves it at what each call has of its own, 16 MiB at most.
	MaxJSONBytes int64
	// Rate is how many requests a second one caller may send on average, RateBurst how many at once; 0 is no limit, and twice the rate.
	Rate      float64
	RateBurst int
	// Uploads bounds how many uploads of one caller are under way through this server at once; 0 is no limit.
	Uploads int
	// Direct bounds how many direct uploads one credential, or identity of another issuer, has open at once; 0 is no limit.
	Direct int64
	// Leases bounds how many leases one credential, or identity of another issuer, holds open at once; 0 is no limit.
	Leases int64
	// ReadyTimeout bounds the checks of /readyz.
	ReadyTimeout time.Duration
	// EventHeartbeat is how long an event stream may be silent; 0 means DefaultEventHeartbeat.
	EventHeartbeat time.Duration
	// Authenticate finds out who calls. nil asks nobody for a credential: then everybody may do everything.
	Authenticate Authenticate
	// Verify finds out who shows a token of another issuer, where Authenticate is set too; nil accepts none.
	Verify Verify
	// PublicRead is the keys that anybody may read without a credential, where others are asked for one.
	PublicRead publish.Reach
	// SignInIssuers are the issuers by which people sign in on the pages, where Authenticate is set too. It takes an Origin.
	SignInIssuers []SignInIssuer
	// Origin is where browsers reach the pages, as ParseOrigin gives it; "" where nobody has said so.
	Origin string
	// Recheck is how long a request may last before its credential is looked at again; 0 means DefaultRecheck.
	Recheck time.Duration
	// SessionLifetime is how long people stay signed in on the pages at most, SessionIdle how long without a use; 0 is publish.DefaultSessionLifetime and
	// publish.DefaultSessionIdle.
	SessionLifetime, SessionIdle time.Duration
	// EventStreams bounds how many event streams, and requests that wait for events, are open at once; 0 means DefaultEventStreams.
	EventStreams int
}

// Handler answers all of Pawl's HTTP requests. It keeps no state but its counters, and what it may forget, so any number of replicas may run.
type Handler struct {
	service  *publish.Service
	links    links
	metrics  *Metrics
	log      *slog.Logger
	echo     *echo.Echo
	hosts    []string
	proxies  []netip.Prefix
	embed    Embed
	content  *contentOrigin // nil for none
	sources  string         // where pages may show files from; see fileSources
	keyed    []keyRoute
	idle     time.Duration
	ready    time.Duration
	now      func() time.Time
	draining atomic.Bool
	drained  context.Context // ends with Drain
	drain    context.CancelFunc

	maxJSON   int64
	rate      *rateLimit // nil for none
	uploads   openUploads
	maxLeases int64
	maxDirect int64
	marking   chan struct{} // has room for the uploads that are marked as turned away at a time

	// comparing has room for the one line diff that may be made at a time: it is all work of the processor, which publishes need too.
	comparing chan struct{}

	heartbeat   time.Duration
	maxStreams  int
	openStreams atomic.Int64
	streamWrite time.Duration

	epoch atomic.Pointer[publish.Epoch] // nil until it is known

	checkHost bool

	authenticate Authenticate
	verify       Verify
	public       publish.Reach
	recheck      time.Duration

	sessionLifetime, sessionIdle time.Duration

	signIns       *signInLimit
	signInIssuers []SignInIssuer
	origin        string // "" for none
}

// legalBasePath allows what needs no escape in a URL, so that the path can be compared as it stands.
var legalBasePath = regexp.MustCompile(`^(/[A-Za-z0-9._~-]+)+$`)

// legalOrigin allows nothing that would end a source, or a directive, of a Content-Security-Policy.
var legalOrigin = regexp.MustCompile(`^https?://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]+)?$`)

// New makes the Handler of a service.
func New(service *publish.Service, opts Options) (*Handler, error) {
	base := strings.TrimRight(opts.BasePath, "/")
	if base != "" && !legalBasePath.MatchString(base) {
		return nil, fmt.Errorf("base path %q: must look like /pawl: a slash, then letters, digits and . _ ~ - between slashes", opts.BasePath)
	}
	if opts.StoreOrigin != "" && !legalOrigin.MatchString(opts.StoreOrigin) {
		return nil, fmt.Errorf("origin of the store %q: must look like https://host:port", opts.StoreOrigin)
	}
	h := &Handler{
		service: service, links: links{base: base}, metrics: opts.Metrics, log: opts.Log,
		idle: opts.BodyIdleTimeout, ready: opts.ReadyTimeout, now: time.Now,
		checkHost: opts.CheckHost, hosts: opts.Hosts, proxies: opts.TrustedProxies,
		embed: cmp.Or(opts.Embed, EmbedSameOrigin), sources: fileSources(opts.StoreOrigin),
		heartbeat: cmp.Or(opts.EventHeartbeat, DefaultEventHeartbeat), maxStreams: cmp.Or(opts.EventStreams, DefaultEventStreams),
	}
	h.verify = opts.Verify
	h.authenticate, h.public, h.recheck = opts.Authenticate, opts.PublicRead, cmp.Or(opts.Recheck, DefaultRecheck)
	h.sessionLifetime, h.sessionIdle, h.signIns = opts.SessionLifetime, opts.SessionIdle, newSignInLimit()
	h.streamWrite = streamWriteTimeout
	h.comparing = make(chan struct{}, 1)
	h.maxJSON = opts.MaxJSONBytes
	h.rate, h.uploads.most = newRateLimit(opts.Rate, opts.RateBurst), opts.Uploads
	h.maxLeases, h.maxDirect = opts.Leases, opts.Direct
	h.marking = make(chan struct{}, markedAtOnce)
	h.drained, h.drain = context.WithCancel(context.Background())
	if h.metrics == nil {
		h.metrics = NewMetrics()
	}
	if h.log == nil {
		h.log = slog.Default()
	}
	if h.idle == 0 {
		h.idle = DefaultBodyIdleTimeout
	}
	if h.ready == 0 {
		h.ready = DefaultReadyTimeout
	}
	h.echo = echo.New()
	h.echo.HTTPErrorHandler = h.writeError
	h.echo.Use(h.accountFor, h.limitBody, h.recoverPanics, h.limitRate, h.refuseForeignHosts, refuseForeignOrigins)
	h.register(routes())
	err := h.setSignIns(opts)
	if err != nil {
		return nil, err
	}
	if h.content, err = h.newContentOrigin(opts); err != nil {
		return nil, err
	}
	return h, nil
}

// ServeHTTP takes the base path off and hands the request to its route, or to the content origin.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.content.answers(r) {
		h.content.echo.ServeHTTP(w, r.WithContext(h.strange(r)))
		return
	}
	rest, found := strings.CutPrefix(wirePath(r.URL), h.links.base)
	if h.links.base != "" && found && (rest == "" || rest[0] == '/') {
		if rest == "" {
			rest = "/"
		}
		stripped, target := *r, *r.URL
		if path, err := url.PathUnescape(rest); err == nil {
			target.Path, target.RawPath = path, rest
			stripped.URL = &target
			r = &stripped
		}
	}
	r = r.WithContext(h.strange(r))
	h.echo.ServeHTTP(w, r)
}

// strange is the context of a request of which nothing is known but where it comes from.
func (h *Handler) strange(r *http.Request) context.Context {
	return publish.WithCaller(publish.WithClient(r.Context(), h.clientAddress(r)), publish.Caller{})
}

// Drain makes /readyz say that this replica is about to stop, so that a balancer sends it no new requests, and ends event streams.
func (h *Handler) Drain() {
	h.draining.Store(true)
	h.drain()
}

// NewServer makes the HTTP server of a handler, with limits for what comes before a body. Bodies have no limit of
// time in all: a large file over a slow line takes hours. A body that stands still is ended by Options.BodyIdleTimeout.
func NewServer(handler http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}
