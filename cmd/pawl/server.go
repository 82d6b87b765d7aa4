package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/pawlhq/pawl/blobstore"
	"github.com/pawlhq/pawl/migrations"
	"github.com/pawlhq/pawl/pointer"
	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

// server is a running server with the stores that it owns.
type server struct {
	settings serverSettings
	handler  *web.Handler
	http     *http.Server
	listener net.Listener
	close    []func() error // in the order in which they are called
	failed   chan error     // gets what ended the serving, http.ErrServerClosed included
	refused  chan error     // gets why the blob store must not be used, when that is found out later
}

// startServer opens the stores and begins to serve. migrate says what to do about the schema: bring it up to date, or only check it.
func startServer(ctx context.Context, s serverSettings, migrate bool) (_ *server, err error) {
	srv := &server{settings: s, failed: make(chan error, 1), refused: make(chan error, 1)}
	defer func() {
		if err != nil {
			err = s.redacted(errors.Join(err, srv.closeStores()))
		}
	}()
	tlsConfig, err := srv.tlsConfig(ctx)
	if err != nil {
		return nil, err
	}
	pointers, err := pointer.Open(ctx, s.databaseURL, s.pointerOptions())
	if err != nil {
		return nil, configError{fmt.Errorf("PAWL_DATABASE_URL: %w", err)}
	}
	srv.close = append(srv.close, func() error { pointers.Close(); return nil })
	if err := prepareSchema(ctx, s.databaseURL, migrate); err != nil {
		return nil, err
	}
	if err := requireSynchronous(ctx, pointers, s.requireSynchronous); err != nil {
		return nil, err
	}
	blobs, err := blobstore.Open(ctx, s.blobs, s.store.options())
	if err != nil {
		return nil, configError{err}
	}
	srv.close = append(srv.close, blobs.Close)
	metrics := web.NewMetrics()
	gate := newStoreGate(blobs)
	history := &historyKeeper{PointerStore: pointers, store: pointers, blobs: gate, metrics: metrics, log: s.log}
	service := &publish.Service{Pointers: history, Blobs: gate, Log: s.log, Observer: metrics, Markers: s.markers, MaxFileBytes: s.limits.fileBytes()}
	service.Direct = gate.direct()
	storeOrigin := ""
	if s.store.reads == readsRedirect {
		if service.Reads, storeOrigin = gate.reads(); service.Reads == nil {
			return nil, configError{fmt.Errorf("PAWL_READS is %s, but the store is a folder; set PAWL_READS=%s", readsRedirect, readsStream)}
		}
	}
	service.Verification = s.store.verify
	srv.close = append(srv.close, func() error { service.Close(); return nil })
	options := web.Options{
		BasePath: s.basePath, CheckHost: s.checkHost(), Hosts: slices.Concat(s.hosts, s.originHosts()), StoreOrigin: storeOrigin, Metrics: metrics, Log: s.log,
		TrustedProxies: s.transport.proxies, Embed: s.transport.embed,
		EventHeartbeat: s.events.heartbeat, EventStreams: s.events.streams,
		BodyIdleTimeout: s.limits.idle, MaxJSONBytes: s.limits.json,
		Rate: s.limits.rate, RateBurst: int(s.limits.burst), Uploads: int(s.limits.uploads),
		Direct: s.limits.direct, Leases: s.limits.leases,
	}
	if options.ContentOrigin = s.transport.content; options.ContentOrigin != "" {
		if options.ContentKey, err = pointers.ContentKey(ctx); err != nil {
			return nil, err
		}
	}
	if s.auth.required {
		options.Authenticate, options.PublicRead = service.Authenticate, s.auth.public
		options.SessionLifetime, options.SessionIdle = s.auth.sessionLifetime, s.auth.sessionIdle
		if s.auth.tokens != nil {
			options.Verify = s.auth.tokens.Authenticate
			options.Origin, options.SignInIssuers = s.transport.origin, s.auth.signInIssuers()
		}
	}
	srv.handler, err = web.New(service, options)
	if err != nil {
		return nil, configError{fmt.Errorf("PAWL_BASE_PATH: %w", err)}
	}
	start := &storeStart{gate: gate, ids: pointers, own: s.ownFolder, origins: s.origins(), log: s.log}
	if err := srv.startStore(ctx, start); err != nil {
		return nil, err
	}
	history.handler = srv.handler
	history.start(ctx)
	srv.close = append(srv.close, history.stop)
	srv.close = append(srv.close, startEvents(ctx, service, metrics, s.events).stop)
	sweeper := startSweeper(ctx, service, metrics, s.sweep, s.log)
	srv.close = append(srv.close, sweeper.stop)
	collector := startCollector(ctx, service, metrics, s.collect, s.log)
	srv.close = append(srv.close, collector.stop)
	var listen net.ListenConfig
	srv.listener, err = listen.Listen(ctx, "tcp", s.listen)
	if err != nil {
		return nil, configError{fmt.Errorf("PAWL_LISTEN (or --listen): %w; choose a free address", err)}
	}
	srv.http = web.NewServer(srv.handler, s.log)
	srv.listener = s.limits.bound(srv.listener, srv.http)
	srv.http.TLSConfig = tlsConfig
	go func() { srv.failed <- srv.serveListener() }()
	s.auth.warnUnused(ctx, s.log)
	s.log.InfoContext(ctx, "server_started", "address", srv.listener.Addr().String(), "version", version(), "credentials_required", s.auth.required)
	return srv, nil
}

