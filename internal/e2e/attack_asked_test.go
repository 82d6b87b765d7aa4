package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

// anyDate is what answers have that were given at different times.
var anyDate = regexp.MustCompile(`(?mi)^(Date|RateLimit): .*\n`)

// hidden is in the name of everything that the attackers don't know: no answer to them may have it.
const hidden = "canary"

// besiegeAsking is besiege on a server that asks everybody for a credential. There are things on it whose names no attacker knows.
func besiegeAsking(t *testing.T) *besieged {
	t.Helper()
	dsn := testenv.Postgres(t)
	b := &besieged{t: t, dsn: dsn, server: serve(t, dsn, directory(t), "PAWL_AUTH=required", "PAWL_LOG_LEVEL=debug")}
	b.honest = b.credential("honest", "admin:victim/")
	var err error
	if b.api, err = client.New(b.url, client.Options{Credential: b.honest}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.api.Close)
	key := publish.Key("victim/" + hidden)
	stale := b.ship(key, hidden, hidden)
	b.ship(key, hidden, hidden+" again")
	if err := b.upload(stale, "late"); err == nil {
		t.Fatal("a stale upload is no rejection")
	}
	b.acquire(key+"/held", hidden)
	ctx := context.Background()
	if _, err := b.api.Pin(ctx, publish.PinRequest{Key: key, Reason: hidden}); err != nil {
		t.Fatal(err)
	}
	if err := b.api.SetPolicy(ctx, publish.Policy{Prefix: "victim/" + hidden, FenceMode: publish.FenceAccepted}, ""); err != nil {
		t.Fatal(err)
	}
	b.work()
	return b
}

// credential makes one, whose text must show nowhere.
func (b *besieged) credential(name, scopes string) string {
	b.t.Helper()
	text, _ := issue(b.t, b.dsn, name, scopes)
	b.secrets = append(b.secrets, text)
	return text
}

// askedBodies are what makes a request of a route that who may do it gets done.
var askedBodies = map[string]string{
	"POST /v1/keys/{key}/-/lease":                                      `{"holder":"mallory","ttl":"30s"}`,
	"PATCH /v1/keys/{key}/-/lease":                                     `{"ttl":"60s"}`,
	"POST /v1/keys/{key}/-/generations/{token}/uploads":                `{"path":"g","size":4,"sha256":"` + strings.Repeat("ab", 32) + `"}`,
	"POST /v1/keys/{key}/-/generations/{token}/uploads/{upload}/parts": `{"part_numbers":[1]}`,
	"POST /v1/keys/{key}/-/rollback":                                   `{"to":1,"reason":"r","break_lease":true}`,
	"PUT /v1/keys/{key}/-/pin":                                         `{"reason":"r"}`,
	"POST /v1/resolve":                                                 `{"keys":["victim/report"]}`,
	"PUT /v1/policies":                                                 `{"max_ttl":"1s"}`,
	"POST /v1/credentials":                                             `{"name":"made","scopes":["read:victim/"]}`,
	"POST /policies":                                                   "prefix=victim%2F&max_ttl=1s",
	"POST /credentials":                                                "name=made&scopes=read%3Avictim%2F",
	"POST /credentials/:id/rotate":                                     "",
	"POST /credentials/:id/revoke":                                     "",
	"POST /sign-in":                                                    "credential=pawl_c_" + strings.Repeat("0", 38),
}

