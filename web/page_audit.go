package web

import (
	"net/http"
	"strconv"

	"github.com/pawlhq/pawl/publish"
)

// auditPage is what people changed, and were refused.
type auditPage struct {
	feedPage
	Only  publish.AuditKind
	Kinds []auditKind
	Rows  []auditRow
}

// auditKind is a choice of the page's form.
type auditKind struct {
	Kind publish.AuditKind
	Text string
}

var auditKinds = []auditKind{{"", "changes and refusals"}, {publish.AuditChanges, "changes"}, {publish.AuditRefusals, "refusals"}}

type auditRow struct {
	publish.AuditEntry
	// KeyPage is "" for what isn't about a key.
	KeyPage       string
	Before, After string
}

// maxShownJSON bounds what the page shows of a change, in characters; the exports have all of it.
const maxShownJSON = 300

// auditPage shows the audit to people, newest first.
func (h *Handler) auditPage(c *call) error {
	query, blank, err := c.formQuery("prefix", "only", "before")
	if err != nil {
		return err
	}
	if blank {
		return c.Redirect(http.StatusSeeOther, h.links.feed("/audit", query))
	}
	req, err := c.auditRequest(query)
	if err != nil {
		return err
	}
	feed, err := h.feed(c, "Audit", "audit", "before", query)
	if err != nil {
		return err
	}
	req.Limit = feedPageSize
	found, err := h.service.Audit(c.Request().Context(), req)
	if err != nil {
		return err
	}
	page := auditPage{feedPage: feed, Only: req.Only, Kinds: auditKinds}
	for _, entry := range found.Entries {
		row := auditRow{AuditEntry: entry, Before: visible(string(entry.Before), maxShownJSON), After: visible(string(entry.After), maxShownJSON)}
		switch entry.Action {
		case publish.KindRollback, publish.KindRetire, publish.OperationPin, publish.OperationBreak, "unpin":
			row.KeyPage = h.links.keyPage(publish.Key(entry.Subject))
		}
		page.Rows = append(page.Rows, row)
	}
	if found.Next != 0 {
		page.Next = h.links.feed("/audit", with(query, "before", strconv.FormatInt(found.Next, 10)))
	}
	query.Del("before")
	page.Exports = append(h.links.exports("/v1/audit", query), link{"NDJSON", h.links.feed("/v1/audit", with(query, "format", "ndjson"))})
	return render(c, "audit", page)
}
