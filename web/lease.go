package web

import (
	"math"
	"net/http"
	"net/url"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// defaultTTL is the time of a lease whose request names none.
const defaultTTL = 30 * time.Second

// acquire grants the key.
func (h *Handler) acquire(c *call) error {
	if _, err := c.query(); err != nil {
		return err
	}
	req := publish.AcquireRequest{Key: c.key, TTL: defaultTTL, MaxLeases: h.maxLeases}
	err := readJSON(c, members{"holder": &req.Holder, "ttl": &req.TTL, "wait": &req.Wait, "labels": &req.Labels, "lease_id": &req.LeaseID})
	if err != nil {
		return err
	}
	lease, err := h.service.Acquire(c.Request().Context(), req)
	if err != nil {
		return err
	}
	return respond(c, http.StatusCreated, lease)
}

// showLease tells who holds the key. It never tells the lease id, whatever the store gave.
func (h *Handler) showLease(c *call) error {
	if _, err := c.query(); err != nil {
		return err
	}
	lease, err := h.service.Lease(c.Request().Context(), c.key)
	if err != nil {
		return err
	}
	lease.LeaseID = publish.LeaseID{}
	return respond(c, http.StatusOK, lease)
}

// renew extends the lease.
func (h *Handler) renew(c *call) error {
	grant, err := c.grant()
	if err != nil {
		return err
	}
	if _, err := c.query(); err != nil {
		return err
	}
	const absent = time.Duration(math.MinInt64)
	ttl := absent
	if err := readJSON(c, members{"ttl": &ttl}); err != nil {
		return err
	}
	switch ttl {
	case absent:
		ttl = 0 // keeps the lease's own
	case 0:
		return publish.InvalidField(publish.ErrInvalidRequest, "/ttl", "must not be 0s; leave it out to keep the lease's own")
	}
	lease, err := h.service.Renew(c.Request().Context(), grant.Key, grant.LeaseID, ttl)
	if err != nil {
		return err
	}
	return respond(c, http.StatusOK, lease)
}

// endLease gives the lease back, or breaks it where an operator asks for that.
func (h *Handler) endLease(c *call) error {
	query, err := c.query("break", "token", "reason")
	if err != nil {
		return err
	}
	breaking, err := flagOf(query, "break")
	switch {
	case err != nil:
		return err
	case breaking:
		return h.breakLease(c, query)
	case query.Has("token") || query.Has("reason"):
		return publish.InvalidField(publish.ErrInvalidRequest, "break", "must be true where token and reason are given: they break the lease of somebody else; to give your own back leave them out")
	}
	return h.release(c)
}

// breakLease ends the lease of the grant that the query names, without its holder. Repeating it is no error.
func (h *Handler) breakLease(c *call, query url.Values) error {
	if err := c.require(publish.VerbOperate, c.key); err != nil {
		return err
	}
	req := publish.BreakLeaseRequest{Key: c.key, Reason: query.Get("reason")}
	var err error
	if req.By, _, err = c.operator(); err != nil {
		return err
	}
	if req.Token, err = publish.ParseToken(query.Get("token")); err != nil {
		return publish.InvalidField(publish.ErrInvalidToken, "token", "must be the token of the grant whose lease is to end, such as 41")
	}
	broken, err := h.service.BreakLease(c.Request().Context(), req)
	if err != nil {
		return err
	}
	return respond(c, http.StatusOK, broken)
}

// release gives the lease back. Repeating it is no error.
func (h *Handler) release(c *call) error {
	grant, err := c.grant()
	if err != nil {
		return err
	}
	if err := h.service.Release(c.Request().Context(), grant.Key, grant.LeaseID); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}
