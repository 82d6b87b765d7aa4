package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/internal/testenv"
)

// besieged is a server that strangers attack while an honest worker is at work on it. What they send, and what it answers, goes over bare connections: a
// client's library would refuse to send most of it.
type besieged struct {
	*server
	t       *testing.T
	dsn     string
	honest  string       // the worker's credential, "" where nobody is asked for one
	worker  client.Lease // of the key "victim/report", which is published, and has a file more that isn't
	before  string
	secrets []string
	answers strings.Builder
}

const truth = "what was published"

func besiege(t *testing.T) *besieged {
	t.Helper()
	dsn := testenv.Postgres(t)
	b := &besieged{t: t, dsn: dsn, server: serve(t, dsn, directory(t))}
	b.work()
	return b
}

// work is what the honest worker has done before the attack.
func (b *besieged) work() {
	b.t.Helper()
	old := b.ship("victim/report", "honest", truth)
	b.worker = b.acquire("victim/report", "honest")
	if err := b.upload(b.worker, "not yet published"); err != nil {
		b.t.Fatal(err)
	}
	b.secrets = append(b.secrets, b.worker.LeaseID.Hex(), old.LeaseID.Hex(), b.dsn, "not yet published")
	b.before = b.state()
}

// state is all that somebody could have changed. Rejections aren't in it, nor other refusals: that one was refused is recorded. Nor is when a credential was
// used last.
func (b *besieged) state() string {
	b.t.Helper()
	var all strings.Builder
	conn := connect(b.t, b.dsn)
	for _, table := range []string{
		"keys", "generations", "files", "receipts", "effects", "effect_tokens", "pins", "policies", "audit", "broken_leases", "caller_leases", "credentials", "sessions", "epochs", "stores",
	} {
		from := "pawl." + table
		switch table {
		case "audit":
			from = "(SELECT * FROM pawl.audit WHERE refused IS NULL)"
		case "credentials":
			from = "(SELECT id, name, scopes, hash, expires_at, revoked_at FROM pawl.credentials)"
		}
		var rows int
		var sum string
		err := conn.QueryRow(context.Background(), `SELECT count(*), coalesce(md5(string_agg(r::text, E'\n' ORDER BY r::text)), '') FROM `+from+` r`).Scan(&rows, &sum)
		if err != nil {
			b.t.Fatal(err)
		}
		fmt.Fprintf(&all, "%s %d %s\n", table, rows, sum)
	}
	return all.String()
}

// send writes bytes on a connection of their own and returns all that comes back until the server ends it, or is silent.
func (b *besieged) send(raw string) string {
	b.t.Helper()
	return b.exchange(raw, true)
}

// ask is send for one whole request with Connection: close. Its answer isn't that to somebody who seems to have gone away meanwhile.
func (b *besieged) ask(raw string) string {
	b.t.Helper()
	return b.exchange(raw, false)
}

func (b *besieged) exchange(raw string, endsSending bool) string {
	b.t.Helper()
	conn, err := net.Dial("tcp", b.addr)
	if err != nil {
		b.t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // All is read.
	_ = conn.SetDeadline(time.Now().Add(patience))
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = io.WriteString(conn, raw) // A server that has heard enough may close the connection under it.
		if endsSending {
			_ = conn.(*net.TCPConn).CloseWrite()
		}
	}()
	answer, err := io.ReadAll(conn)
	_ = conn.SetDeadline(time.Now())
	<-sent
	if len(answer) == 0 && err != nil && strings.Contains(err.Error(), "timeout") {
		b.t.Errorf("no answer, and the connection stays: %.200q", raw)
	}
	b.answers.Write(answer)
	return string(answer)
}

// status is the code of the first answer, 0 when there was none.
func status(answer string) (code int) {
	_, _ = fmt.Sscanf(answer, "HTTP/1.%d %d", new(int), &code)
	return code
}

// stands checks that the server serves others as before, that nothing is changed, and that nobody has learnt what he may not know.
func (b *besieged) stands() {
	b.t.Helper()
	if got := b.current(); got != truth {
		b.t.Errorf("readers get %q", got)
	}
	if after := b.state(); after != b.before {
		b.t.Errorf("before:\n%s\nafter:\n%s", b.before, after)
	}
	told := b.answers.String()
	logged := b.out.String() + b.errs.String()
	for _, secret := range b.secrets {
		if strings.Contains(told, secret) || strings.Contains(logged, secret) {
			b.t.Errorf("%q was told, or logged", secret)
		}
	}
	if strings.Contains(logged, "panic") || strings.Contains(logged, "code=internal") {
		b.t.Errorf("the server broke:\n%s", logged)
	}
	// The honest worker goes on.
	if _, err := b.api.Renew(context.Background(), b.worker.Key, b.worker.LeaseID, 0); err != nil {
		b.t.Errorf("the worker can't renew: %v", err)
	}
}

