package web

import (
	"github.com/pawlhq/pawl/publish"
)

// feedPageSize is how many rows a page of rejections or leases has.
const feedPageSize = 50

// rejectionsPage is the stale requests that were refused.
type rejectionsPage struct {
	feedPage
	Rows []rejectionRow
}

type rejectionRow struct {
	keyRow
	moment
	Times int
}

// rejectionsPage shows the stale requests below a prefix, the one that came last first.
func (h *Handler) rejectionsPage(c *call) error {
	query, err := c.query("prefix", "after")
	if err != nil {
		return err
	}
	feed, err := h.feed(c, "Rejections", "rejections", "after", query)
	if err != nil {
		return err
	}
	kinds := []publish.EventKind{publish.EventRejected, publish.EventRestored}
	if feed.Live, err = h.live(c, live{Prefix: feed.Prefix, Kinds: kinds}); err != nil {
		return err
	}
	found, err := h.service.Rejections(c.Request().Context(), publish.RejectionsRequest{
		Reach: c.reach(), Prefix: feed.Prefix, After: query.Get("after"), Limit: feedPageSize,
	})
	if err != nil {
		return err
	}
	page := rejectionsPage{feedPage: feed}
	for _, r := range found.Rejections {
		m := refusal(refusedOnce(r.Rejection), r.Looping)
		m.Looping = r.Looping
		row := rejectionRow{keyRow: h.links.keyRow(r.Key), moment: m, Times: r.Repeat}
		row.History += "#" + refusedFragment
		page.Rows = append(page.Rows, row)
	}
	if found.Next != "" {
		page.Next = h.links.feed("/rejections", with(query, "after", found.Next))
	}
	page.Exports = h.links.exports("/v1/rejections", with(nil, "prefix", feed.Prefix))
	return render(c, "rejections", page)
}
