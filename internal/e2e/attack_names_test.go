package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

// Names, fields and headers that carry line ends never become headers of an answer, nor lines of the log.
func TestAttackHeaderInjection(t *testing.T) {
	t.Parallel()
	b := besiege(t)
	const lines = "\r\nX-Injected: yes\r\nSet-Cookie: a=b\r\n\r\n<script>"
	sends := []string{}
	for _, text := range []string{lines, "\nX-Injected: yes\n", "\rX-Injected: yes\r", "\u010d\u010aX-Injected: yes", "\u2028X-Injected: yes\u2029", "\x00X-Injected: yes"} {
		escaped := url.PathEscape(text)
		query := url.QueryEscape(text)
		inJSON, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{
			"/v1/keys/a" + escaped + "b", "/v1/keys/a" + escaped + "/-/current", "/v1/keys/victim/report/-/current/" + escaped, "/v1/keys/victim/report/-/generations/1/files/" + escaped,
			"/k/a" + escaped, "/b/" + escaped + "/", "/v1/keys?prefix=" + query, "/v1/keys?after=" + query, "/v1/events?after=" + query, "/?q=" + query, "/k/victim/report?done=" + query,
			"/problems/" + escaped, "/static/" + escaped, "/" + escaped, "/v1/keys/victim/report/-/generations/1.zip?name=" + query, "/v1/keys/victim/report/-/current?download=" + query,
		} {
			sends = append(sends, "GET "+path+" HTTP/1.1\r\nHost: pawl\r\nConnection: close\r\n\r\n")
		}
		for _, field := range []string{"holder", "ttl", "lease_id"} {
			body := fmt.Sprintf(`{"holder":"mallory","ttl":"bad",%q:%s}`, field, inJSON)
			sends = append(sends, request("POST /v1/keys/victim/report/-/lease HTTP/1.1\r\nHost: pawl\r\nConnection: close\r\n", body))
		}
		// As they stand, in headers that come back in answers or in the log.
		for _, header := range []string{"X-Request-Id", "Range", "If-None-Match", "Accept", "Pawl-By", "User-Agent", "X-Forwarded-For", "X-Forwarded-Host", "Idempotency-Key", "Last-Event-ID"} {
			sends = append(sends, "GET /v1/keys/victim/report HTTP/1.1\r\nHost: pawl\r\nConnection: close\r\n"+header+": x"+strings.NewReplacer("\r\n\r\n", "\r\n ").Replace(text)+"\r\n\r\n")
		}
		sends = append(sends, "GET / HTTP/1.1\r\nHost: pawl"+strings.NewReplacer("\r\n", "\r\n ").Replace(text)+"\r\nConnection: close\r\n\r\n")
	}
	for _, raw := range sends {
		answer := b.send(raw)
		head, _, _ := strings.Cut(answer, "\r\n\r\n")
		for _, line := range strings.FieldsFunc(head, func(r rune) bool { return r == '\r' || r == '\n' }) {
			if strings.HasPrefix(line, "X-Injected") || strings.HasPrefix(line, "Set-Cookie") {
				t.Errorf("%q put a header into the answer:\n%s", raw, head)
			}
		}
		if code := status(answer); code >= 500 || code == 0 {
			t.Errorf("%q was answered by %d", raw, code)
		}
	}
	for _, line := range strings.Split(b.errs.String(), "\n") {
		if strings.HasPrefix(line, "X-Injected") {
			t.Errorf("the log has the line %q", line)
		}
	}
	b.stands()
}

// Names that lead out of where they stand, as they are and in every way of escaping them, lead nowhere.
func TestAttackPaths(t *testing.T) {
	t.Parallel()
	b := besiege(t)
	var climbs []string
	for _, dots := range []string{"..", "%2e%2e", "%2E.", ".%2e", "%252e%252e", "..;", "%c0%ae%c0%ae", "%e0%80%ae%e0%80%ae", "\uff0e\uff0e", "..%00", "...."} {
		for _, slash := range []string{"/", "%2f", "%2F", "%5c", "\\", "%252f", "%c0%af", "//", "/./"} {
			climbs = append(climbs, strings.Repeat(dots+slash, 8)+"etc/passwd", "x/"+strings.Repeat(dots+slash, 3)+"victim/report")
		}
	}
	climbs = append(climbs, "/etc/passwd", "%2fetc%2fpasswd", "C:%5cwindows%5cwin.ini", "file:///etc/passwd", "victim/report/-/generations/2/files/../../1/files/out.txt", "%2d/victim", "victim/%2d/report", "~root", "%00", "a%00/b")
	roots := []string{"/v1/keys/", "/k/", "/b/", "/static/", "/problems/", "/v1/keys/victim/report/-/current/", "/v1/keys/victim/report/-/generations/1/files/", "/v1/keys/victim/report/-/generations/2/files/", "/"}
	for _, climb := range climbs {
		for _, root := range roots {
			for _, method := range []string{"GET", "PUT", "DELETE"} {
				if method != "GET" && !strings.HasPrefix(root, "/v1/keys/victim") {
					continue
				}
				raw := request(method+" "+strings.ReplaceAll(root+climb, " ", "%20")+" HTTP/1.1\r\nHost: pawl\r\nConnection: close\r\n", "")
				answer := b.send(raw)
				switch code := status(answer); {
				case code >= 500, code == 0, method != "GET" && code < 400:
					t.Errorf("%s was answered by %d", raw, code)
				case strings.Contains(answer, "root:x:0") || code == http.StatusOK && strings.Contains(answer, truth):
					t.Errorf("%s led to\n%s", raw, answer)
				}
			}
		}
	}
	b.stands()
}

