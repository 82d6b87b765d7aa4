package main

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

const (
	defaultSweepInterval = 10 * time.Minute
	// leastSweepTime bounds the settings: below it, live uploads could be taken for dead on a busy machine.
	leastSweepTime = time.Second
)

// sweepSettings say how what uploads left is removed.
type sweepSettings struct {
	publish.SweepOptions
	interval time.Duration
}

func (a *app) sweepSettings() (s sweepSettings, err error) {
	if s.Grace, err = a.sweepTime("PAWL_SWEEP_GRACE", publish.DefaultSweepGrace); err != nil {
		return s, err
	}
	s.interval, err = a.sweepTime("PAWL_SWEEP_INTERVAL", defaultSweepInterval)
	return s, err
}

func (a *app) sweepTime(name string, standard time.Duration) (time.Duration, error) {
	return a.atLeast(name, leastSweepTime, standard)
}

// sweeper removes what uploads left as long as the server runs, and tells the database which uploads of this server are alive. Every
// replica has one. They don't know of each other: two that sweep the same do it twice, which is harmless.
type sweeper struct {
	service  *publish.Service
	metrics  *web.Metrics
	settings sweepSettings
	log      *slog.Logger
	cancel   context.CancelFunc
	running  sync.WaitGroup
}

func startSweeper(ctx context.Context, service *publish.Service, metrics *web.Metrics, settings sweepSettings, log *slog.Logger) *sweeper {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // Uploads go on for a while when the server is told to stop.
	w := &sweeper{service: service, metrics: metrics, settings: settings, log: log, cancel: cancel}
	w.running.Go(func() { w.keep(ctx) })
	w.running.Go(func() { w.sweep(ctx) })
	return w
}

// stop ends it and waits for it.
func (w *sweeper) stop() error {
	w.cancel()
	w.running.Wait()
	return nil
}

// keep keeps this server's uploads alive. While that fails it is logged once.
func (w *sweeper) keep(ctx context.Context) {
	failing := false
	for {
		err := w.service.KeepUploads(ctx, w.settings.SweepOptions)
		if err != nil && !failing && ctx.Err() == nil {
			w.log.WarnContext(ctx, "uploads_not_kept", "error", err)
		}
		failing = err != nil
		if !pause(ctx, w.settings.KeepEvery()) {
			return
		}
	}
}

// sweep sweeps at every interval, give or take a fifth, so that replicas drift apart; at once again while there is more.
func (w *sweeper) sweep(ctx context.Context) {
	more := false
	for {
		wait := time.Duration(0)
		if !more {
			wait = w.settings.interval*4/5 + rand.N(w.settings.interval*2/5)
		}
		if !pause(ctx, wait) {
			return
		}
		report, err := w.service.Sweep(ctx, w.settings.SweepOptions)
		w.metrics.Swept(report)
		if err != nil && ctx.Err() == nil {
			w.log.WarnContext(ctx, "sweep_stopped", "error", err)
		}
		more = err == nil && report.More
	}
}

// pause waits, and reports whether ctx goes on.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
