package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/publish/publishtest"
	"github.com/pawlhq/pawl/web"
)

// The audit as NDJSON is whole, over all pages, one entry a line; a limit makes it one page, with the cursor of the next in the trailer.
func TestAuditAsNDJSON(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	const many = publish.MaxPageSize + 5
	for i := range many {
		if err := r.pointers.SetPolicy(t.Context(), publish.Policy{Prefix: "<k>", FenceMode: publish.FenceAccepted, KeepGenerations: int64(i + 1)}, "mia"); err != nil {
			t.Fatal(err)
		}
	}
	for _, how := range []answer{
		r.call("GET", "/v1/audit?format=ndjson", ""),
		r.call("GET", "/v1/audit", "", "Accept", "application/x-ndjson"),
	} {
		how.want(200)
		if kind := how.header.Get("Content-Type"); kind != "application/x-ndjson" || !strings.Contains(how.header.Get("Content-Disposition"), `"audit.ndjson"`) || how.header.Get("Vary") != "Accept" {
			t.Errorf("the head is %v", how.header)
		}
		lines := strings.Split(strings.TrimSuffix(how.body, "\n"), "\n")
		if len(lines) != many {
			t.Fatalf("%d lines", len(lines))
		}
		for i, line := range lines {
			var entry publish.AuditEntry
			if err := json.Unmarshal([]byte(line), &entry); err != nil || entry.ID != int64(many-i) || entry.Subject != "<k>" || !strings.Contains(line, "<k>") {
				t.Fatalf("line %d is %s, %v", i, line, err)
			}
		}
	}
	if page, next, err := r.export("/v1/audit?format=ndjson&limit=2&before=9"); err != nil || strings.Count(page, "\n") != 2 || !strings.HasPrefix(page, `{"id":8,`) || next != "7" {
		t.Errorf("a page is %s, then %q, %v", page, next, err)
	}
	if head := r.call("HEAD", "/v1/audit?format=ndjson", "").want(200); head.body != "" {
		t.Errorf("HEAD answers %q", head.body)
	}
	if empty := newRig(t, web.Options{}).call("GET", "/v1/audit?format=ndjson", "").want(200); empty.body != "" {
		t.Errorf("an empty audit is %q", empty.body)
	}
	for _, target := range []string{"/v1/leases?format=ndjson", "/v1/audit?format=jsonl"} {
		r.call("GET", target, "").wantProblem(publish.ErrInvalidRequest)
	}
}

// Whatever changes something for people tells from where: the client's address, as proxies that are trusted tell it.
func TestAuditTellsFromWhere(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}})
	r.published("k", "f", "1")
	form := []string{"Content-Type", "application/x-www-form-urlencoded"}
	for _, change := range []struct {
		method, target, body string
		header               []string
		status               int
	}{
		{"POST", "/v1/keys/k/-/rollback", `{"to":1,"reason":"r","pin":true}`, nil, 200},
		{"DELETE", "/v1/keys/k/-/pin", "", nil, 204},
		{"PUT", "/v1/keys/k/-/pin", `{"reason":"r"}`, nil, 200},
		{"POST", "/k/k/-/unpin", "by=mia", form, 0},
		{"DELETE", "/v1/keys/k/-/pin", "", nil, 204},
		{"DELETE", "/v1/keys/k?reason=r", "", nil, 200},
		{"PUT", "/v1/policies?prefix=k", `{"keep_generations":3}`, nil, 200},
		{"DELETE", "/v1/policies?prefix=k", "", nil, 204},
	} {
		before := r.audit()
		header := append([]string{"X-Forwarded-For", fmt.Sprintf("6.6.6.6, 192.0.2.%d", before[len(before)-1].ID+1)}, change.header...)
		got := r.call(change.method, change.target, change.body, header...)
		if change.status != 0 {
			got.want(change.status)
		}
	}
	entries := r.audit()
	if len(entries) < 9 {
		t.Fatalf("%d entries", len(entries))
	}
	for _, entry := range entries[1:] {
		if !strings.HasPrefix(entry.From, "192.0.2.") {
			t.Errorf("%+v", entry)
		}
	}
	// A client of which nothing is known leaves its place empty.
	if from := entries[0].From; from != "" {
		t.Errorf("the first entry is from %q", from)
	}
}

// audit returns all entries, the oldest first; there is one at least, which the test itself makes.
func (r *rig) audit() (entries []publish.AuditEntry) {
	r.t.Helper()
	if err := r.pointers.RecordRefusal(r.t.Context(), publish.RefusedAction{By: "test", Action: "test", Code: publish.ErrForbidden}); err != nil {
		r.t.Fatal(err)
	}
	page, err := r.pointers.Audit(r.t.Context(), publish.AuditRequest{Reach: publish.Everything, Limit: publish.MaxPageSize})
	if err != nil {
		r.t.Fatal(err)
	}
	for i := len(page.Entries) - 1; i >= 0; i-- {
		entries = append(entries, page.Entries[i])
	}
	return entries
}

