package web_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

// raw sends a request as it stands, on a connection of its own.
func (r *rig) raw(request string) answer {
	r.t.Helper()
	conn, err := net.Dial("tcp", r.server.Listener.Addr().String())
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, request); err != nil {
		r.t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		r.t.Fatalf("%q: %v", request, err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatalf("%q: %v", request, err)
	}
	return answer{t: r.t, status: res.StatusCode, header: res.Header, body: string(body)}
}

// TestForeignHostsAreRefused: a page that binds its name anew to loopback is of the same origin for a browser, but its name stands in Host.
func TestForeignHostsAreRefused(t *testing.T) {
	t.Parallel()
	hosts, err := web.ParseHosts("Pawl.Example.com., 192.0.2.7,[2001:db8::1]")
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, web.Options{CheckHost: true, Hosts: hosts})
	line := func(target, version string, headers ...string) string {
		return fmt.Sprintf("GET %s %s\r\n%sConnection: close\r\n\r\n", target, version, strings.Join(headers, ""))
	}
	host := func(name string) string { return line("/v1/keys", "HTTP/1.1", "Host: "+name+"\r\n") }
	for _, request := range []string{
		host("localhost"), host("localhost:8484"), host("LocalHost:1"), host("localhost."), host("localhost.:8484"), host("localhost:"),
		host("127.0.0.1"), host("127.0.0.1:8484"), host("127.9.9.9"), host("127.0.0.1.:80"), host("[::1]"), host("[::1]:8484"),
		host("[0:0:0:0:0:0:0:1]:8484"), host("[::ffff:127.0.0.1]:8484"),
		host("pawl.example.com"), host("PAWL.example.com.:443"), host("192.0.2.7:80"), host("[2001:DB8::1]:80"),
		line("http://localhost:8484/v1/keys", "HTTP/1.1", "Host: localhost:8484\r\n"),
		line("/v1/keys", "HTTP/1.0", "Host: localhost\r\n"),
	} {
		if got := r.raw(request); got.status != http.StatusOK {
			t.Errorf("%q: status %d, want 200: %s", request, got.status, got.body)
		}
	}
	for _, request := range []string{
		host("evil.example"), host("evil.example:8484"), host("evil.example."), host("EVIL.example"), host("localhost.evil.example"),
		host("evil.localhost"), host("127.0.0.1.evil.example"), host("pawl.example.com.evil.example"), host("x.pawl.example.com"),
		host("0.0.0.0:8484"), host("[::]:8484"), host("10.0.0.1"), host("[2001:db8::2]"), host("[::1%25lo]:8484"), host("[::1%lo]"),
		host("localhost:evil"), host("localhost:80:80"), host("[localhost]"), host("[127.0.0.1]"), host("localhost.."),
		host("."), host(":8484"), host(""), host("2130706433"), host("0x7f.1"), host("127.1"),
		line("http://evil.example/v1/keys", "HTTP/1.1", "Host: localhost\r\n"),
		line("/v1/keys", "HTTP/1.0"), // no Host at all
		line("/", "HTTP/1.1", "Host: evil.example\r\n"), line("/static/style.css", "HTTP/1.1", "Host: evil.example\r\n"),
		line("/livez", "HTTP/1.1", "Host: evil.example\r\n"), line("/metrics", "HTTP/1.1", "Host: evil.example\r\n"),
		line("/problems/forbidden", "HTTP/1.1", "Host: evil.example\r\n"), line("/nothing", "HTTP/1.1", "Host: evil.example\r\n"),
		line("/v1/keys/k/-/lease", "HTTP/1.1", "Host: evil.example\r\n"),
		"POST /v1/keys/k/-/lease HTTP/1.1\r\nHost: evil.example\r\nOrigin: http://evil.example\r\nSec-Fetch-Site: same-origin\r\n" +
			"Content-Length: 14\r\nConnection: close\r\n\r\n{\"holder\":\"h\"}",
	} {
		if detail := fmt.Sprint(r.raw(request).wantProblem(publish.ErrForbidden)["detail"]); !strings.Contains(detail, "PAWL_HOSTS") {
			t.Errorf("%q: the detail doesn't name the setting: %s", request, detail)
		}
	}
	r.call("GET", "/v1/keys/k/-/lease", "").wantProblem(publish.ErrNotFound) // Nothing was granted to the page.
	// A name that comes as an absolute target counts, and not the header beside it.
	r.raw(line("http://127.0.0.1/v1/keys", "HTTP/1.1", "Host: evil.example\r\n")).want(http.StatusOK)
}

// Without the setting nothing is checked: a server that others reach has names that it doesn't know.
func TestHostsUnchecked(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	r.raw("GET /v1/keys HTTP/1.1\r\nHost: any.example\r\nConnection: close\r\n\r\n").want(http.StatusOK)
	r.raw("GET /v1/keys HTTP/1.0\r\n\r\n").want(http.StatusOK)
}

func TestParseHosts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"": nil, " ": nil, "a.example": {"a.example"}, "A.Example., b_c": {"a.example", "b_c"}, "::1,[::2]": {"::1", "::2"}, "192.0.2.7": {"192.0.2.7"},
	} {
		if got, err := web.ParseHosts(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("ParseHosts(%q) = %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{",", "a,,b", "a,", "http://a.example", "a.example:443", "[::1]:80", "*", "*.example", "a b", "bücher.example", "a/b", "fe80::1%eth0", "[a]"} {
		if got, err := web.ParseHosts(text); err == nil || !strings.Contains(err.Error(), "xn--") {
			t.Errorf("ParseHosts(%q) = %q, %v; want an error with the cure", text, got, err)
		}
	}
}

// What isn't read as a request at all is answered by net/http, in plain text: README says so.
func TestRefusedBeforeTheRequest(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	for request, want := range map[string]int{
		"NONSENSE\r\n\r\n":            http.StatusBadRequest,
		"GET / HTTP/1.1\r\n\r\n":      http.StatusBadRequest, // without Host
		"GET / HTTP/1.1\r\nA\r\n\r\n": http.StatusBadRequest,
		"GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 80<<10) + "\r\n\r\n": http.StatusRequestHeaderFieldsTooLarge,
	} {
		got := r.raw(request).want(want)
		if kind := got.header.Get("Content-Type"); !strings.HasPrefix(kind, "text/plain") {
			t.Errorf("%.40q: %v", request, got.header)
		}
	}
}
