package web

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawlhq/pawl/publish"
)

// SetEpoch tells which epoch of the database's history is in force; /readyz and the pages say so.
func (h *Handler) SetEpoch(epoch publish.Epoch) { h.epoch.Store(&epoch) }

// newEpochMetric makes the gauge of the epoch. Its reason is a text and no label.
func newEpochMetric(registry *prometheus.Registry) prometheus.Gauge {
	gauge := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "pawl_epoch",
		Help: "The epoch in force, 0 for the first. It is raised when the database has lost a part of its history; /readyz and the log tell why.",
	})
	registry.MustRegister(gauge)
	return gauge
}

// Epoch shows the epoch in force.
func (m *Metrics) Epoch(epoch publish.Epoch) { m.epoch.Set(float64(epoch.Epoch)) }
