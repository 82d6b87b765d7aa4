package web

import (
	"github.com/pawlhq/pawl/publish"
)

// leasesPage is who holds keys.
type leasesPage struct {
	feedPage
	// Running leaves out the leases that have run out.
	Running bool
	Rows    []leaseRow
}

type leaseRow struct {
	Of keyRow
	publish.Holding
}

// leasesPage shows who holds the keys below a prefix, the newest grant first; also whose lease ran out without anybody taking over, since that is
// where somebody may have died.
func (h *Handler) leasesPage(c *call) error {
	query, err := c.query("prefix", "after", "running")
	if err != nil {
		return err
	}
	running, err := flagOf(query, "running")
	if err != nil {
		return err
	}
	feed, err := h.feed(c, "Leases", "leases", "after", query)
	if err != nil {
		return err
	}
	kinds := []publish.EventKind{publish.EventTakenOver, publish.EventLeaseBroken, publish.EventRestored}
	if feed.Live, err = h.live(c, live{Prefix: feed.Prefix, Kinds: kinds}); err != nil {
		return err
	}
	found, err := h.service.Leases(c.Request().Context(), publish.LeasesRequest{
		Reach: c.reach(), Prefix: feed.Prefix, Expired: !running, After: query.Get("after"), Limit: feedPageSize,
	})
	if err != nil {
		return err
	}
	page := leasesPage{feedPage: feed, Running: running}
	for _, holding := range found.Leases {
		page.Rows = append(page.Rows, leaseRow{Of: h.links.keyRow(holding.Key), Holding: holding})
	}
	if found.Next != "" {
		page.Next = h.links.feed("/leases", with(query, "after", found.Next))
	}
	export := with(nil, "prefix", feed.Prefix)
	if !running {
		export.Set("expired", "true")
	}
	page.Exports = h.links.exports("/v1/leases", export)
	return render(c, "leases", page)
}
