package web_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

// behindProxy lets tests call as whom they like, by X-Forwarded-For.
func behindProxy(t *testing.T, opts web.Options) *rig {
	t.Helper()
	proxies, err := web.ParseProxies("127.0.0.0/8, ::1")
	if err != nil {
		t.Fatal(err)
	}
	opts.TrustedProxies = proxies
	return newRig(t, opts)
}

// Each caller has a number of requests at once; one more is refused, with the time after which it may be sent again. Others go on.
func TestRateLimit(t *testing.T) {
	t.Parallel()
	r := behindProxy(t, web.Options{Rate: 0.001, RateBurst: 3})
	as := func(caller, target string, headers ...string) answer {
		return r.call("GET", target, "", append([]string{"X-Forwarded-For", caller}, headers...)...)
	}
	for _, want := range []string{`"default";r=2;t=1000`, `"default";r=1;t=2000`, `"default";r=0;t=3000`} {
		got := as("192.0.2.1", "/v1/keys").want(200)
		if got.header.Get("RateLimit") != want || got.header.Get("RateLimit-Policy") != `"default";q=3;w=3000` {
			t.Errorf("RateLimit %q, RateLimit-Policy %q; want %s", got.header.Get("RateLimit"), got.header.Get("RateLimit-Policy"), want)
		}
	}
	for _, target := range []string{"/v1/keys", "/v1/keys/k", "/v1/nothing", "/activity"} {
		got := as("192.0.2.1", target, "Accept", "application/json")
		members := got.wantProblem(publish.ErrRateLimited)
		pause, err := strconv.Atoi(got.header.Get("Retry-After"))
		if err != nil || pause < 900 || pause > 1000 || members["retry_after_ms"] != float64(pause)*1000 {
			t.Errorf("%s: Retry-After %q, members %v", target, got.header.Get("Retry-After"), members)
		}
		if want := fmt.Sprintf(`"default";r=0;t=%d`, pause); got.header.Get("RateLimit") != want {
			t.Errorf("%s: RateLimit %q, want %s", target, got.header.Get("RateLimit"), want)
		}
	}
	if page := as("192.0.2.1", "/activity", "Accept", "text/html"); page.status != http.StatusTooManyRequests || !strings.Contains(page.body, "Rate limited") {
		t.Errorf("a page is refused with %d: %s", page.status, page.body)
	}
	for range 5 {
		for _, target := range []string{"/livez", "/readyz", "/metrics", "/static/style.css"} {
			if got := as("192.0.2.1", target).want(200); got.header.Get("RateLimit") != "" {
				t.Errorf("%s has RateLimit %q", target, got.header.Get("RateLimit"))
			}
		}
	}
	as("192.0.2.2", "/v1/keys").want(200)
	if metrics := as("192.0.2.1", "/metrics").body; !strings.Contains(metrics, "\npawl_rate_limited_total 5\n") {
		t.Error("the metrics don't count five requests that were refused")
	}
}

// Without a limit nothing is said about one.
func TestNoRateLimit(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	if got := r.call("GET", "/v1/keys", "").want(200); got.header.Get("RateLimit") != "" || got.header.Get("RateLimit-Policy") != "" {
		t.Errorf("headers %v", got.header)
	}
}

// A bucket refills with time and is never fuller than full.
func TestRateLimitRefills(t *testing.T) {
	t.Parallel()
	limit, now := web.NewRateLimit(2, 0), time.Now()
	want := func(after time.Duration, taken bool, left int64, in time.Duration) {
		t.Helper()
		now = now.Add(after)
		gotTaken, gotLeft, gotIn := limit.Take("a", now)
		if gotTaken != taken || gotLeft != left || (gotIn-in).Abs() > time.Millisecond {
			t.Errorf("got %t, %d left, %s; want %t, %d, %s", gotTaken, gotLeft, gotIn, taken, left, in)
		}
	}
	for left := range int64(4) {
		want(0, true, 3-left, time.Duration(left+1)*time.Second/2)
	}
	want(0, false, 0, time.Second/2)
	want(time.Second/4, false, 0, time.Second/4)
	want(time.Second/4, true, 0, 2*time.Second)
	want(time.Hour, true, 3, time.Second/2)
}

