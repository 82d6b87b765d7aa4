package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/testenv"
)

// What is larger than it may be is refused, and doesn't fill the server's memory.
func TestAttackOversized(t *testing.T) {
	t.Parallel()
	b := besiege(t)
	const much = 32 << 20
	head := func(method, path string) string {
		return method + " " + path + " HTTP/1.1\r\nHost: pawl\r\nConnection: close\r\n"
	}
	key := "/v1/keys/victim/report"
	lease := "Pawl-Lease: " + b.worker.LeaseID.Hex() + "\r\n"
	chunks := strings.Repeat("100000\r\n"+strings.Repeat(" ", 1<<20)+"\r\n", much>>20)
	sends := map[string]string{
		"a header":                  head("GET", "/livez") + "X: " + strings.Repeat("x", much) + "\r\n\r\n",
		"many headers":              head("GET", "/livez") + strings.Repeat("X: y\r\n", much/6) + "\r\n",
		"an address":                head("GET", "/v1/keys/"+strings.Repeat("a", much)) + "\r\n",
		"a query":                   head("GET", "/v1/keys?"+strings.Repeat("prefix=a&", much/9)) + "\r\n",
		"a method":                  strings.Repeat("G", much) + " / HTTP/1.1\r\nHost: pawl\r\n\r\n",
		"a lease request":           request(head("POST", key+"/-/lease"), `{"holder":"`+strings.Repeat("x", much)+`"}`),
		"a lease request in chunks": head("POST", key+"/-/lease") + "Transfer-Encoding: chunked\r\n\r\n" + chunks,
		"a deep lease request":      request(head("POST", key+"/-/lease"), strings.Repeat(`{"labels":`, much/20)),
		"deep arrays":               request(head("POST", "/v1/resolve"), `{"keys":`+strings.Repeat("[", much/2)),
		"a number":                  request(head("POST", key+"/-/rollback"), `{"to":{"token":`+strings.Repeat("9", much)+`}}`),
		"a publish":                 request(head("POST", key+"/-/generations/2/publish")+lease, `{"expect":["`+strings.Repeat("x", much)+`"]}`),
		"an expectation":            request(head("POST", key+"/-/generations/2/publish")+lease, `{"expect":["f.[1-999999999999].png"]}`),
		"many expectations":         request(head("POST", key+"/-/generations/2/publish")+lease, `{"expect":["x"`+strings.Repeat(`,"f.[1-99999].png"`, 100_000)+`]}`),
		"many keys":                 request(head("POST", "/v1/resolve"), `{"keys":["k"`+strings.Repeat(`,"k"`, much/4)+`]}`),
		"many ranges":               head("GET", key+"/-/generations/1/files/out.txt") + "Range: bytes=0-0" + strings.Repeat(",1-1", 12_000) + "\r\n\r\n",
		"many etags":                head("GET", key) + "If-None-Match: " + strings.Repeat(`"x", `, 12_000) + `"x"` + "\r\n\r\n",
		"many dots in a prefix":     head("GET", "/v1/keys?prefix="+strings.Repeat("a/", 20_000)) + "\r\n",
		"a file's declared length":  head("PUT", key+"/-/generations/2/files/f") + lease + "Content-Length: 9223372036854775807\r\n\r\nx",
	}
	for name, raw := range sends {
		t.Run(name, func(t *testing.T) {
			code := status(b.send(raw))
			// A server that has heard enough may close the connection while the client still sends; then its answer may be lost on the way. A GET with
			// much in its headers may be answered, if that is within the limits.
			refused := code >= 400 && code < 500 || code == 0 && len(raw) > 1<<20
			within := code < 400 && len(raw) < 64<<10 && strings.HasPrefix(raw, "GET ")
			if !refused && !within {
				t.Errorf("answered by %d", code)
			}
		})
	}
	// It is about 30 MiB when nothing happens; what came over the connections is thirty times as much.
	if peak := b.peakMemory(t); peak > 400<<10 {
		t.Errorf("the server took %d MiB", peak>>10)
	} else {
		t.Logf("the server took %d MiB", peak>>10)
	}
	b.stands()
}

// 500 connections that send a header byte by byte, or nothing at all, are ended, and others are served meanwhile.
func TestAttackSlowHeaders(t *testing.T) {
	t.Parallel()
	b := besiege(t)
	const sockets = 500
	conns := make([]net.Conn, sockets)
	for i := range conns {
		conn, err := net.Dial("tcp", b.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close() //nolint:errcheck // It is the attacker's.
		conns[i] = conn
		if i%2 == 0 {
			_, _ = io.WriteString(conn, "GET /livez HTTP/1.1\r\nHost: pawl\r\nX-Slow: ")
		}
	}
	drip := time.NewTicker(200 * time.Millisecond)
	defer drip.Stop()
	over := make(chan string, sockets)
	for _, conn := range conns {
		go func() {
			_ = conn.SetReadDeadline(time.Now().Add(patience))
			answer, err := io.ReadAll(conn)
			if err != nil && strings.Contains(err.Error(), "timeout") {
				over <- "it is still open"
				return
			}
			if code := status(string(answer)); code != 0 && code < 400 {
				over <- fmt.Sprintf("it was answered by %d", code)
				return
			}
			over <- ""
		}()
	}
	quick := &http.Client{Timeout: patience}
	for ended := 0; ended < sockets; {
		select {
		case fault := <-over:
			if ended++; fault != "" {
				t.Fatal(fault)
			}
		case <-drip.C:
			for i := 0; i < sockets; i += 2 {
				_, _ = conns[i].Write([]byte("x"))
			}
			resp, err := quick.Get(b.url + "/v1/keys/victim/report")
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				t.Fatalf("others get %s", resp.Status)
			}
		}
	}
	testenv.Eventually(t, patience, func() error { _, err := get(b.url + "/readyz"); return err })
	b.stands()
}
