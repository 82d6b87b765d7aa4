package web_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/publish/publishtest"
	"github.com/pawlhq/pawl/web"
)

// dial opens a bare connection to the server.
func (r *rig) dial() *net.TCPConn {
	r.t.Helper()
	conn, err := net.Dial("tcp", r.server.Listener.Addr().String())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		r.t.Fatal(err)
	}
	return conn.(*net.TCPConn)
}

func (w worker) putHead(path, more string) string {
	return "PUT " + w.generation() + "/files/" + path + " HTTP/1.1\r\nHost: pawl\r\nPawl-Lease: " + w.lease + "\r\n" + more + "\r\n"
}

func (r *rig) readAnswer(conn net.Conn) answer {
	r.t.Helper()
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		r.t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return answer{t: r.t, status: res.StatusCode, header: res.Header, body: string(body)}
}

// TestCase26 breaks uploads off in three ways. None leaves a file, and each blocks the publish.
func TestCase26(t *testing.T) {
	t.Parallel()
	part := strings.Repeat("x", 763_831)
	for name, test := range map[string]struct {
		head, body string
		end        func(*net.TCPConn) error
		answered   bool
	}{
		"FIN":                 {"Content-Length: 1000000\r\n", part, (*net.TCPConn).CloseWrite, true},
		"RST":                 {"Content-Length: 1000000\r\n", part, func(c *net.TCPConn) error { return errors.Join(c.SetLinger(0), c.Close()) }, false},
		"no last chunk":       {"Transfer-Encoding: chunked\r\n", fmt.Sprintf("%x\r\n%s\r\n", len(part), part), (*net.TCPConn).CloseWrite, true},
		"half a chunk":        {"Transfer-Encoding: chunked\r\n", "fffff\r\n" + part, (*net.TCPConn).CloseWrite, true},
		"a chunk of nonsense": {"Transfer-Encoding: chunked\r\n", "zz\r\n", func(*net.TCPConn) error { return nil }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, web.Options{})
			w := r.grant("k")
			w.put("whole", "x").want(201)
			conn := r.dial()
			if _, err := io.WriteString(conn, w.putHead("f", test.head)+test.body); err != nil {
				t.Fatal(err)
			}
			await(t, func() bool { return r.pointers.Faults.Calls("BeginUpload") == 2 })
			if err := test.end(conn); err != nil {
				t.Fatal(err)
			}
			if test.answered {
				r.readAnswer(conn).wantProblem(publish.ErrLengthMismatch)
			}
			await(t, func() bool { return r.pointers.Faults.Calls("FailUpload") == 1 })
			w.publish("").wantProblem(publish.ErrGenerationIncomplete)
			r.call("GET", "/v1/keys/k", "").wantProblem(publish.ErrNotFound)
			if names := r.blobs.Names(); len(names) != 1 {
				t.Errorf("objects: %v", names)
			}
			r.call("GET", w.generation()+"/files/f", "", "Pawl-Lease", w.lease).wantProblem(publish.ErrNotFound)
		})
	}
}

func await(t *testing.T, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain")
		}
		time.Sleep(time.Millisecond)
	}
}

// firstByteStore tells when the first byte of a body has reached the store, with the size that was declared.
type firstByteStore struct {
	*publishtest.Blobs
	reached chan int64
}

func (s firstByteStore) Put(ctx context.Context, name publish.ObjectName, body io.Reader, size int64, contentType string) error {
	one := make([]byte, 1)
	if _, err := io.ReadFull(body, one); err != nil {
		return err
	}
	s.reached <- size
	return s.Blobs.Put(ctx, name, io.MultiReader(bytes.NewReader(one), body), size, contentType)
}

// TestUploadsAreStreamed sends the rest of a body only after the store has its beginning.
func TestUploadsAreStreamed(t *testing.T) {
	t.Parallel()
	r := &rig{t: t, pointers: publishtest.NewPointers(), blobs: publishtest.NewBlobs(), log: &testenv.Buffer{}}
	store := firstByteStore{r.blobs, make(chan int64, 2)}
	r.start(store, web.Options{})
	w := r.grant("k")
	conn := r.dial()
	if _, err := io.WriteString(conn, w.putHead("f", "Transfer-Encoding: chunked\r\n")+"1\r\na\r\n"); err != nil {
		t.Fatal(err)
	}
	select {
	case size := <-store.reached:
		if size != -1 {
			t.Errorf("the size of a chunked body is %d", size)
		}
	case <-time.After(time.Minute):
		t.Fatal("the first byte didn't reach the store before the last was sent")
	}
	if _, err := io.WriteString(conn, "2\r\nbc\r\n0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	r.readAnswer(conn).want(201)
	w.put("sized", "12345").want(201)
	if size := <-store.reached; size != 5 {
		t.Errorf("a declared size arrives as %d", size)
	}
	w.publish(`{"primary":"f"}`).want(200)
	if got := r.call("GET", w.generation()+"/files/f", ""); got.body != "abc" {
		t.Errorf("got %q", got.body)
	}
}

// endless gives n bytes and counts those that were taken.
type endless struct{ left, taken int64 }

func (e *endless) Read(p []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), e.left)
	e.left -= n
	e.taken += n
	return int(n), nil
}

