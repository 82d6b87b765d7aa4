package web

import (
	"net/url"
	"strconv"

	"github.com/pawlhq/pawl/publish"
)

// auditPage is what people changed, and were refused.
type auditPage struct {
	frame
	Rows        []auditRow
	Exports     []link
	First, Next string
}

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
	query, err := c.query("before")
	if err != nil {
		return err
	}
	before, err := beforeOf(query)
	if err != nil {
		return err
	}
	found, err := h.service.Audit(c.Request().Context(), c.adminReach(), before, feedPageSize)
	if err != nil {
		return err
	}
	page := auditPage{frame: h.frame(c, "Audit"), Exports: append(h.links.exports("/v1/audit", nil), link{"NDJSON", h.links.feed("/v1/audit", url.Values{"format": {"ndjson"}})})}
	for _, entry := range found.Entries {
		row := auditRow{AuditEntry: entry, Before: visible(string(entry.Before), maxShownJSON), After: visible(string(entry.After), maxShownJSON)}
		switch entry.Action {
		case publish.KindRollback, publish.KindRetire, publish.OperationPin, publish.OperationBreak, "unpin":
			row.KeyPage = h.links.keyPage(publish.Key(entry.Subject))
		}
		page.Rows = append(page.Rows, row)
	}
	if before != 0 {
		page.First = h.links.feed("/audit", nil)
	}
	if found.Next != 0 {
		page.Next = h.links.feed("/audit", url.Values{"before": {strconv.FormatInt(found.Next, 10)}})
	}
	return render(c, "audit", page)
}