// assault asks every route about the victim's keys, as whoever the headers say, and returns what each was answered.
func (b *besieged) assault(headers string) map[string]string {
	b.t.Helper()
	var honest string
	if err := connect(b.t, b.dsn).QueryRow(context.Background(), `SELECT id FROM pawl.credentials WHERE name = 'honest'`).Scan(&honest); err != nil {
		b.t.Fatal(err)
	}
	answers := map[string]string{}
	ask := func(name, method, target, body string, more ...string) {
		head := method + " " + target + " HTTP/1.1\r\nHost: " + b.addr + "\r\nConnection: close\r\n" + headers + strings.Join(more, "")
		if strings.HasPrefix(target, "/v1/") {
			head += "Content-Type: application/json\r\n"
		} else {
			head += "Content-Type: application/x-www-form-urlencoded\r\n"
		}
		answers[name] = b.ask(request(head, body))
	}
	for _, route := range web.RouteNames() {
		method, pattern, _ := strings.Cut(route, " ")
		target := strings.NewReplacer("{key}", "victim/report", "{token}", "2", "{path}", "out.txt", "{upload}", strings.Repeat("a", 32)+".", "{name}", "e",
			":id", honest, ":file", "style.css", ":code", "forbidden", "/b/*", "/b/victim/").Replace(pattern)
		body, known := askedBodies[route]
		if !known && method == http.MethodPost {
			body = "{}"
			if !strings.HasPrefix(target, "/v1/") {
				body = "token=2&reason=r&confirm=report&to=1"
			}
		}
		if strings.HasSuffix(pattern, "/policies") && method != http.MethodGet && method != http.MethodPost {
			target += "?prefix=victim/"
		}
		lease := ""
		if method != http.MethodGet && (strings.Contains(pattern, "{token}") || strings.HasSuffix(pattern, "/-/lease")) && strings.HasPrefix(pattern, "/v1/") {
			lease = "Pawl-Lease: " + strings.Repeat("0", 32) + "\r\n"
		}
		ask(route, method, target, body, lease)
	}
	for _, target := range []string{
		"/v1/keys?prefix=victim/", "/v1/keys?q=report", "/v1/keys?after=victim", "/v1/keys?delimiter=/", "/v1/events?after=0-0", "/v1/events?after=0-0&prefix=victim/", "/v1/events?before=newest",
		"/v1/rejections?prefix=victim/", "/v1/leases?prefix=victim/&expired=true", "/v1/audit?format=ndjson", "/v1/audit?format=csv", "/v1/leases?format=csv", "/v1/policies?after=victim", "/v1/credentials?limit=100",
		"/?q=report", "/b/victim/?q=report", "/activity?prefix=victim/", "/rejections?prefix=victim/", "/leases?prefix=victim/", "/k/victim/report/-/compare?a=1.1&b=1.1",
		"/v1/keys/victim/report?wait=1s", "/v1/keys/neighbour/../victim/report", "/v1/keys/neighbour/%2e%2e/victim/report", "/v1/keys/neighbour%2f..%2fvictim/report", "/v1/keys/victims/..%2fvictim%2freport",
		"/v1/keys/victim%2freport", "/v1/keys/VICTIM/report", "/v1/keys/victim/report/-/generations/1/files/out.txt", "/v1/keys/victim/report/-/generations/1.zip",
	} {
		ask("GET "+target, http.MethodGet, target, "")
	}
	return answers
}

// withhold checks that nothing of the victim is in answers.
func (b *besieged) withhold(who string, answers map[string]string) {
	b.t.Helper()
	for name, answer := range answers {
		for _, known := range []string{hidden, truth, "honest", "victim/report/"} {
			if strings.Contains(answer, known) {
				b.t.Errorf("%s, %s: %q is told:\n%s", who, name, known, answer)
			}
		}
	}
}

// Where everybody is asked for a credential, somebody without a good one gets in nowhere, whatever is shown, and hears of nothing that is there.
func TestAttackWithoutCredential(t *testing.T) {
	t.Parallel()
	b := besiegeAsking(t)
	near := b.honest[:len(b.honest)-1] + string('a'+(b.honest[len(b.honest)-1]+1)%26)
	b.secrets = append(b.secrets, near)
	open := []string{"GET /livez", "GET /readyz", "GET /static/:file", "GET /problems/:code", "GET /sign-in", "POST /sign-in", "POST /sign-in/issuer", "GET /sign-in/callback", "POST /sign-out"}
	shown := map[string]string{"nothing": "", "another letter": "Authorization: Bearer " + near + "\r\n"}
	for who, headers := range shown {
		answers := b.assault(headers)
		for name, answer := range answers {
			code := status(answer)
			if answered := slices.Contains(open, name) && code < 500; code != http.StatusUnauthorized && !answered {
				t.Errorf("%s, %s: answered by %d:\n%s", who, name, code, answer)
			}
		}
		b.withhold(who, answers)
	}
	// Whatever stands for a credential: of a form that is none, too long, twice, in the address, in a cookie.
	for _, header := range []string{
		"Authorization: Bearer " + b.honest + "\r\nAuthorization: Bearer " + b.honest, "Authorization: Bearer " + b.honest + "x", "Authorization: Bearer " + strings.Repeat(b.honest, 1000), "Authorization: Basic " + basic("honest", b.honest),
		"Authorization: Basic " + basic("lease", b.honest), "Authorization: Basic " + basic("lease", strings.Repeat("0", 32)), "Authorization: Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJob25lc3QifQ.", "Authorization: Digest " + b.honest,
		"Authorization: Bearer \x00" + b.honest, "Authorization: Bearer " + b.honest + "\x0b", "Cookie: pawl=" + b.honest, "Cookie: __Host-pawl=" + b.honest, "Cookie: pawl=" + strings.Repeat("0", 43), "X-Authorization: Bearer " + b.honest,
		"X-Forwarded-User: honest", "Pawl-By: honest", "Proxy-Authorization: Bearer " + b.honest,
	} {
		for _, target := range []string{"/v1/keys", "/v1/keys/victim/report", "/v1/keys/victim/report/-/generations/1/files/out.txt", "/metrics"} {
			answer := b.ask("GET " + target + " HTTP/1.1\r\nHost: " + b.addr + "\r\nConnection: close\r\n" + header + "\r\n\r\n")
			if code := status(answer); code < 400 || code >= 500 {
				t.Errorf("%s with %.60q was answered by\n%s", target, header, answer)
			}
		}
	}
	if answer := b.ask("GET /v1/keys?credential=" + url.QueryEscape(b.honest) + " HTTP/1.1\r\nHost: " + b.addr + "\r\nConnection: close\r\n\r\n"); status(answer) != http.StatusUnauthorized {
		t.Errorf("a credential in the address was answered by\n%s", answer)
	}
	// A good one is that of its own request: not of the next one on the connection, nor of what hides in its body.
	good := "Host: " + b.addr + "\r\nAuthorization: Bearer " + b.credential("reader", "read:neighbour/") + "\r\n"
	inner := request("POST /v1/keys/victim/report/-/lease HTTP/1.1\r\nHost: "+b.addr+"\r\n", `{"holder":"mallory","ttl":"30s"}`)
	b.before = b.state()
	for _, raw := range []string{
		"GET /v1/keys HTTP/1.1\r\n" + good + "\r\n" + inner,
		"POST /v1/resolve HTTP/1.1\r\n" + good + fmt.Sprintf("Content-Length: 0\r\nContent-Length: %d\r\n\r\n", len(inner)) + inner,
		"POST /v1/resolve HTTP/1.1\r\n" + good + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + inner,
	} {
		if answer := b.send(raw); strings.Contains(answer, " 201 ") || strings.Contains(answer, "lease_id\"") {
			t.Errorf("%q was answered by\n%s", raw, answer)
		}
	}
	b.stands()
}

