package web

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/text/unicode/norm"

	"github.com/pawlhq/pawl/publish"
)

// The two looks of the list of keys.
const (
	viewList = "list"
	viewGrid = "grid"
)

// browseQuery is what the address of the page of keys says. Each of its fields but Prefix is a parameter of the query, left out where it is empty.
type browseQuery struct {
	Prefix           string
	Text, Type       string
	Since            string // a span such as "24h" or "7d", a date, or a time of RFC 3339
	Leased, Rejected bool
	Sort             publish.BrowseSort // "" for the order by name
	View             string             // "" for viewList
	After            string
}

// browseFields are the parameters of browseQuery.
var browseFields = []string{"prefix", "q", "type", "since", "leased", "rejected", "sort", "view", "after"}

func readBrowseQuery(values url.Values) (q browseQuery, err error) {
	if q.Prefix, err = parsePrefix("prefix", values.Get("prefix")); err != nil {
		return q, err
	}
	// Keys are in NFC; words that somebody pastes from a file's name may not be.
	q.Text = norm.NFC.String(strings.TrimSpace(values.Get("q")))
	q.Type, q.Since = strings.TrimSpace(values.Get("type")), strings.TrimSpace(values.Get("since"))
	if q.Leased, err = flagOf(values, "leased"); err != nil {
		return q, err
	}
	if q.Rejected, err = flagOf(values, "rejected"); err != nil {
		return q, err
	}
	if q.Sort = publish.BrowseSort(values.Get("sort")); q.Sort == publish.SortName {
		q.Sort = ""
	}
	switch q.View = values.Get("view"); q.View {
	case "", viewGrid:
	case viewList:
		q.View = ""
	default:
		return q, publish.InvalidField(publish.ErrInvalidRequest, "view", "must be list or grid")
	}
	q.After = values.Get("after")
	return q, nil
}

// filtered reports whether keys are left out, beside those outside the prefix.
func (q browseQuery) filtered() bool {
	return q.Text != "" || q.Type != "" || q.Since != "" || q.Leased || q.Rejected
}

// request is what the domain is asked for. Sub-prefixes show as such only in the order by name and without a filter.
func (q browseQuery) request(now time.Time) (publish.BrowseRequest, error) {
	since, err := sinceTime(q.Since, now)
	return publish.BrowseRequest{
		Prefix: q.Prefix, Delimiter: q.Sort == "" && !q.filtered(), Text: q.Text, Type: q.Type, Leased: q.Leased, Rejected: q.Rejected,
		UpdatedSince: since, Sort: q.Sort, After: q.After,
	}, err
}

// sinceTime reads the time of a filter: a span before now, a date (its beginning in UTC), or a time.
func sinceTime(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if days, found := strings.CutSuffix(text, "d"); found {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return now.AddDate(0, 0, -int(n)), nil
		}
	}
	if span, err := time.ParseDuration(text); err == nil && span > 0 {
		return now.Add(-span), nil
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, publish.InvalidField(publish.ErrInvalidRequest, "since", `must be a span such as "24h" or "7d", a date such as "2026-11-30", or a time of RFC 3339`)
}

// browseAt is the address of the page of keys that a query describes.
func (l links) browseAt(q browseQuery) string {
	query := url.Values{}
	address := l.base + "/"
	set := func(name, value string) {
		if value != "" {
			query.Set(name, value)
		}
	}
	if strings.HasSuffix(q.Prefix, "/") {
		address += "b/" + escapeName(q.Prefix)
	} else {
		set("prefix", q.Prefix)
	}
	set("q", q.Text)
	set("type", q.Type)
	set("since", q.Since)
	if q.Leased {
		query.Set("leased", "true")
	}
	if q.Rejected {
		query.Set("rejected", "true")
	}
	set("sort", string(q.Sort))
	set("view", q.View)
	set("after", q.After)
	if len(query) == 0 {
		return address
	}
	return address + "?" + query.Encode()
}
