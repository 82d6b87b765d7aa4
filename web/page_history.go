package web

import (
	"fmt"
	"net/url"

	"github.com/pawlhq/pawl/publish"
)

// historyPageSize is how many generations a page of a key's history tells of.
const historyPageSize = 50

// refusedFragment leads to the newest refusal on the page of a key's history.
const refusedFragment = "refused"

// historyPage is what happened to a key.
type historyPage struct {
	frame
	Key    publish.Key
	Page   string // about the key
	API    string
	Crumbs []link
	// State is that of the key, on its first page alone.
	State  *publish.Overview
	Told   []told
	Newest string // "" on the page that has it
	Older  string
}

// told is a moment with the addresses that go with it.
type told struct {
	moment
	// ID is its fragment: refusedFragment for the newest refusal of the page, so that other pages can point at it.
	ID    string
	Links []link
}

// historyPage tells what happened to a key, newest first.
func (h *Handler) historyPage(c *call) error {
	query, err := c.query("before")
	if err != nil {
		return err
	}
	var before publish.Token
	if query.Get("before") != "" {
		if before, err = publish.ParseToken(query.Get("before")); err != nil {
			return pointAt("before", err)
		}
	}
	live, err := h.live(c, live{Key: c.key})
	if err != nil {
		return err
	}
	// The one generation more says whether another page follows, and whom the oldest one of this page took the key over from.
	history, err := h.service.History(c.Request().Context(), c.key, before, historyPageSize+1)
	if err != nil {
		return err
	}
	page := historyPage{
		frame: h.frame(c, "History of "+string(c.key)), Key: c.key, Page: h.links.keyPage(c.key), API: h.links.key(c.key) + "/-/generations",
		Crumbs: h.crumbs(string(c.key)),
	}
	page.Live = live
	var older *publish.Generation
	if shown := len(history.Generations) - 1; shown > 0 && (history.Next != 0 || shown == historyPageSize) {
		older = &history.Generations[shown]
		history.Generations = history.Generations[:shown]
		page.Older = h.links.history(c.key, history.Generations[shown-1].Token)
	}
	if before != 0 {
		page.Newest = h.links.history(c.key, 0)
	}
	if before == 0 {
		now, err := h.service.Overview(c.Request().Context(), c.key)
		if err != nil {
			return err
		}
		page.State = &now
		history.Lost = withLast(history, now.LastRejection)
	}
	page.Told = h.links.tell(c.key, timeline(history, older, before != 0, h.epoch.Load()))
	return render(c, "history", page)
}

// withLast gives the rejections that the first page shows beside those of its generations: those of tokens of which nothing is known, and the last
// one of all if it is about an older generation. It is what people look for first, however long ago its token was granted.
func withLast(history publish.HistoryPage, last *publish.KeyRejection) []publish.Rejection {
	if last == nil || last.Holder == "" {
		return history.Lost
	}
	for _, g := range history.Generations {
		if g.Token == last.Token {
			return history.Lost
		}
	}
	return append([]publish.Rejection{last.Rejection}, history.Lost...)
}

// tell adds addresses to moments.
func (l links) tell(key publish.Key, moments []moment) []told {
	all := make([]told, len(moments))
	refused := false
	for i, m := range moments {
		all[i] = told{moment: m, Links: l.ofMoment(key, m)}
		if m.Kind == momentRejected && !refused {
			all[i].ID, refused = refusedFragment, true
		}
	}
	return all
}

// ofMoment gives where people can look closer: the generation for good, what a publish has changed, and its receipt.
func (l links) ofMoment(key publish.Key, m moment) []link {
	if m.Token == 0 || m.Lost {
		return nil
	}
	all := []link{{"generation " + fmt.Sprint(m.Token), l.generationPage(key, m.Version())}}
	if m.Revision == 0 {
		return all
	}
	if m.Previous != nil && !m.Collected {
		all = append(all, link{"compare with " + m.Previous.String(), l.comparePage(key, *m.Previous, m.Version())})
	}
	return append(all, link{"receipt", l.generation(key, m.Token)})
}

// history is the address of the page of a key's history, of generations before a token; 0 is from the newest.
func (l links) history(key publish.Key, before publish.Token) string {
	address := l.keyPage(key) + "/-/history"
	if before == 0 {
		return address
	}
	return fmt.Sprintf("%s?before=%d", address, before)
}

// generationPage is the address of the page of a generation, as one revision has published it if there is one.
func (l links) generationPage(key publish.Key, version publish.Version) string {
	address := fmt.Sprintf("%s/-/generations/%d", l.keyPage(key), version.Token)
	if version.Revision == 0 {
		return address
	}
	return fmt.Sprintf("%s?revision=%d", address, version.Revision)
}

// comparePage is the address of the page that compares two versions of a key.
func (l links) comparePage(key publish.Key, a, b publish.Version) string {
	return l.keyPage(key) + "/-/compare?" + url.Values{"a": {a.String()}, "b": {b.String()}}.Encode()
}