// Strangers, however many, don't fill the memory, nor do they take the place of who calls all the time.
func TestCallersAreBounded(t *testing.T) {
	t.Parallel()
	limit, now := web.NewRateLimit(1, 2), time.Now()
	for range 2 {
		limit.Take("regular", now)
	}
	for i := range 2 * web.MaxCallers {
		limit.Take(fmt.Sprint(i), now)
		if i%1000 == 0 {
			if taken, _, _ := limit.Take("regular", now); taken {
				t.Fatalf("after %d strangers it is forgotten what a regular caller has sent", i)
			}
		}
	}
	if known := limit.Known(); known != web.MaxCallers {
		t.Errorf("%d callers are remembered, want %d", known, web.MaxCallers)
	}
	if taken, _, _ := limit.Take("0", now); !taken {
		t.Error("a caller that was forgotten is refused")
	}
}

// Of many requests at once as many pass as there is room for.
func TestRateLimitInParallel(t *testing.T) {
	t.Parallel()
	limit, now := web.NewRateLimit(1, 100), time.Now()
	var passed atomic.Int64
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			for range 20 {
				if taken, _, _ := limit.Take(fmt.Sprint(i%2), now); taken {
					passed.Add(1)
				}
			}
		})
	}
	all.Wait()
	if passed.Load() != 200 {
		t.Errorf("%d requests of two callers passed, want 100 of each", passed.Load())
	}
}

func TestCallerOf(t *testing.T) {
	t.Parallel()
	for remote, want := range map[string]string{
		"192.0.2.7:1": "192.0.2.7", "[::ffff:192.0.2.7]:1": "192.0.2.7",
		"[2001:db8:1:2:3::4]:1": "2001:db8:1:2::/64", "[2001:db8:1:2:ffff::5%eth0]:1": "2001:db8:1:2::/64", "[2001:db8:1:3::4]:1": "2001:db8:1:3::/64",
	} {
		if got := web.CallerOf(nil, &http.Request{RemoteAddr: remote}); got != want {
			t.Errorf("%s is the caller %s, want %s", remote, got, want)
		}
	}
}

// An upload that is refused for the rate shows at the final publish, since its sender may not look at the answer. Sent again, it counts.
func TestRateLimitedUploadIsMarked(t *testing.T) {
	t.Parallel()
	r := behindProxy(t, web.Options{Rate: 0.001, RateBurst: 1})
	n := 0
	next := func() []string { // a caller that nobody was before
		n++
		return []string{"X-Forwarded-For", fmt.Sprintf("192.0.2.%d", n)}
	}
	lease := r.call("POST", "/v1/keys/k/-/lease", `{"holder":"W"}`, next()...).want(201).json()
	w := worker{rig: r, key: "k", token: 1, lease: lease["lease_id"].(string)}
	w.put("first", "1", next()...).want(201)
	busy := next()
	r.call("GET", "/v1/keys", "", busy...).want(200)
	w.put("second", "2", busy...).wantProblem(publish.ErrRateLimited)
	w.call("PUT", w.generation()+"/files/third", "3", append(busy, "Pawl-Lease", strings.Repeat("0", 32))...).wantProblem(publish.ErrRateLimited)
	w.call("PUT", w.generation()+"/files/fourth", "4", busy...).wantProblem(publish.ErrRateLimited)
	w.call("PUT", "/v1/keys/k/-/pin", "{}", busy...).wantProblem(publish.ErrRateLimited)
	if members := w.publish(`{"primary":"first"}`, next()...).wantProblem(publish.ErrGenerationIncomplete); fmt.Sprint(members["failed"]) != "[second]" {
		t.Errorf("failed: %v", members["failed"])
	}
	w.put("second", "2", next()...).want(201)
	w.publish(`{"primary":"first"}`, next()...).want(200)
}
