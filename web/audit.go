package web

import (
	"net/http"
	"net/url"
	"strconv"

	"github.com/pawlhq/pawl/publish"
)

// audit shows a page of what people changed and were refused, newest first, or exports all of it.
func (h *Handler) audit(c *call) error {
	query, err := c.query("prefix", "only", "before", "limit", "format")
	if err != nil {
		return err
	}
	req, err := c.auditRequest(query)
	if err != nil {
		return err
	}
	if req.Limit, err = limitOf(query); err != nil {
		return err
	}
	read := func() (publish.AuditPage, error) { return h.service.Audit(c.Request().Context(), req) }
	next := func() ([]publish.AuditEntry, string, error) {
		page, err := read()
		if req.Before = page.Next; req.Before == 0 {
			return page.Entries, "", err
		}
		return page.Entries, strconv.FormatInt(req.Before, 10), err
	}
	if c.wantsNDJSON(query.Get("format")) {
		return exportNDJSON(c, query, "audit", &req.Limit, next)
	}
	asCSV, err := c.wantsCSV(query.Get("format"))
	if err != nil {
		return err
	}
	if asCSV {
		return export(c, query, "audit", publish.AuditTable(), &req.Limit, next)
	}
	page, err := read()
	if err != nil {
		return err
	}
	page.Entries = notNil(page.Entries)
	return respond(c, http.StatusOK, page)
}

// auditRequest reads which entries are asked for, of those that the caller may see.
func (c *call) auditRequest(query url.Values) (req publish.AuditRequest, err error) {
	req.Reach = c.adminReach()
	if req.Prefix, err = parsePrefix("prefix", query.Get("prefix")); err != nil {
		return req, err
	}
	if req.Only, err = publish.ParseAuditKind(query.Get("only")); err != nil {
		return req, err
	}
	req.Before, err = beforeOf(query)
	return req, err
}

// beforeOf reads where a page of the audit goes on; 0 is from the newest.
func beforeOf(query url.Values) (int64, error) {
	text := query.Get("before")
	if text == "" {
		return 0, nil
	}
	before, err := strconv.ParseInt(text, 10, 64)
	if err != nil || before < 1 {
		return 0, publish.InvalidField(publish.ErrInvalidRequest, "before", "must be the next of the page before")
	}
	return before, nil
}
