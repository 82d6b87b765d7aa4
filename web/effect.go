package web

import (
	"net/http"

	"github.com/pawlhq/pawl/publish"
)

// effect gives the idempotency key of an effect, and records that the grant asked for it or says that it is done.
func (h *Handler) effect(c *call) error {
	grant, err := c.grant()
	if err != nil {
		return err
	}
	if _, err := c.query(); err != nil {
		return err
	}
	req := publish.EffectRequest{Grant: grant, Name: c.effect, State: publish.EffectPending}
	if err := readJSON(c, members{"state": &req.State, "result": &req.Result}); err != nil {
		return err
	}
	effect, err := h.service.Effect(c.Request().Context(), req)
	if err != nil {
		return err
	}
	setSuperseded(c, effect.SupersededBy)
	return respond(c, http.StatusOK, effect)
}

// effects shows a page of the key's effects.
func (h *Handler) effects(c *call) error {
	query, err := c.query("after", "limit")
	if err != nil {
		return err
	}
	var after publish.EffectName
	if query.Get("after") != "" {
		if after, err = publish.ParseEffectName(query.Get("after")); err != nil {
			return pointAt("after", err)
		}
	}
	limit, err := limitOf(query)
	if err != nil {
		return err
	}
	page, err := h.service.Effects(c.Request().Context(), c.key, after, limit)
	if err != nil {
		return err
	}
	page.Effects = notNil(page.Effects)
	return respond(c, http.StatusOK, page)
}
