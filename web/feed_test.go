package web_test

import (
	"encoding/csv"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

// csv reads an answer as CSV.
func (a answer) csv() [][]string {
	a.t.Helper()
	a.want(200)
	rows, err := csv.NewReader(strings.NewReader(a.body)).ReadAll()
	if err != nil || !strings.HasPrefix(a.header.Get("Content-Type"), "text/csv") || !strings.HasPrefix(a.header.Get("Content-Disposition"), "attachment") {
		a.t.Fatalf("%v, %v in %.200s", a.header, err, a.body)
	}
	return rows
}

// A worker that goes on sending a stale request stands out; one that came once doesn't.
func TestRejectionsFeed(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	empty := r.call("GET", "/v1/rejections", "").want(200)
	if !strings.Contains(empty.body, `"rejections":[]`) {
		t.Errorf("without rejections the feed is %s", empty.body)
	}
	for _, key := range []string{"shots/a", "shots/b"} {
		stale := r.grant(key)
		r.pointers.Expire(publish.Key(key))
		r.published(key, "f", "new")
		for range map[string]int{"shots/a": 1, "shots/b": 3}[key] {
			stale.publish("").wantProblem(publish.ErrStaleToken)
		}
	}
	feed := r.call("GET", "/v1/rejections?prefix=shots/", "").want(200).json()["rejections"].([]any)
	got := ""
	for _, row := range feed {
		members := row.(map[string]any)
		got += words(members["key"], members["token"], members["operation"], members["holder"], members["accepted_token"], members["superseded_by"], members["repeat"], members["looping"]) + "\n"
	}
	if want := "shots/b 1 publish test 2 test 3 true\nshots/a 1 publish test 2 test 1 false\n"; got != want {
		t.Errorf("the feed is\n%s, want\n%s", got, want)
	}
	r.pointers.Advance(publish.LoopWindow + time.Second)
	if later := r.call("GET", "/v1/rejections?limit=1", "").want(200); strings.Contains(later.body, `"looping":true`) {
		t.Errorf("what came long ago is looping: %s", later.body)
	}
	rows := r.call("GET", "/v1/rejections?limit=1", "", "Accept", "text/csv").csv()
	if len(rows) != 2 || rows[0][0] != "key" || rows[1][0] != "shots/b" || len(rows[0]) != 16 {
		t.Errorf("as CSV: %q", rows)
	}
}

// The feed shows who holds what, in pages, and never a lease_id. As CSV it is whole, and no cell is a formula.
func TestLeasesFeed(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	const many = publish.MaxPageSize + 5
	for i := range many {
		if _, err := r.pointers.Acquire(t.Context(), publish.AcquireRequest{
			Key: publish.Key(fmt.Sprintf("=k/%04d", i)), Holder: "@SUM(A1)", TTL: time.Hour, LeaseID: publish.NewLeaseID(), Labels: map[string]string{"job": "7"},
		}); err != nil {
			t.Fatal(err)
		}
	}
	secret := r.grant("shots/a")
	r.pointers.Expire("shots/a")
	page := r.call("GET", "/v1/leases?limit=2", "").want(200).json()
	if first := page["leases"].([]any)[0].(map[string]any); first["key"] != fmt.Sprintf("=k/%04d", many-1) || first["holder"] != "@SUM(A1)" || first["live"] != true {
		t.Errorf("the newest lease is %v", first)
	}
	next := r.call("GET", "/v1/leases?limit=2&after="+fmt.Sprint(page["next"]), "").want(200).json()
	if third := next["leases"].([]any)[0].(map[string]any); third["key"] != fmt.Sprintf("=k/%04d", many-3) {
		t.Errorf("the second page begins with %v", third)
	}
	ended := r.call("GET", "/v1/leases?expired=true&limit=1", "").want(200)
	if !strings.Contains(ended.body, `"key":"shots/a"`) || !strings.Contains(ended.body, `"live":false`) {
		t.Errorf("with those that ran out: %s", ended.body)
	}
	if strings.Contains(ended.body, secret.lease) || strings.Contains(ended.body, "lease_id") || strings.Contains(ended.body, "sha256") {
		t.Errorf("the feed gives a secret away: %s", ended.body)
	}
	rows := r.call("GET", "/v1/leases?format=csv", "").csv()
	if len(rows) != many+1 || rows[1][0] != fmt.Sprintf("'=k/%04d", many-1) || rows[1][2] != "'@SUM(A1)" || rows[1][7] != "job=7" {
		t.Errorf("%d lines of CSV, beginning with %q", len(rows), rows[:2])
	}
	if rows := r.call("GET", "/v1/leases?format=csv&limit=3", "").csv(); len(rows) != 4 {
		t.Errorf("a page as CSV has %d lines", len(rows))
	}
	if head := r.call("HEAD", "/v1/leases?format=csv", "").want(200); head.body != "" || head.header.Get("Vary") != "Accept" {
		t.Errorf("HEAD answers %v", head.header)
	}
}

// The audit has the same form.
func TestAuditAsCSV(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	for range 3 {
		r.call("PUT", "/v1/policies?prefix=k", `{"keep_generations":3}`, by, "-mia").want(200)
		r.call("DELETE", "/v1/policies?prefix=k", "", by, "-mia").want(204)
	}
	rows := r.call("GET", "/v1/audit?format=csv", "").csv()
	if len(rows) != 7 || rows[1][0] != "6" || rows[6][2] != "'-mia" || rows[6][4] != "k" || !strings.HasPrefix(rows[6][6], `{"`) {
		t.Errorf("the audit is %q", rows)
	}
}

func TestFeedFaults(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	for target, pointer := range map[string]string{
		"/v1/rejections?after=x": "after", "/v1/rejections?after=e30": "after", "/v1/leases?after=" + strings.Repeat("A", 40): "after",
		"/v1/leases?after=eyJzIjoibmFtZSIsIm4iOiJhIn0": "after", // of a page of keys
		"/v1/leases?limit=0":                           "limit", "/v1/rejections?limit=1001": "limit", "/v1/rejections?prefix=a//": "prefix",
		"/v1/leases?expired=1": "expired", "/v1/leases?format=xlsx": "format", "/v1/rejections?expired=true": "query", "/v1/audit?format=yaml": "format",
	} {
		members := r.call("GET", target, "").wantProblem(publish.ErrInvalidRequest)
		if fields := jsonOf(members["errors"]); !strings.Contains(fields, `"pointer":"`+pointer+`"`) {
			t.Errorf("%s: %s", target, fields)
		}
	}
}