// Tokens that were never granted, and lease ids that were never given out, change nothing; not even the next token.
func TestAttackForgeries(t *testing.T) {
	t.Parallel()
	b := besiege(t)
	old, other := b.worker.Token-1, b.ship("other/key", "another", "x")
	b.before = b.state()
	tokens := []string{"1", "2", "3", "0", "-1", "4", "1000000001", "9007199254740991", "9007199254740992", "18446744073709551615", "18446744073709551618", "2.0", "2e0", "0x2", "02", "+2", "%32", "%202", "2%00", "NaN", "true", "\u0662", "\uff12"}
	ids := []string{"", strings.Repeat("0", 32), strings.Repeat("f", 32), other.LeaseID.Hex(), strings.ToUpper(other.LeaseID.Hex()), publish.NewLeaseID().Hex(), "'; DROP TABLE pawl.keys; --", strings.Repeat("a", 31), strings.Repeat("a", 5000)}
	for _, token := range tokens {
		for _, id := range ids {
			for _, call := range []string{"POST %s/publish", "PUT %s/files/out.txt", "PUT %s/files/out.txt?publish=final", "DELETE %s/files/out.txt", "POST %s/uploads", "POST %s/effects/e"} {
				method, path, _ := strings.Cut(fmt.Sprintf(call, "/v1/keys/victim/report/-/generations/"+token), " ")
				for _, headers := range []string{"Pawl-Lease: " + id + "\r\n", "Authorization: Basic " + basic("lease", id) + "\r\n", "Authorization: Bearer " + id + "\r\n"} {
					answer := b.send(request(method+" "+path+" HTTP/1.1\r\nHost: pawl\r\nConnection: close\r\n"+headers, "{}"))
					if code := status(answer); code < 400 || code >= 500 {
						t.Errorf("%s %s with %q was answered by\n%s", method, path, headers, answer)
					}
				}
			}
		}
		for _, id := range ids[1:] {
			for _, method := range []string{"PATCH", "DELETE"} {
				answer := b.send(request(method+" /v1/keys/victim/report/-/lease HTTP/1.1\r\nHost: pawl\r\nConnection: close\r\nPawl-Lease: "+id+"\r\n", `{"ttl":"60s"}`))
				if code := status(answer); code >= 500 || method == "PATCH" && code < 400 {
					t.Errorf("%s of a lease with %q was answered by\n%s", method, id, answer)
				}
			}
		}
	}
	b.stands()
	if err := b.publish(b.worker); err != nil {
		t.Errorf("the worker can't publish: %v", err)
	}
	if next := b.acquire("victim/report", "next"); next.Token != old+2 {
		t.Errorf("the next token is %d", next.Token)
	}
}

// Every changing route refuses what a browser sends for a page of another site, or for one that bent a name to this address.
func TestAttackCrossSite(t *testing.T) {
	t.Parallel()
	b := besiege(t)
	fill := strings.NewReplacer("{key}", "victim/report", "{token}", "2", "{path}", "out.txt", "{upload}", strings.Repeat("a", 32), "{name}", "e", ":file", "x", ":code", "x", "*", "")
	routes := web.RouteNames()
	changing := slices.DeleteFunc(slices.Clone(routes), func(route string) bool { return strings.HasPrefix(route, "GET ") })
	if len(changing) < 20 {
		t.Fatalf("only %d routes change something", len(changing))
	}
	for _, route := range changing {
		for _, from := range []string{"Host: pawl\r\nOrigin: https://evil.example\r\n", "Host: pawl\r\nSec-Fetch-Site: cross-site\r\n", "Host: pawl\r\nSec-Fetch-Site: same-site\r\nOrigin: http://pawl.evil.example\r\n", "Host: pawl\r\nOrigin: null\r\n", "Host: rebound.evil.example\r\n"} {
			if strings.HasPrefix(from, "Host: pawl") {
				from = strings.Replace(from, "Host: pawl", "Host: "+b.addr, 1)
			}
			raw := request(fill.Replace(route)+" HTTP/1.1\r\nConnection: close\r\nContent-Type: application/x-www-form-urlencoded\r\nPawl-Lease: "+b.worker.LeaseID.Hex()+"\r\n"+from, "token=2&reason=x&by=x&confirm=report")
			if answer := b.send(raw); status(answer) != http.StatusForbidden {
				t.Errorf("%s was answered by %.200s", raw, answer)
			}
		}
	}
	b.stands()
}

func basic(user, password string) string {
	return base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
}