// prepareSchema applies the migrations, or refuses a schema that isn't this program's.
func prepareSchema(ctx context.Context, databaseURL string, migrate bool) error {
	var err error
	if migrate {
		err = migrations.Up(ctx, databaseURL)
	} else {
		err = migrations.Check(ctx, databaseURL)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, migrations.ErrOutdated), errors.Is(err, migrations.ErrNewer), errors.Is(err, migrations.ErrOwner):
		return configError{fmt.Errorf("PAWL_DATABASE_URL: %w", err)}
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return publish.Unavailable("Postgres (PAWL_DATABASE_URL)", err)
}

// url is where the server is reached from this machine.
func (srv *server) url() string {
	return srv.settings.transport.scheme() + "://" + srv.listener.Addr().String() + srv.settings.basePath
}

// serve serves until ctx ends or failed tells that something the server lives on has ended. Then it stops everything: readiness
// first, so that balancers send no new requests, then the requests, then the stores.
func (srv *server) serve(ctx context.Context, failed <-chan error) error {
	var err error
	select {
	case <-ctx.Done():
		srv.settings.log.InfoContext(ctx, "server_stopping", "cause", context.Cause(ctx).Error())
	case err = <-srv.failed:
		err = ioError{fmt.Errorf("serving: %w", err)}
	case err = <-srv.refused:
		err = srv.settings.redacted(err)
	case err = <-failed:
	}
	return errors.Join(err, srv.stop(context.WithoutCancel(ctx), err == nil))
}

// stop stops everything. Running requests may end in peace when gently is set.
func (srv *server) stop(ctx context.Context, gently bool) error {
	srv.handler.Drain()
	if gently && srv.settings.drain > 0 {
		time.Sleep(srv.settings.drain)
	}
	grace := srv.settings.grace
	if !gently {
		grace = 0
	}
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	if err := srv.http.Shutdown(ctx); err != nil {
		// What runs still is cut off: an upload leaves a pending row and at most an object that no manifest names, a
		// publish is replayed when it is repeated.
		srv.settings.log.WarnContext(ctx, "requests_cut_off", "grace", grace.String())
		_ = srv.http.Close() //nolint:errcheck // The listener is closed already.
	}
	return srv.closeStores()
}

// closeStores closes the stores in the reverse order of their opening.
func (srv *server) closeStores() error {
	var errs []error
	for i := len(srv.close) - 1; i >= 0; i-- {
		errs = append(errs, srv.close[i]())
	}
	return errors.Join(errs...)
}
