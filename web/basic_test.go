package web_test

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

// basic is the header that carries a name and a password, as arguments of call.
func basic(user, password string) []string {
	return []string{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))}
}

// wantChallenge fails unless the answer asks for Basic authentication.
func (a answer) wantChallenge() {
	a.t.Helper()
	a.wantProblem(publish.ErrUnauthorized)
	if got := a.header.Values("WWW-Authenticate"); fmt.Sprint(got) != `[Basic realm="pawl", charset="UTF-8"]` {
		a.t.Errorf("the challenge is %q", got)
	}
}

// TestBasic: the lease as a password writes, reads and deletes the files of its generation, until that is sealed.
func TestBasic(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	w := r.grant("k")
	file := w.generation() + "/files/f"
	mine := basic("lease", w.lease)
	r.call("PUT", file, "one", mine...).want(201)
	r.call("PUT", file, "two", append(mine, "Pawl-Lease", w.lease)...).want(200)
	r.call("GET", file, "").wantProblem(publish.ErrNotFound)
	got := r.call("GET", file, "", mine...).want(200)
	if got.body != "two" || got.header.Get("Cache-Control") != "private, no-store" || got.header.Get("Vary") != "Pawl-Lease, Authorization" {
		t.Errorf("the publisher reads %q with %v", got.body, got.header)
	}
	r.call("HEAD", file, "", mine...).want(200)
	r.call("DELETE", file, "", mine...).want(204)
	r.call("DELETE", file, "", mine...).want(204)
	r.pointers.Expire("k") // The end of the lease alone changes nothing.
	r.call("PUT", file, "three", mine...).want(201)

	for target, method := range map[string]string{w.generation() + "/publish": "POST", "/v1/keys/k/-/lease": "DELETE"} {
		r.call(method, target, "", mine...).wantProblem(publish.ErrLeaseRequired)
	}
	r.call("PATCH", "/v1/keys/k/-/lease", "", mine...).wantProblem(publish.ErrLeaseRequired)
	w.publish("").want(200)
	r.call("PUT", file, "four", mine...).wantProblem(publish.ErrGenerationSealed)
	r.call("DELETE", file, "", mine...).wantProblem(publish.ErrGenerationSealed)
	if strings.Contains(r.log.String(), w.lease) || strings.Contains(r.log.String(), mine[1]) {
		t.Error("the lease id is in the log")
	}
}

// TestBasicFenced: the password ends with its grant's turn, and is good for no other generation.
func TestBasicFenced(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	late := r.grant("k")
	r.pointers.Expire("k")
	w := r.grant("k")
	mine := basic("lease", late.lease)
	r.call("PUT", w.generation()+"/files/f", "x", mine...).wantProblem(publish.ErrLeaseLost)
	w.put("f", "x").want(201)
	r.call("GET", w.generation()+"/files/f", "", mine...).wantProblem(publish.ErrNotFound)
	w.publish("").want(200)
	for _, method := range []string{"PUT", "DELETE"} {
		got := r.call(method, late.generation()+"/files/f", "x", mine...)
		got.wantProblem(publish.ErrStaleToken)
		if strings.Contains(got.body, late.lease) {
			t.Error("the answer repeats the password")
		}
	}
}

// TestBasicRefused: wrong names and passwords are asked for again, and none is repeated.
func TestBasicRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	w := r.grant("k")
	w.put("g", "x").want(201)
	const secret = "0123456789abcdef0123456789abcdeg"
	file, began := w.generation()+"/files/f", r.pointers.Faults.Calls("BeginUpload")
	for _, headers := range [][]string{
		nil, basic("leases", w.lease), basic("Lease", w.lease), basic("", w.lease), basic("lease", ""), basic("lease", secret), basic("lease", w.lease+":"),
		{"Authorization", "Bearer " + w.lease},
		{"Authorization", "Basic " + w.lease},
		{"Authorization", "Basic"},
		{"Authorization", ""},
	} {
		for _, method := range []string{"PUT", "DELETE"} {
			got := r.call(method, file, "x", headers...)
			if got.wantChallenge(); strings.Contains(got.body, secret) || strings.Contains(got.body, w.lease) {
				t.Errorf("%s %v is repeated: %s", method, headers, got.body)
			}
		}
	}
	r.call("GET", file, "", basic("lease", secret)...).wantChallenge()
	r.call("PUT", file, "x", append(basic("lease", strings.Repeat("ab", 16)), "Pawl-Lease", w.lease)...).wantProblem(publish.ErrInvalidRequest)
	r.call("GET", file, "", append(basic("lease", strings.Repeat("ab", 16)), "Pawl-Lease", w.lease)...).wantProblem(publish.ErrInvalidRequest)
	r.call("PUT", file, "x", append(basic("lease", w.lease), "Pawl-Lease", secret)...).wantProblem(publish.ErrInvalidRequest)
	if after := r.pointers.Faults.Calls("BeginUpload"); after != began {
		t.Errorf("%d uploads began", after-began)
	}
	if log := r.log.String(); strings.Contains(log, secret) || strings.Contains(log, w.lease) {
		t.Error("a password is in the log")
	}
}

// TestOtherCredentials: a proxy in front may ask for names and passwords of its own, and pass them on.
func TestOtherCredentials(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	w := r.grant("k")
	for _, headers := range [][]string{basic("alice", "secret"), {"Authorization", "Bearer secret"}} {
		w.put("f", "x", headers...)
		if got := r.call("GET", w.generation()+"/files/f", "", append(headers, "Pawl-Lease", w.lease)...).want(200); got.body != "x" {
			t.Errorf("%v: %q", headers, got.body)
		}
	}
	w.publish("").want(200)
	r.call("GET", w.generation()+"/files/f", "", basic("alice", "secret")...).want(200)
}

// TestChallengeBeforeTheBody is the way of ffmpeg: it asks for leave to send a chunked body, is asked for its name instead, and asks
// again with it.
func TestChallengeBeforeTheBody(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	w := r.grant("k")
	head := "PUT " + w.generation() + "/files/f HTTP/1.1\r\nHost: pawl\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n"
	conn := r.dial()
	if _, err := io.WriteString(conn, head+"\r\n"); err != nil {
		t.Fatal(err)
	}
	r.readAnswer(conn).wantChallenge()

	conn = r.dial()
	if _, err := io.WriteString(conn, head+"Authorization: "+basic("lease", w.lease)[1]+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewReader(conn)
	if line, err := answers.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 100 ") {
		t.Fatalf("%q, %v", line, err)
	}
	if _, err := io.WriteString(conn, "1\r\nx\r\n0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := answers.ReadString('\n'); err != nil { // the empty line behind "100 Continue"
		t.Fatal(err)
	}
	if line, err := answers.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 201 ") {
		t.Fatalf("%q, %v", line, err)
	}
	w.publish("").want(200)
}
