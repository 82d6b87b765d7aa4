package web_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlhq/pawl/web"
)

// TestSlowloris has 500 connections that send the head of a request byte by byte, or a first byte of a body and no more. The server serves others
// meanwhile, and ends every one of them.
func TestSlowloris(t *testing.T) {
	t.Parallel()
	const (
		crowd    = 500
		limit    = 3 * time.Second // of a head in all, and of a body that brings nothing
		patience = time.Minute
	)
	r := newRig(t, web.Options{BodyIdleTimeout: limit})
	w := r.grant("k")
	address := serveSlow(t, r, limit, crowd+100)

	var all sync.WaitGroup
	defer all.Wait()
	var gone, kept atomic.Int64
	for i := range crowd {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close() //nolint:errcheck // The server has long closed it.
		begin, drip := slowRequest(w, i)
		if _, err := io.WriteString(conn, begin); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		all.Go(func() {
			defer close(ended)
			_ = conn.SetReadDeadline(time.Now().Add(patience))
			if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
				kept.Add(1)
			}
			gone.Add(1)
		})
		if drip {
			all.Go(func() {
				for {
					select {
					case <-ended:
						return
					case <-time.After(100 * time.Millisecond): // the pace of the attack
						_, _ = io.WriteString(conn, "x") //nolint:errcheck // The reader sees the end.
					}
				}
			})
		}
	}

	client := &http.Client{Timeout: patience, Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	var took []time.Duration
	meanwhile := 0
	for i := 0; gone.Load() < crowd; i++ {
		began := time.Now()
		if err := serveOne(client, "http://"+address, w, i); err != nil {
			t.Fatalf("while %d of %d are there: %v", crowd-gone.Load(), crowd, err)
		}
		took = append(took, time.Since(began))
		if gone.Load() < crowd {
			meanwhile++
		}
		time.Sleep(10 * time.Millisecond) // the pace of others
	}
	if kept.Load() > 0 {
		t.Errorf("%d of %d connections were not ended", kept.Load(), crowd)
	}
	if meanwhile == 0 {
		t.Fatal("nobody else was served while they were there")
	}
	slices.Sort(took)
	t.Logf("%d others were served meanwhile, in %s at the median", meanwhile, took[len(took)/2].Round(time.Microsecond))
	if median := took[len(took)/2]; median > limit {
		t.Errorf("others were served in %s at the median, as if they had waited for the end of the crowd", median)
	}
}

// serveSlow serves a rig with limits of its own, and returns where.
func serveSlow(t *testing.T, r *rig, head time.Duration, connections int) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := web.NewServer(r.handler, slog.New(slog.DiscardHandler))
	server.ReadHeaderTimeout = head
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(web.LimitConnections(listener, connections))
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-served
	})
	return listener.Addr().String()
}

// slowRequest begins one of the requests of the crowd. drip says that the rest comes byte by byte.
func slowRequest(w worker, i int) (begin string, drip bool) {
	switch i % 5 {
	case 0:
		return "GET /v1/keys HTTP/1.1\r\nHost: pawl\r\nX-Slow: ", true
	case 1:
		return "G", false
	case 2:
		return w.putHead(fmt.Sprintf("slow%d", i), "Content-Length: 1000\r\n") + "x", false
	case 3:
		return w.putHead(fmt.Sprintf("slow%d", i), "Transfer-Encoding: chunked\r\n") + "1\r\nx\r\n", false
	default:
		return "POST /v1/keys/other/-/lease HTTP/1.1\r\nHost: pawl\r\nContent-Length: 100\r\n\r\n{", false
	}
}

// serveOne reads a list, or uploads a file.
func serveOne(client *http.Client, base string, w worker, i int) error {
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, base+"/v1/keys", nil)
	want := http.StatusOK
	if i%2 == 1 {
		req, err = http.NewRequestWithContext(w.t.Context(), http.MethodPut, fmt.Sprintf("%s%s/files/other%d", base, w.generation(), i), strings.NewReader("x"))
		want = http.StatusCreated
	}
	if err != nil {
		return err
	}
	req.Header.Set("Pawl-Lease", w.lease)
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // It is only read.
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != want {
		err = fmt.Errorf("%s: %s", resp.Status, body)
	}
	return err
}