// TestClientThatDoesNotWait sends a file and leaves at once, as ffmpeg does, while the store takes its time.
func TestClientThatDoesNotWait(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	w := r.grant("k")
	slow := publishtest.Fault{Operation: "CompleteUpload", Before: func(ctx context.Context) {
		select {
		case <-ctx.Done(): // must not happen, and fails the call
		case <-time.After(100 * time.Millisecond):
		}
	}}
	r.pointers.Faults.Add(slow)
	r.pointers.Faults.Add(slow)
	for name, request := range map[string]string{"chunks": w.putHead("chunks", "Transfer-Encoding: chunked\r\n") + "1\r\nx\r\n0\r\n\r\n", "length": w.putHead("length", "Content-Length: 1\r\n") + "x"} {
		conn := r.dial()
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
		await(t, func() bool {
			return r.call("GET", w.generation()+"/files/"+name, "", "Pawl-Lease", w.lease).status == 200
		})
	}
	w.publish(`{"primary":"chunks"}`).want(200)
}

// TestEarlyRefusalsReachTheClient sends 50 MB under a stale token in the ways that clients have.
func TestEarlyRefusalsReachTheClient(t *testing.T) {
	t.Parallel()
	const size = 50 << 20
	r := newRig(t, web.Options{})
	w := r.grant("k")
	r.pointers.Expire("k")
	r.published("k", "f", "x")

	for _, expect := range []string{"", "100-continue"} {
		t.Run("net/http "+expect, func(t *testing.T) {
			transport := &http.Transport{ExpectContinueTimeout: 10 * time.Second}
			defer transport.CloseIdleConnections()
			body := &endless{left: size}
			req, err := http.NewRequestWithContext(t.Context(), "PUT", r.server.URL+w.generation()+"/files/f", body)
			if err != nil {
				t.Fatal(err)
			}
			req.ContentLength = size
			req.Header.Set("Pawl-Lease", w.lease)
			if expect != "" {
				req.Header.Set("Expect", expect)
			}
			res, err := transport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(res.Body)
			_ = res.Body.Close()
			if err != nil {
				t.Fatal(err)
			}
			answer{t: t, status: res.StatusCode, header: res.Header, body: string(text)}.wantProblem(publish.ErrStaleToken)
			if !res.Close {
				t.Error("the connection isn't closed, though a body is left in it")
			}
			if expect != "" && body.taken != 0 {
				t.Errorf("%d bytes were sent without leave", body.taken)
			}
		})
	}
	for name, head := range map[string]string{"length": fmt.Sprintf("Content-Length: %d\r\n", size), "chunks": "Transfer-Encoding: chunked\r\n"} {
		t.Run("everything is sent before the answer is read: "+name, func(t *testing.T) {
			conn := r.dial()
			if _, err := io.WriteString(conn, w.putHead("f", head)); err != nil {
				t.Fatal(err)
			}
			chunk := bytes.Repeat([]byte("x"), 1<<20)
			for range size >> 20 {
				before, after := "", ""
				if name == "chunks" {
					before, after = "100000\r\n", "\r\n"
				}
				for _, part := range [][]byte{[]byte(before), chunk, []byte(after)} {
					if _, err := conn.Write(part); err != nil {
						t.Fatalf("the connection broke while sending: %v", err)
					}
				}
			}
			got := r.readAnswer(conn)
			got.wantProblem(publish.ErrStaleToken)
		})
	}
	t.Run("nothing is sent", func(t *testing.T) {
		conn := r.dial()
		started := time.Now()
		if _, err := io.WriteString(conn, w.putHead("f", "Content-Length: 1000\r\n")); err != nil {
			t.Fatal(err)
		}
		r.readAnswer(conn).wantProblem(publish.ErrStaleToken)
		if took := time.Since(started); took > web.DefaultBodyIdleTimeout/2 {
			t.Errorf("the answer waited %s for the body", took)
		}
	})
	t.Run("an identical file", func(t *testing.T) {
		second := r.grant("k")
		text := strings.Repeat("x", 1<<20)
		second.put("same", text, "Repr-Digest", digestOf(text)).want(201)
		if m := second.put("same", text, "Repr-Digest", digestOf(text)).want(200).json(); m["identical"] != true {
			t.Errorf("got %v", m)
		}
	})
}

// TestSlowBodies is the first part of case 29: what stands still is dropped, what is merely slow is not.
func TestSlowBodies(t *testing.T) {
	t.Parallel()
	if web.DefaultBodyIdleTimeout > time.Minute/2 {
		t.Errorf("one byte a minute is to be dropped for sure, and the default is %s", web.DefaultBodyIdleTimeout)
	}
	const idle = 300 * time.Millisecond
	r := newRig(t, web.Options{BodyIdleTimeout: idle})
	w := r.grant("k")

	conn := r.dial()
	if _, err := io.WriteString(conn, w.putHead("still", "Content-Length: 10\r\n")+"abc"); err != nil {
		t.Fatal(err)
	}
	started := time.Now()
	r.readAnswer(conn).wantProblem(publish.ErrLengthMismatch)
	if took := time.Since(started); took < idle {
		t.Errorf("dropped after %s", took)
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("the connection of a dropped body goes on")
	}

	conn = r.dial()
	if _, err := io.WriteString(conn, w.putHead("slow", "Content-Length: 10\r\n")); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		time.Sleep(idle / 6) // the pace of a slow client, not a wait for a condition
		if _, err := conn.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	r.readAnswer(conn).want(201)

	// The deadline is for the body alone: what the stores take after it is their business.
	r.pointers.Faults.Add(publishtest.Fault{Operation: "CompleteUpload", Before: func(ctx context.Context) {
		select {
		case <-ctx.Done():
		case <-time.After(3 * idle):
		}
	}})
	w.put("late", "x").want(201)
	w.call("DELETE", w.generation()+"/files/still", "", "Pawl-Lease", w.lease).want(204)
	w.publish("").want(200)
}
