package web

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawlhq/pawl/publish"
)

// eventMetrics tell how the event feed does.
type eventMetrics struct {
	numbered prometheus.Counter
	lag      prometheus.Gauge
	streams  prometheus.Gauge
}

func newEventMetrics(registry *prometheus.Registry) eventMetrics {
	m := eventMetrics{
		numbered: prometheus.NewCounter(prometheus.CounterOpts{Name: "pawl_events_numbered_total", Help: "Events that this replica has numbered."}),
		lag: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "pawl_events_lag_seconds",
			Help: "How long the oldest of the events that this replica numbered last had waited for it; 0 when none waited.",
		}),
		streams: prometheus.NewGauge(prometheus.GaugeOpts{Name: "pawl_event_streams", Help: "Event streams, and requests that wait for events, that are open now."}),
	}
	registry.MustRegister(m.numbered, m.lag, m.streams)
	return m
}

// Numbered counts events.
func (m *Metrics) Numbered(numbered publish.NumberedEvents) {
	m.events.numbered.Add(float64(numbered.Count))
	m.events.lag.Set(float64(numbered.WaitedMillis) / 1000)
}
