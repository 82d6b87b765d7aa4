package web_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

func TestClientAddress(t *testing.T) {
	t.Parallel()
	proxies, err := web.ParseProxies(" 10.0.0.0/8, 192.0.2.7,fd00::/8 ,::ffff:198.51.100.1")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		remote    string
		forwarded []string
		want      string
	}{
		{"203.0.113.5:1234", nil, "203.0.113.5"},
		{"203.0.113.5:1234", []string{"8.8.8.8"}, "203.0.113.5"}, // nobody's proxy
		{"192.0.2.8:1", []string{"8.8.8.8"}, "192.0.2.8"},
		{"192.0.2.7:1", []string{"8.8.8.8"}, "8.8.8.8"},
		{"[::ffff:192.0.2.7]:1", []string{"8.8.8.8"}, "8.8.8.8"},
		{"[fd00::1]:1", []string{"2001:db8::9"}, "2001:db8::9"},
		{"[fe80::1%eth0]:1", []string{"8.8.8.8"}, "fe80::1"},
		{"198.51.100.1:1", []string{"8.8.8.8:4711"}, "8.8.8.8"},
		{"10.1.2.3:1", []string{"[2001:db8::9]:4711"}, "2001:db8::9"},
		{"10.1.2.3:1", []string{"[2001:db8::9]"}, "2001:db8::9"},
		{"10.1.2.3:1", []string{"1.1.1.1, 8.8.8.8, 10.9.9.9"}, "8.8.8.8"}, // 1.1.1.1 is what the client has written
		{"10.1.2.3:1", []string{"1.1.1.1", "8.8.8.8", "10.9.9.9"}, "8.8.8.8"},
		{"10.1.2.3:1", []string{"10.4.4.4, 10.9.9.9"}, "10.4.4.4"},
		{"10.1.2.3:1", []string{"8.8.8.8, unknown, 10.9.9.9"}, "10.9.9.9"},
		{"10.1.2.3:1", []string{"8.8.8.8, , 10.9.9.9"}, "10.9.9.9"},
		{"10.1.2.3:1", []string{"[8.8.8.8"}, "10.1.2.3"},
		{"10.1.2.3:1", []string{"8.8.8.8\u00a0x"}, "10.1.2.3"},
		{"10.1.2.3:1", []string{""}, "10.1.2.3"},
		{"10.1.2.3:1", nil, "10.1.2.3"},
		{"@", []string{"8.8.8.8"}, "invalid IP"},
		{"10.1.2.3:1", []string{strings.Repeat("10.1.1.1,", 5000) + "10.2.2.2"}, "10.1.1.1"},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = test.remote
		r.Header["X-Forwarded-For"] = test.forwarded
		if got := web.ClientAddress(proxies, r).String(); got != test.want {
			t.Errorf("%s with %.60q is %s, want %s", test.remote, test.forwarded, got, test.want)
		}
	}
	for _, wrong := range []string{"10.0.0.0/33", "10.0.0.0/8,", "pawl.example", "10.0.0.0/8 fd00::/8", "fe80::1%eth0", "*", "::ffff:10.0.0.0/104"} {
		if _, err := web.ParseProxies(wrong); err == nil || !strings.Contains(err.Error(), "10.0.0.0/8") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	if none, err := web.ParseProxies("  "); err != nil || none != nil {
		t.Errorf("an empty list is %v, %v", none, err)
	}
}

// The log tells who has sent a request, by what trusted proxies say and nobody else.
func TestClientAddressInTheLog(t *testing.T) {
	t.Parallel()
	for name, proxies := range map[string][]netip.Prefix{"127.0.0.1": nil, "203.0.113.5": {netip.MustParsePrefix("127.0.0.0/8")}} {
		r := newRig(t, web.Options{TrustedProxies: proxies})
		r.call("GET", "/v1/keys/nothing", "", "X-Forwarded-For", "203.0.113.5").wantProblem(publish.ErrNotFound)
		await(t, func() bool { return strings.Contains(r.log.String(), `"client":"`+name+`"`) })
	}
}