// current is what readers get, who show a credential where they are asked.
func (b *besieged) current() string {
	b.t.Helper()
	if b.honest == "" {
		return b.read("victim/report")
	}
	p := start(b.t, []string{"PAWL_URL=" + b.url, "PAWL_CREDENTIAL=" + b.honest}, binary(b.t), "get", "victim/report", "-o", "-")
	if code := p.exit(); code != 0 {
		b.t.Errorf("get exits %d: %s", code, p.errs.String())
	}
	return p.out.String()
}

func request(head, body string) string {
	return head + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body)
}

// Requests with two lengths, or with none that everybody reads alike, carry another request in their bodies: if a proxy and the server disagree about where the
// first one ends, the second one passes the proxy unseen. No part of a body is ever a request.
func TestAttackSmuggling(t *testing.T) {
	t.Parallel()
	b := besiege(t)
	inner := request("POST /v1/keys/smuggled/-/lease HTTP/1.1\r\nHost: pawl\r\nContent-Type: application/json\r\n", `{"holder":"mallory","ttl":"30s"}`)
	chunk := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(inner), inner)
	both := fmt.Sprintf("Content-Length: %d\r\n", len("0\r\n\r\n"+inner))
	for name, tail := range map[string]string{
		"both lengths, chunks first":     "Transfer-Encoding: chunked\r\n" + both + "\r\n0\r\n\r\n" + inner,
		"both lengths, length first":     both + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + inner,
		"both, the length short":         "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk,
		"two lengths":                    fmt.Sprintf("Content-Length: 0\r\nContent-Length: %d\r\n\r\n", len(inner)) + inner,
		"two lengths, the other way":     fmt.Sprintf("Content-Length: %d\r\nContent-Length: 0\r\n\r\n", len(inner)) + inner,
		"two lengths in one":             fmt.Sprintf("Content-Length: 0, %d\r\n\r\n", len(inner)) + inner,
		"a length with a sign":           fmt.Sprintf("Content-Length: +%d\r\n\r\n", len(inner)) + inner,
		"a length below zero":            "Content-Length: -1\r\n\r\n" + inner,
		"a length to the base 16":        fmt.Sprintf("Content-Length: 0x%x\r\n\r\n", len(inner)) + inner,
		"a length with a blank inside":   "Content-Length: 0 0\r\n\r\n" + inner,
		"a blank before the colon":       fmt.Sprintf("Content-Length : %d\r\n\r\n", len(inner)) + inner,
		"coding with a blank":            both + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + inner,
		"coding that isn't":              both + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + inner,
		"two codings":                    both + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + inner,
		"two codings in two lines":       both + "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n" + inner,
		"coding with a tabulator":        both + "Transfer-Encoding:\tchunked\x0b\r\n\r\n0\r\n\r\n" + inner,
		"coding on the next line":        both + "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n" + inner,
		"coding after a bare line feed":  both + "X: y\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + inner,
		"coding after a bare return":     both + "X: y\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + inner,
		"a chunk of too many digits":     "Transfer-Encoding: chunked\r\n\r\n00000000000000000000000000\r\n\r\n" + inner,
		"a chunk below zero":             "Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n" + inner,
		"a chunk with an odd extension":  "Transfer-Encoding: chunked\r\n\r\n0;\n\r\n" + inner,
		"a chunk that ends by a newline": "Transfer-Encoding: chunked\r\n\r\n1\nx\n0\n\n" + inner,
		"a trailer that is a length":     "Transfer-Encoding: chunked\r\nTrailer: Content-Length\r\n\r\n0\r\nContent-Length: 0\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			for _, first := range []string{"GET /livez HTTP/1.1", "PUT /v1/keys/victim/report/-/generations/2/files/f HTTP/1.1", "POST /v1/resolve HTTP/1.1", "GET /livez HTTP/1.0"} {
				answer := b.send(first + "\r\nHost: pawl\r\n" + tail)
				if strings.Count(answer, "HTTP/1.") > 1 && strings.Contains(answer, "smuggled") {
					t.Errorf("%s: what was in the body was answered:\n%s", first, answer)
				}
			}
		})
	}
	b.stands()
	// Were it taken for a request, it would show: the very same one after a whole request does.
	if b.send("GET /livez HTTP/1.1\r\nHost: pawl\r\nContent-Length: 0\r\n\r\n" + inner); b.state() == b.before {
		t.Error("a request of its own changes nothing")
	}
}
