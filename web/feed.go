package web

import (
	"net/http"
	"net/url"

	"github.com/pawlhq/pawl/publish"
)

// rejections shows a page of rejections, the one that came last first.
func (h *Handler) rejections(c *call) error {
	query, err := c.query("prefix", "after", "limit", "format")
	if err != nil {
		return err
	}
	req := publish.RejectionsRequest{Reach: c.reach()}
	if req.Prefix, req.After, req.Limit, err = feedOf(query); err != nil {
		return err
	}
	read := func() (publish.RejectionsPage, error) { return h.service.Rejections(c.Request().Context(), req) }
	asCSV, err := c.wantsCSV(query.Get("format"))
	if err != nil {
		return err
	}
	if asCSV {
		return export(c, query, "rejections", publish.RejectionTable(), &req.Limit, func() ([]publish.KeyRejection, string, error) {
			page, err := read()
			req.After = page.Next
			return page.Rejections, page.Next, err
		})
	}
	page, err := read()
	if err != nil {
		return err
	}
	page.Rejections = notNil(page.Rejections)
	return respond(c, http.StatusOK, page)
}

// leases shows a page of leases, the newest grant first.
func (h *Handler) leases(c *call) error {
	query, err := c.query("prefix", "expired", "after", "limit", "format")
	if err != nil {
		return err
	}
	req := publish.LeasesRequest{Reach: c.reach()}
	if req.Prefix, req.After, req.Limit, err = feedOf(query); err != nil {
		return err
	}
	if req.Expired, err = flagOf(query, "expired"); err != nil {
		return err
	}
	read := func() (publish.LeasesPage, error) { return h.service.Leases(c.Request().Context(), req) }
	asCSV, err := c.wantsCSV(query.Get("format"))
	if err != nil {
		return err
	}
	if asCSV {
		return export(c, query, "leases", publish.LeaseTable(), &req.Limit, func() ([]publish.Holding, string, error) {
			page, err := read()
			req.After = page.Next
			return page.Leases, page.Next, err
		})
	}
	page, err := read()
	if err != nil {
		return err
	}
	page.Leases = notNil(page.Leases)
	return respond(c, http.StatusOK, page)
}

// feedOf reads what feeds have in common.
func feedOf(query url.Values) (prefix, after string, limit int, err error) {
	if prefix, err = parsePrefix("prefix", query.Get("prefix")); err != nil {
		return "", "", 0, err
	}
	limit, err = limitOf(query)
	return prefix, query.Get("after"), limit, err
}
