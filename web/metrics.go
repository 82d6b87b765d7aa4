package web

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/pawlhq/pawl/publish"
)

// Metrics counts what happens, for Prometheus. It is the publish.Observer of a service. Its labels are of few values each: a key or a
// holder is never one.
type Metrics struct {
	registry        *prometheus.Registry
	grants          prometheus.Counter
	uploads         prometheus.Counter
	uploadBytes     prometheus.Counter
	uploadsInFlight prometheus.Gauge
	publishes       *prometheus.CounterVec
	fenceRejections *prometheus.CounterVec
	tokensLow       prometheus.Counter
	retryLoops      prometheus.Counter
	refusals        *prometheus.CounterVec
	requests        *prometheus.HistogramVec
	inFlight        prometheus.Gauge
	rateLimited     prometheus.Counter
	sweep           sweepMetrics
	collect         collectMetrics
	epoch           prometheus.Gauge
	events          eventMetrics
}

var _ publish.Observer = (*Metrics)(nil)

// NewMetrics makes the counters in a registry of their own, with those of the Go runtime and the process.
func NewMetrics() *Metrics {
	counter := func(name, help string) prometheus.CounterOpts { return prometheus.CounterOpts{Name: name, Help: help} }
	m := &Metrics{
		registry:    prometheus.NewRegistry(),
		grants:      prometheus.NewCounter(counter("pawl_grants_total", "Leases granted, repeats of a request not counted.")),
		uploads:     prometheus.NewCounter(counter("pawl_uploads_total", "Uploads stored and registered.")),
		uploadBytes: prometheus.NewCounter(counter("pawl_upload_bytes_total", "Bytes of uploads stored and registered.")),
		uploadsInFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "pawl_uploads_in_flight",
			Help: "Uploads that are being received now.",
		}),
		publishes: prometheus.NewCounterVec(counter("pawl_publishes_total", "Publishes accepted, and repeats answered with their receipt."), []string{"outcome"}),
		fenceRejections: prometheus.NewCounterVec(counter("pawl_fence_rejections_total",
			"Requests under a stale token, refused. Expected: it is what the fence is for."), []string{"operation"}),
		tokensLow: prometheus.NewCounter(counter("pawl_tokens_running_out_total",
			"Grants of keys that have used up nine tenths of their tokens. The log names the keys: move to others.")),
		retryLoops: prometheus.NewCounter(counter("pawl_retry_loops_total", "Stale requests that were repeated until they counted as a retry loop.")),
		refusals:   prometheus.NewCounterVec(counter("pawl_refusals_total", "Refusals and failures of the pointer store, by code."), []string{"code"}),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "pawl_http_request_duration_seconds",
			Help:    "Time from the head of a request to the end of its answer, by route template.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800},
		},
			[]string{"route", "method", "status"}),
		rateLimited: prometheus.NewCounter(counter("pawl_rate_limited_total", "Requests refused because their caller sent too many, by PAWL_LIMIT_RATE.")),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "pawl_http_requests_in_flight",
			Help: "Requests that are being answered now, those that wait for a lease or a version included.",
		}),
	}
	for _, outcome := range []string{"published", "replayed"} {
		m.publishes.WithLabelValues(outcome)
	}
	for _, operation := range []string{publish.OperationUpload, publish.OperationDelete, publish.OperationPublish, publish.OperationEffect} {
		m.fenceRejections.WithLabelValues(operation)
	}
	m.registry.MustRegister(m.grants, m.uploads, m.uploadBytes, m.uploadsInFlight, m.publishes, m.fenceRejections, m.tokensLow, m.retryLoops,
		m.refusals, m.requests, m.inFlight, m.rateLimited, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.sweep = newSweepMetrics(m.registry)
	m.collect = newCollectMetrics(m.registry)
	m.epoch = newEpochMetric(m.registry)
	m.events = newEventMetrics(m.registry)
	return m
}

// Granted counts a grant.
func (m *Metrics) Granted(lease publish.Lease) {
	if !lease.Replayed {
		m.grants.Inc()
	}
	if lease.TokensLeft > 0 {
		m.tokensLow.Inc()
	}
}

// Uploaded counts a stored upload.
func (m *Metrics) Uploaded(result publish.UploadResult) {
	m.uploads.Inc()
	m.uploadBytes.Add(float64(result.Size))
}

// Published counts a publish.
func (m *Metrics) Published(receipt publish.Receipt) {
	outcome := "published"
	if receipt.Replayed {
		outcome = "replayed"
	}
	m.publishes.WithLabelValues(outcome).Inc()
}

// Refused counts a refusal. Only a stale token is a rejection of the fence.
func (m *Metrics) Refused(refusal *publish.Error) {
	m.refusals.WithLabelValues(string(refusal.Code)).Inc()
	if refusal.Code != publish.ErrStaleToken {
		return
	}
	m.fenceRejections.WithLabelValues(refusal.Operation).Inc()
	if refusal.Repeat == publish.RetryLoopAt {
		m.retryLoops.Inc()
	}
}

// request measures one HTTP request. Methods are the client's to invent, so unknown ones share a label.
func (m *Metrics) request(route, method string, status int, took time.Duration) {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
	default:
		method = "other"
	}
	m.requests.WithLabelValues(route, method, strconv.Itoa(status)).Observe(took.Seconds())
}

// showMetrics serves the counters to Prometheus.
func (h *Handler) showMetrics(c *call) error {
	promhttp.HandlerFor(h.metrics.registry, promhttp.HandlerOpts{}).ServeHTTP(c.Response(), c.Request())
	return nil
}
