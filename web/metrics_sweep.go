package web

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawlhq/pawl/publish"
)

// sweepMetrics count what sweeps do.
type sweepMetrics struct {
	condemned prometheus.Counter
	discarded prometheus.Counter
	errors    prometheus.Counter
	left      prometheus.Gauge
}

func newSweepMetrics(registry *prometheus.Registry) sweepMetrics {
	m := sweepMetrics{
		condemned: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pawl_sweep_failed_uploads_total",
			Help: "Uploads marked as failed because their client or server was gone.",
		}),
		discarded: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pawl_sweep_discarded_total",
			Help: "Uploads that don't count of which everything was removed from the blob store.",
		}),
		errors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pawl_sweep_errors_total",
			Help: "Removals that failed; they are tried again.",
		}),
		left: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "pawl_sweep_errors",
			Help: "Removals that failed in the last sweep of this server.",
		}),
	}
	registry.MustRegister(m.condemned, m.discarded, m.errors, m.left)
	return m
}

// Swept counts a sweep.
func (m *Metrics) Swept(report publish.SweepReport) {
	m.sweep.condemned.Add(float64(report.Failed))
	m.sweep.discarded.Add(float64(report.Discarded))
	m.sweep.errors.Add(float64(report.Errors))
	m.sweep.left.Set(float64(report.Errors))
}