// A neighbour, whose credential is good for a prefix that looks much like the victim's, reads and changes nothing of the victim, and can't tell its keys from such as
// never were.
func TestAttackByANeighbour(t *testing.T) {
	t.Parallel()
	b := besiegeAsking(t)
	for i, scopes := range []string{"admin:victim2/", "admin:victi/,admin:neighbour/", "admin:victim/report2,read:neighbour"} {
		name := fmt.Sprintf("mallory-%d", i)
		headers := "Authorization: Bearer " + b.credential(name, scopes) + "\r\n"
		b.before = b.state()
		answers := b.assault(headers)
		for route, answer := range answers {
			code := status(answer)
			about := strings.Contains(route, "{key}") || strings.Contains(route, ":id")
			if code == 0 || code >= 500 || about && code != http.StatusNotFound {
				t.Errorf("%s, %s: answered by\n%s", scopes, route, answer)
			}
		}
		b.withhold(scopes, answers)
		for _, target := range []string{"/v1/keys/%s", "/v1/keys/%s/-/lease", "/v1/keys/%s/-/generations", "/v1/keys/%s/-/generations/1/files/out.txt", "/v1/keys/%s/-/current"} {
			var seen [2]string
			for j, key := range []string{"victim/report", "victim/nobody"} {
				answer := b.ask("GET " + fmt.Sprintf(target, key) + " HTTP/1.1\r\nHost: " + b.addr + "\r\nConnection: close\r\nX-Request-Id: same\r\n" + headers + "\r\n")
				seen[j] = anyDate.ReplaceAllString(strings.ReplaceAll(answer, key, "KEY"), "")
			}
			if seen[0] != seen[1] {
				t.Errorf("%s, %s: a key that is there shows:\n%s\n%s", scopes, target, seen[0], seen[1])
			}
		}
	}
	b.stands()
}

// Who may publish under the victim's prefix, but holds no lease of this key, can't use up its tokens, or lock it, by naming large ones.
func TestAttackTokenPoisoning(t *testing.T) {
	t.Parallel()
	b := besiegeAsking(t)
	headers := "Authorization: Bearer " + b.credential("mallory", "publish:victim/") + "\r\n"
	own := b.acquire("victim/own", "mallory")
	b.before = b.state()
	for _, token := range []string{"3", "1000000001", "4611686018427387904", "9007199254740991", "9007199254740992", "9223372036854775807", "18446744073709551615", strings.Repeat("9", 400)} {
		for _, id := range []string{own.LeaseID.Hex(), publish.NewLeaseID().Hex(), strings.Repeat("0", 32)} {
			for _, call := range []string{
				"POST %s/publish", "PUT %s/files/out.txt", "PUT %s/files/out.txt?publish=true", "DELETE %s/files/out.txt", "POST %s/uploads", "POST %s/effects/e",
			} {
				method, path, _ := strings.Cut(fmt.Sprintf(call, "/v1/keys/victim/report/-/generations/"+token), " ")
				body := "{}"
				if strings.HasSuffix(path, "/uploads") {
					body = askedBodies["POST /v1/keys/{key}/-/generations/{token}/uploads"]
				}
				answer := b.ask(request(method+" "+path+" HTTP/1.1\r\nHost: "+b.addr+"\r\nConnection: close\r\nPawl-Lease: "+id+"\r\n"+headers, body))
				if code := status(answer); code < 400 || code >= 500 {
					t.Errorf("%s %s with %s was answered by\n%s", method, path, id, answer)
				}
			}
		}
	}
	b.secrets = append(b.secrets, own.LeaseID.Hex())
	b.stands()
	if err := b.publish(b.worker); err != nil {
		t.Errorf("the worker can't publish: %v", err)
	}
	if next := b.acquire("victim/report", "next"); next.Token != b.worker.Token+1 {
		t.Errorf("the next token is %d", next.Token)
	}
}
