package web

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"github.com/pawlhq/pawl/publish"
)

// callWith is a request with a body, as a handler sees it.
func callWith(method, target, contentType, body string) *call {
	r := httptest.NewRequest(method, "/", strings.NewReader(body))
	r.URL.RawQuery = target
	r.Header.Set(echo.HeaderContentType, contentType)
	return &call{Context: echo.New().NewContext(r, httptest.NewRecorder())}
}

// FuzzReadJSON: a body that is accepted is JSON, each of its members was asked for and stands there once, and has the value that encoding/json reads.
func FuzzReadJSON(f *testing.F) {
	for _, seed := range []string{
		`{"text":"a","number":17,"flag":true,"list":["a","b"],"map":{"a":"b"},"span":"30s","to":"17.1","lease":true}`, `{"text":null}`, `{"text":"a","text":"b"}`, `{"Text":"a"}`,
		`{"number":1e3}`, `{"number":1.0}`, `{"number":9007199254740993}`, `{"text":"\ud800"}`, `{"list":[null]}`, `{} {}`, `[]`, ``, ` `, `{"text":"a"`, `{"map":{"a":"1","a":"2"}}`, `{"to":17}`, `{"lease":41}`,
		`{"number":0e1}`, `{"text":"\u0000"}`, `{"span":-1}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		var got struct {
			Text   string
			Number int64
			Flag   bool
			List   []string
			Map    map[string]string
			Span   time.Duration
			To     target
			Lease  brokenLease
		}
		into := members{"text": &got.Text, "number": &got.Number, "flag": &got.Flag, "list": &got.List, "map": &got.Map, "span": &got.Span, "to": &got.To, "lease": &got.Lease}
		if err := readJSON(callWith(http.MethodPost, "", "application/json", body), into); err != nil {
			return
		}
		if strings.TrimSpace(body) == "" {
			return
		}
		var all map[string]json.RawMessage
		if err := json.Unmarshal([]byte(body), &all); err != nil || !utf8.ValidString(body) {
			t.Fatalf("%q is accepted: %v", body, err)
		}
		for name, value := range all {
			var want any
			if err := json.Unmarshal(value, &want); err != nil || into[name] == nil || want == nil {
				t.Fatalf("%q: %s is %v, %v", body, name, want, err)
			}
			if n := strings.Count(body, strconv.Quote(name)+":"); name != "map" && n > 1 && !strings.Contains(body, `"map"`) && !strings.Contains(body, `\"`) {
				t.Fatalf("%q has %s twice", body, name)
			}
			switch name {
			case "text":
				equal(t, body, got.Text, want)
			case "flag":
				equal(t, body, got.Flag, want)
			case "number":
				equal(t, body, strconv.FormatInt(got.Number, 10), string(value))
			case "list":
				equal(t, body, len(got.List), len(want.([]any)))
				for i, text := range got.List {
					equal(t, body, text, want.([]any)[i])
				}
			case "map":
				equal(t, body, len(got.Map), len(want.(map[string]any)))
				for member, text := range got.Map {
					equal(t, body, text, want.(map[string]any)[member])
				}
			case "span":
				span, err := time.ParseDuration(want.(string))
				equal(t, body, got.Span, span)
				equal(t, body, err, nil)
			case "to":
				version := publish.Version(got.To)
				if text := strings.Trim(string(value), `"`); text != version.String() && text != strconv.FormatInt(int64(version.Token), 10) && !strings.Contains(text, `\`) {
					t.Fatalf("%q goes to %v", body, version)
				}
			case "lease":
				equal(t, body, string(value) == "true" || string(value) == strconv.FormatInt(int64(got.Lease.token), 10), got.Lease.ends)
			}
		}
	})
}

func equal(t *testing.T, input string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%q: got %v, want %v", input, got, want)
	}
}

// FuzzQuery: a query that is accepted has known names, once each, and values that are in their bounds and are written as they are read.
func FuzzQuery(f *testing.F) {
	for _, seed := range []string{
		"limit=10&wait=55s&expired=true&revision=1&before=7&after=x", "limit=0", "limit=+1", "wait=-1s", "wait=9999h", "expired=1", "revision=9007199254740992", "before=x", "limit=1&limit=2", "publish",
		"limit=%31", "a;b", "%zz", "since=7d&pinned_at=none", "since=70000d", "since=2026-02-30", "pinned_at=2026-01-31T12:00:00.000Z", "current=none", "current=17.1",
	} {
		f.Add(seed)
	}
	names := []string{"limit", "wait", "expired", "revision", "before", "after", "since", "pinned_at", "current"}
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, raw string) {
		c := callWith(http.MethodGet, raw, "", "")
		query, err := c.query(names...)
		if err != nil {
			return
		}
		for name, values := range query {
			if !slices.Contains(names, name) || len(values) != 1 || values[0] == "" && name != "after" {
				t.Fatalf("%q is accepted", raw)
			}
		}
		if limit, err := limitOf(query); err == nil && query.Has("limit") && (limit < 1 || strconv.Itoa(limit) != strings.TrimLeft(query.Get("limit"), "+0")) {
			t.Fatalf("%q: limit %d", raw, limit)
		}
		if wait, err := waitOf(query); err == nil && (wait < 0 || wait > publish.MaxPointerWait) {
			t.Fatalf("%q: wait %s", raw, wait)
		}
		if flag, err := flagOf(query, "expired"); err == nil && query.Has("expired") && strconv.FormatBool(flag) != query.Get("expired") {
			t.Fatalf("%q: flag %t", raw, flag)
		}
		if revision, err := revisionOf(query); err == nil && query.Has("revision") && (revision < 1 || strconv.FormatInt(revision, 10) != query.Get("revision")) {
			t.Fatalf("%q: revision %d", raw, revision)
		}
		if before, err := beforeOf(query); err == nil && query.Has("before") && before < 1 {
			t.Fatalf("%q: before %d", raw, before)
		}
		if since, err := sinceTime(query.Get("since"), now); err == nil && strings.HasSuffix(query.Get("since"), "d") && since.After(now) {
			t.Fatalf("%q: since %s", raw, since)
		}
		for _, name := range []string{"pinned_at", "current"} {
			text := query.Get(name)
			if at, err := pinOf(name, &text); err == nil && text != none {
				written := at.Text()
				if again, err := pinOf(name, &written); err != nil || again.Sub(at.Time).Abs() >= time.Millisecond {
					t.Fatalf("%q is %s, which is %v, %v", text, written, again, err)
				}
			}
			if version, err := versionOf(name, &text); err == nil && text != none && version.String() != text {
				t.Fatalf("%q is %s", text, version)
			}
		}
	})
}

// FuzzForm: a form that is accepted has the fields of the form alone, each once, as net/http reads them.
func FuzzForm(f *testing.F) {
	for _, seed := range []string{"prefix=a&by=mia", "prefix=a&prefix=b", "remove=", "x=1", "prefix=%zz", "prefix=a;b", "", "prefix=a+b%26"} {
		f.Add("application/x-www-form-urlencoded", seed)
	}
	f.Add("application/x-www-form-urlencoded; charset=utf-8", "prefix=a")
	f.Add("multipart/form-data; boundary=x", "--x--")
	f.Add("text/plain", "prefix=a")
	f.Fuzz(func(t *testing.T, contentType, body string) {
		form, err := readForm(callWith(http.MethodPost, "", contentType, body), policyFields)
		if err != nil {
			return
		}
		r := callWith(http.MethodPost, "", contentType, body).Request()
		if err := r.ParseForm(); err != nil || !reflect.DeepEqual(r.PostForm, form) {
			t.Fatalf("%q, %q is %v; net/http reads %v, %v", contentType, body, form, r.PostForm, err)
		}
		for name := range maps.Keys(url.Values(form)) {
			if !slices.Contains(policyFields, name) || len(form[name]) != 1 {
				t.Fatalf("%q is accepted", body)
			}
		}
	})
}

// FuzzTable: the table of a file that is shown is valid text within its bounds, whatever the file holds.
func FuzzTable(f *testing.F) {
	for _, seed := range []string{"a,b\n1,2\n", "a;b\n1;2", "\"a\nb\",c\n\"", "\ufeffa,b", "\xff\xfe,\x00\n", strings.Repeat("a,", 60) + "\n", strings.Repeat("x\n", 300), "a\u202eb,c", "\r\r\n"} {
		f.Add([]byte(seed), false, int64(0))
	}
	f.Fuzz(func(t *testing.T, head []byte, tabs bool, more int64) {
		comma := ','
		if tabs {
			comma = '\t'
		}
		rows, note := tableOf(head, comma, int64(len(head))+max(0, more>>1))
		if len(rows) > maxTableRows || !utf8.ValidString(note) {
			t.Fatalf("%d rows, %q", len(rows), note)
		}
		for _, row := range rows {
			if len(row) > maxTableColumns {
				t.Fatalf("%d cells", len(row))
			}
			for _, cell := range row {
				if !utf8.ValidString(cell) || utf8.RuneCountInString(cell) > 8*maxCellRunes+40 || strings.ContainsAny(cell, "\x00\u202e") {
					t.Fatalf("%q", cell)
				}
			}
		}
	})
}
