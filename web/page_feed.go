package web

import (
	"net/url"

	"github.com/pawlhq/pawl/publish"
)

// feedPage is what the pages of rejections, leases and activity have in common.
type feedPage struct {
	frame
	Action  string // the page itself, for its form
	Prefix  string
	Exports []link
	// First is "" on the first page, Next on the last one.
	First, Next string
}

// keyRow is a key as a feed names it.
type keyRow struct {
	Key     publish.Key
	KeyPage string
	History string
}

func (l links) keyRow(key publish.Key) keyRow {
	if key == "" {
		return keyRow{}
	}
	return keyRow{Key: key, KeyPage: l.keyPage(key), History: l.history(key, 0)}
}

// feed begins a page of a feed from its query: name is its path and its route in the API, place the parameter that says where a page begins.
// further parameters of the query go along to the next page and to the exports.
func (h *Handler) feed(c *call, title, name, place string, query url.Values, scripts ...string) (feedPage, error) {
	prefix, err := parsePrefix("prefix", query.Get("prefix"))
	page := feedPage{frame: h.frame(c, title, scripts...), Action: h.links.base + "/" + name, Prefix: prefix}
	along := url.Values{}
	for parameter, values := range query {
		if parameter != place && values[0] != "" {
			along[parameter] = values
		}
	}
	if query.Get(place) != "" {
		page.First = h.links.feed("/"+name, along)
	}
	return page, err
}

// feed is the address of a feed, a page or a route of the API, with a query.
func (l links) feed(path string, query url.Values) string {
	if len(query) == 0 {
		return l.base + path
	}
	return l.base + path + "?" + query.Encode()
}

// with is a query with one parameter more.
func with(query url.Values, name, value string) url.Values {
	more := url.Values{name: {value}}
	for parameter, values := range query {
		if parameter != name && values[0] != "" {
			more[parameter] = values
		}
	}
	return more
}

// exports are the addresses of a feed in the API, as it is for programs and for spreadsheets.
func (l links) exports(path string, query url.Values) []link {
	return []link{{"JSON", l.feed(path, query)}, {"CSV", l.feed(path, with(query, "format", "csv"))}}
}