// The page, the API and the exports can be asked for what is about some keys, and for refusals or changes alone.
func TestAuditFilters(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	for _, prefix := range []string{"shots/a", "shots/b", "press"} {
		if err := r.pointers.SetPolicy(t.Context(), publish.Policy{Prefix: prefix, KeepGenerations: 1}, "mia"); err != nil {
			t.Fatal(err)
		}
		if err := r.pointers.RecordRefusal(t.Context(), publish.RefusedAction{By: "jo", Action: "POST rollback", Subject: prefix, Code: publish.ErrForbidden}); err != nil {
			t.Fatal(err)
		}
	}
	for query, want := range map[string]string{
		"": "press jo,press mia,shots/b jo,shots/b mia,shots/a jo,shots/a mia", "?prefix=shots/": "shots/b jo,shots/b mia,shots/a jo,shots/a mia", "?prefix=shots/b": "shots/b jo,shots/b mia",
		"?only=refused": "press jo,shots/b jo,shots/a jo", "?only=changed&prefix=p": "press mia", "?prefix=other": "",
	} {
		var page publish.AuditPage
		if err := json.Unmarshal([]byte(r.call("GET", "/v1/audit"+query, "").want(200).body), &page); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, entry := range page.Entries {
			got = append(got, fmt.Sprintf("%s %s", entry.Subject, entry.By))
		}
		if text := strings.Join(got, ","); text != want {
			t.Errorf("%s: %s, want %s", query, text, want)
		}
		onPage := r.call("GET", "/audit"+query, "", "Accept", "text/html").want(200).body
		exports := strings.ReplaceAll(strings.ReplaceAll(query, "&", "&amp;"), "/", "%2F")
		if rows := strings.Count(onPage, "<td class=\"key\">"); rows != len(got) || !strings.Contains(onPage, "/v1/audit"+exports) && strings.Count(query, "&") == 0 {
			t.Errorf("%s: the page has %d rows:\n%s", query, rows, onPage)
		}
		lines := r.call("GET", "/v1/audit?format=ndjson&"+strings.TrimPrefix(query, "?"), "").want(200).body
		if strings.Count(lines, "\n") != len(got) {
			t.Errorf("%s: the export is %s", query, lines)
		}
	}
	if to := r.call("GET", "/audit?prefix=shots%2F&only=", "", "Accept", "text/html").want(303).header.Get("Location"); to != "/audit?prefix=shots%2F" {
		t.Errorf("empty fields lead to %s", to)
	}
	for _, query := range []string{"?only=both", "?only=", "?prefix=..%2Fx", "?subject=x"} {
		r.call("GET", "/v1/audit"+query, "").wantProblem(publish.ErrInvalidRequest)
	}
}

// An export that fails on the way breaks off, so that nobody takes a part of the audit for the whole.
func TestAuditExportBreaksOff(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	for i := range publish.MaxPageSize + 1 {
		if err := r.pointers.SetPolicy(t.Context(), publish.Policy{Prefix: "k", FenceMode: publish.FenceAccepted, KeepGenerations: int64(i + 1)}, "mia"); err != nil {
			t.Fatal(err)
		}
	}
	r.pointers.Faults.Add(publishtest.Fault{Operation: "Audit", Before: func(context.Context) {}}) // The first page succeeds.
	r.pointers.Faults.Add(publishtest.Fault{Operation: "Audit"})
	if body, _, err := r.export("/v1/audit?format=ndjson"); err == nil {
		t.Errorf("a part of the audit looks whole: %d bytes", len(body))
	}
	if calls := r.pointers.Faults.Calls("Audit"); calls != 2 {
		t.Errorf("%d pages were asked for", calls)
	}
}

// export reads an answer with its trailer. It may break off.
func (r *rig) export(target string) (body, next string, err error) {
	r.t.Helper()
	resp, err := r.client.Get(r.server.URL + target)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), resp.Trailer.Get("Pawl-Next"), err
}

// People see the audit on a page, with what was refused, and go on to older entries and to the exports.
func TestAuditPage(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{BasePath: "/pawl"})
	if page := r.call("GET", "/audit", "").want(200); !strings.Contains(page.body, "Nobody has changed anything yet") {
		t.Errorf("the empty audit is %s", page.body)
	}
	r.published("<k>", "f", "1")
	r.call("PUT", "/v1/keys/%3Ck%3E/-/pin", `{"reason":"<b>&"}`, by, "<mia>").want(200)
	ctx := publish.WithClient(t.Context(), netip.MustParseAddr("2001:db8::7"))
	if err := r.pointers.RecordRefusal(ctx, publish.RefusedAction{By: "ci", Action: "publish", Subject: "team/k", Code: publish.ErrForbidden}); err != nil {
		t.Fatal(err)
	}
	for range 50 {
		r.call("PUT", "/v1/policies?prefix=k", `{"keep_generations":3}`).want(200)
		r.call("DELETE", "/v1/policies?prefix=k", "").want(204)
	}
	newest := r.call("GET", "/audit", "").want(200)
	next := nextLink.FindStringSubmatch(newest.body)
	if next == nil || strings.Count(newest.body, "<td>policy</td>") != 50 || strings.Contains(newest.body, `rel="first"`) {
		t.Fatalf("the newest are %s", newest.body)
	}
	older := r.call("GET", nextLink.FindStringSubmatch(r.call("GET", next[1], "").want(200).body)[1], "").want(200)
	for _, want := range []string{
		`<td>2001:db8::7</td>`, `publish <span class="badge bad">refused: forbidden</span>`, `<td><bdi>&lt;mia&gt;</bdi></td>`, `<a href="/pawl/k/%3Ck%3E" data-row>`,
		`<td>127.0.0.1</td>`, `<td class="number">1</td>`, `rel="first" href="/pawl/audit"`, `href="/pawl/v1/audit?format=ndjson">As NDJSON`,
	} {
		if !strings.Contains(older.body, want) {
			t.Errorf("%q is missing in %s", want, older.body)
		}
	}
	for _, bad := range []string{"<mia>", "<b>"} {
		if strings.Contains(older.body, bad) {
			t.Errorf("%q is in %s", bad, older.body)
		}
	}
	if policies := r.call("GET", "/policies", "").want(200); !strings.Contains(policies.body, `<a href="/pawl/audit">audit</a>`) {
		t.Errorf("nothing leads to the audit: %s", policies.body)
	}
	r.call("GET", "/audit?before=x", "").wantProblem(publish.ErrInvalidRequest)
}
