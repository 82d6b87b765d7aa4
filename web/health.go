package web

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/pawlhq/pawl/publish"
)

// livez says that the process answers. It checks nothing else: a restart heals no store.
func (h *Handler) livez(c *call) error {
	return respond(c, http.StatusOK, map[string]string{"status": "ok"})
}

// readyz says whether this replica can serve: both stores answer in time and it isn't about to stop.
func (h *Handler) readyz(c *call) error {
	if h.draining.Load() {
		return &publish.Error{Code: publish.ErrUnavailable, Detail: "this replica is about to stop; ask another one"}
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), h.ready)
	defer cancel()
	parts := []struct {
		name  string
		check func(context.Context) error
	}{{"the pointer store (Postgres)", h.service.Pointers.Check}, {"the blob store", h.service.Blobs.Check}}

	results := make([]chan error, len(parts))
	for i, part := range parts {
		results[i] = make(chan error, 1)
		go func() { results[i] <- part.check(ctx) }()
	}
	var down []string
	var causes []error
	for i, part := range parts {
		if err := <-results[i]; err != nil {
			down, causes = append(down, part.name), append(causes, err)
		}
	}
	if down != nil {
		return publish.Unavailable(strings.Join(down, " and "), errors.Join(causes...))
	}
	return respond(c, http.StatusOK, readiness{Status: "ready", Epoch: h.epoch.Load()})
}

// readiness is the answer of a replica that can serve. Epoch is the history of the database that it knows of.
type readiness struct {
	Status string         `json:"status"`
	Epoch  *publish.Epoch `json:"epoch,omitempty"`
}
