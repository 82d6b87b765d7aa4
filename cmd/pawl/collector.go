package main

import (
	"context"
	"crypto/rand"
	"log/slog"
	mathrand "math/rand/v2"
	"sync"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

// collector collects now and then as long as the server runs, when no other replica does so.
type collector struct {
	cancel  context.CancelFunc
	running sync.WaitGroup
}

func startCollector(ctx context.Context, service *publish.Service, metrics *web.Metrics, settings collectSettings, log *slog.Logger) *collector {
	ctx, cancel := context.WithCancel(ctx)
	c := &collector{cancel: cancel}
	if settings.off {
		return c
	}
	c.running.Go(func() {
		holder := rand.Text() // Names this process among the replicas.
		for pause(ctx, settings.interval*4/5+mathrand.N(settings.interval*2/5)) {
			report, _, err := service.CollectAlone(ctx, holder, publish.CollectOptions{Grace: settings.grace})
			metrics.Collected(report)
			if err != nil && ctx.Err() == nil {
				log.WarnContext(ctx, "collect_stopped", "error", err)
			}
		}
	})
	return c
}

// stop ends it and waits for it. What it had begun another one ends.
func (c *collector) stop() error {
	c.cancel()
	c.running.Wait()
	return nil
}
