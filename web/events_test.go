package web_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

// number numbers the events that wait.
func (r *rig) number() {
	r.t.Helper()
	if _, err := r.pointers.NumberEvents(r.t.Context(), 1000); err != nil {
		r.t.Fatal(err)
	}
}

// eventsPage reads an answer.
func (a answer) eventsPage() (page publish.EventsPage) {
	a.t.Helper()
	a.want(200)
	if err := json.Unmarshal([]byte(a.body), &page); err != nil || !strings.Contains(a.body, `"events":[`) {
		a.t.Fatalf("%v in %s", err, a.body)
	}
	return page
}

// Pages of events go on from where the one before ended, in both directions.
func TestEventPages(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{BasePath: "/pawl"})
	now := r.call("GET", "/v1/events", "").eventsPage()
	if now.Next == nil || *now.Next != publish.OldestEvent {
		t.Fatalf("before everything the feed ends at %v", now.Next)
	}
	for _, key := range []string{"shots/1", "shots/2", "thumbs/1"} {
		r.published(key, "out.txt", key)
	}
	r.number()
	one := r.call("GET", "/v1/events?limit=1&prefix=shots/&after="+now.Next.String(), "").eventsPage()
	two := r.call("GET", "/v1/events?prefix=shots/&after="+one.Next.String(), "").eventsPage()
	if len(one.Events) != 1 || one.Events[0].Key != "shots/1" || len(two.Events) != 1 || two.Events[0].Key != "shots/2" || two.Next.N != 3 {
		t.Errorf("two pages hold %+v and %+v", one, two)
	}
	if e := one.Events[0]; e.Kind != publish.EventPublished || e.URL != "/pawl/v1/keys/shots/1/-/generations/1/files/out.txt" || e.Cursor.String() != "0-1" {
		t.Errorf("the event is %+v", e)
	}
	end := r.call("GET", "/v1/events?after="+two.Next.String(), "").eventsPage()
	if len(end.Events) != 0 || *end.Next != *two.Next {
		t.Errorf("the end reads as %+v", end)
	}
	down := r.call("GET", "/v1/events?before=newest&limit=2", "").eventsPage()
	rest := r.call("GET", "/v1/events?before="+down.Next.String(), "").eventsPage()
	if len(down.Events) != 2 || down.Events[0].Key != "thumbs/1" || len(rest.Events) != 1 || rest.Next != nil {
		t.Errorf("newest first %+v, then %+v", down, rest)
	}
}

// A cursor that is no cursor is named; one behind what was removed says where to go on.
func TestEventCursors(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	for query, pointer := range map[string]string{
		"after=17": "after", "after=0-": "after", "after=-0-1": "after", "after=00-1": "after", "after=1-9007199254740992": "after", "before=x": "before",
		"before=0-1&after=0-0": "before", "prefix=a//b": "prefix", "limit=0": "limit", "after=0-1&after=0-2": "after", "since=0-1": "query", "before=": "before",
		"format=xml": "format", "format=csv&wait=1s": "wait",
		"before=newest&wait=1s": "wait",
	} {
		members := r.call("GET", "/v1/events?"+query, "").wantProblem(publish.ErrInvalidRequest)
		if fields := jsonOf(members["errors"]); !strings.Contains(fields, `"pointer":"`+pointer+`"`) {
			t.Errorf("%s: %s", query, fields)
		}
	}
	r.published("a", "f", "x")
	r.published("b", "f", "x")
	r.number()
	if _, err := r.pointers.TrimEvents(t.Context(), -1, 2); err != nil {
		t.Fatal(err)
	}
	if members := r.call("GET", "/v1/events?after=0-1", "").wantProblem(publish.ErrCursorExpired); members["oldest"] != "0-2" {
		t.Errorf("the oldest cursor is %v", members["oldest"])
	}
	for _, ahead := range []string{"0-3", "9-0", "9007199254740991-9007199254740991"} {
		for _, query := range []string{"after=" + ahead, "wait=30s&after=" + ahead, "format=csv&after=" + ahead, "prefix=a&after=" + ahead} {
			if members := r.call("GET", "/v1/events?"+query, "").wantProblem(publish.ErrCursorExpired); members["newest"] != "0-2" || members["oldest"] != nil {
				t.Errorf("%s: %v", query, members)
			}
		}
	}
	if page := r.call("GET", "/v1/events?after=0-0", "").eventsPage(); len(page.Events) != 0 {
		t.Errorf("from the oldest: %+v", page)
	}
}

// As CSV events are whole, newest first unless a cursor tells otherwise, over more pages than one, and no cell is a formula.
func TestEventsAsCSV(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{BasePath: "/pawl"})
	const many = publish.MaxPageSize + 2
	for range many {
		r.published("shots/a", "out.txt", "x")
	}
	r.published("=other", "f", "x")
	r.number()
	r.number()
	newest := r.call("GET", "/v1/events?prefix=shots/", "", "Accept", "text/csv")
	rows := newest.csv()
	if len(rows) != many+1 || rows[0][0] != "cursor" || rows[1][0] != fmt.Sprintf("0-%d", many) || rows[many][0] != "0-1" {
		t.Fatalf("%d lines of CSV, beginning with %q", len(rows), rows[:2])
	}
	if url := rows[many][len(rows[0])-1]; url != "/pawl/v1/keys/shots/a/-/generations/1/files/out.txt" {
		t.Errorf("the first publish is at %s", url)
	}
	if got := newest.header.Get("Vary"); got != "Accept" {
		t.Errorf("Vary is %q", got)
	}
	rows = r.call("GET", "/v1/events?format=csv&after=0-1", "").csv()
	if len(rows) != many+1 || rows[1][0] != "0-2" || rows[many][2] != "'=other" {
		t.Errorf("after the first event: %d lines, ending with %q", len(rows), rows[len(rows)-1])
	}
	if rows := r.call("GET", "/v1/events?format=csv&before=newest&limit=3", "").csv(); len(rows) != 4 {
		t.Errorf("a page as CSV has %d lines", len(rows))
	}
}
