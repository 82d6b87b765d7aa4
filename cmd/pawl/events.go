package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

// maxEventStreams bounds the setting: each stream is a connection.
const maxEventStreams = 100_000

// eventSettings say how events are numbered, kept and streamed.
type eventSettings struct {
	publish.EventsOptions
	heartbeat time.Duration
	streams   int
}

func (a *app) eventSettings() (s eventSettings, err error) {
	if s.Keep, err = a.atLeast("PAWL_EVENTS_KEEP", time.Second, publish.DefaultEventsKeep); err != nil {
		return s, err
	}
	if s.Poll, err = a.atLeast("PAWL_EVENTS_POLL", 10*time.Millisecond, publish.DefaultEventsPoll); err != nil {
		return s, err
	}
	if s.heartbeat, err = a.atLeast("PAWL_EVENTS_HEARTBEAT", 100*time.Millisecond, web.DefaultEventHeartbeat); err != nil {
		return s, err
	}
	s.streams = web.DefaultEventStreams
	if text := a.getenv("PAWL_EVENTS_STREAMS"); text != "" {
		if s.streams, err = strconv.Atoi(text); err != nil || s.streams < 1 || s.streams > maxEventStreams {
			return s, configError{fmt.Errorf("PAWL_EVENTS_STREAMS is %q; set it to a number from 1 to %d", text, maxEventStreams)}
		}
	}
	return s, nil
}

// atLeast reads a setting that is a duration.
func (a *app) atLeast(name string, least, standard time.Duration) (time.Duration, error) {
	text := a.getenv(name)
	if text == "" {
		return standard, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, configError{fmt.Errorf("%s is %q, which is no duration; write numbers with the units ms, s, m and h, such as %q, of at least %s", name, text, standard, least)}
	}
	if d < least {
		return 0, configError{fmt.Errorf("%s is %q; set it to a duration of at least %s, such as %q", name, text, least, standard)}
	}
	return d, nil
}

// feeder runs the event feed as long as the server runs.
type feeder struct {
	cancel  context.CancelFunc
	running sync.WaitGroup
}

func startEvents(ctx context.Context, service *publish.Service, metrics *web.Metrics, settings eventSettings) *feeder {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // Requests go on for a while when the server is told to stop.
	f := &feeder{cancel: cancel}
	settings.Numbered = metrics.Numbered
	f.running.Go(func() { service.RunEvents(ctx, settings.EventsOptions) })
	return f
}

// stop ends it and waits for it. What isn't numbered yet another replica numbers, or this one at its next start.
func (f *feeder) stop() error {
	f.cancel()
	f.running.Wait()
	return nil
}
