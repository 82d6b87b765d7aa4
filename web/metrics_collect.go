package web

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawlhq/pawl/publish"
)

// collectMetrics count what collections do.
type collectMetrics struct {
	condemned, collected, objects, bytes, aborted, errors prometheus.Counter
}

func newCollectMetrics(registry *prometheus.Registry) collectMetrics {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		registry.MustRegister(c)
		return c
	}
	return collectMetrics{
		condemned: counter("pawl_collect_condemned_total", "Generations given up by policy."),
		collected: counter("pawl_collect_collected_total", "Generations, given up, of which everything was deleted that no other one references; some are looked at more than once."),
		objects:   counter("pawl_collect_objects_total", "Objects of collected generations that were deleted."),
		bytes:     counter("pawl_collect_bytes_total", "Bytes of objects of collected generations that were deleted."),
		aborted:   counter("pawl_collect_aborted_total", "Unfinished uploads of collected generations that were removed."),
		errors:    counter("pawl_collect_errors_total", "Deletions that failed; they are tried again."),
	}
}

// Collected counts a collection.
func (m *Metrics) Collected(report publish.CollectReport) {
	m.collect.condemned.Add(float64(report.Condemned))
	m.collect.collected.Add(float64(report.Collected))
	m.collect.objects.Add(float64(report.Objects))
	m.collect.bytes.Add(float64(report.Bytes))
	m.collect.aborted.Add(float64(report.Aborted))
	m.collect.errors.Add(float64(report.Errors))
}
