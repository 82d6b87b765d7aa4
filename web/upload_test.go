package web_test

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/publish/publishtest"
	"github.com/pawlhq/pawl/web"
)

func digestOf(body string) string {
	sum := sha256.Sum256([]byte(body))
	return "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
}

func TestUpload(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	w := r.grant("k")
	first := w.put("a/b.txt", "one", "Content-Type", "text/plain").want(201)
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte("one")))
	if m := first.json(); m["path"] != "a/b.txt" || m["size"] != 3.0 || m["sha256"] != sum || m["token"] != 1.0 || m["url"] != "/v1/keys/k/-/generations/1/files/a/b.txt" || m["replaced"] != false {
		t.Errorf("the result is %s", first.body)
	}
	if m := w.put("a/b.txt", "one", "Repr-Digest", digestOf("one")).want(200).json(); m["identical"] != true {
		t.Errorf("the same again is %v", m)
	}
	if m := w.put("a/b.txt", "two").want(200).json(); m["replaced"] != true {
		t.Errorf("other bytes are %v", m)
	}
	w.call("DELETE", w.generation()+"/files/a/b.txt", "", "Pawl-Lease", w.lease).want(204)
	w.put("c", "", "Repr-Digest", digestOf("")).want(201)
	receipt := w.publish(`{"primary":"c","metadata":{"camera":"left"},"source_revision":3,"release":true}`).want(200).json()
	if receipt["files"] != 1.0 || receipt["url"] != "/v1/keys/k/-/generations/1/files/c" || receipt["replayed"] != false {
		t.Errorf("the receipt is %v", receipt)
	}
	if m := r.call("GET", "/v1/keys/k/-/lease", "").want(200).json(); m["held"] != false {
		t.Errorf("the lease wasn't released: %v", m)
	}
	if m := w.publish(`{"primary":"c","metadata":{"camera":"left"},"source_revision":3,"release":true}`).want(200).json(); m["replayed"] != true {
		t.Errorf("the repeat is %v", m)
	}
	w.put("c", "late").wantProblem(publish.ErrGenerationSealed)
	r.call("PUT", "/v1/keys/k/-/generations/9/files/c", "x", "Pawl-Lease", w.lease).wantProblem(publish.ErrUnknownToken)
}

func TestUploadHeaders(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	w := r.grant("k")
	sum512 := sha512.Sum512([]byte("x"))
	other := "sha-512=:" + base64.StdEncoding.EncodeToString(sum512[:]) + ":"
	for _, headers := range [][]string{
		{"Repr-Digest", digestOf("x")},
		{"Content-Digest", digestOf("x")},
		{"Repr-Digest", digestOf("x"), "Content-Digest", digestOf("x")},
		{"Repr-Digest", other + ", " + digestOf("x")},
		{"Repr-Digest", other, "Repr-Digest", digestOf("x")},
		{"Content-Encoding", "identity"},
	} {
		if got := w.put("f"+fmt.Sprint(len(headers)), "x", headers...); got.status != 200 && got.status != 201 {
			t.Errorf("%v: %d %s", headers, got.status, got.body)
		}
	}
	w.put("f", "x").want(201)
	if m := w.put("f", "x", "Repr-Digest", digestOf("y")).wantProblem(publish.ErrDigestMismatch); m["promised"] == nil || m["came"] == nil {
		t.Errorf("the facts are %v", m)
	}
	if m := w.publish("").wantProblem(publish.ErrGenerationIncomplete); fmt.Sprint(m["failed"]) != "[f]" {
		t.Errorf("the facts are %v", m)
	}
}

// TestRefusedUploads: whatever a PUT with a valid lease is refused for, the refusal shows at the publish, until the path is uploaded
// again or deleted.
func TestRefusedUploads(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		query   string
		headers []string
	}{
		{"", []string{"Repr-Digest", "sha-256=abc"}},
		{"", []string{"Repr-Digest", "sha-256=:abc:"}},
		{"", []string{"Repr-Digest", "sha-256"}},
		{"", []string{"Content-Digest", "sha-256=::"}},
		{"", []string{"Repr-Digest", "SHA-256=:AAAA:"}},
		{"", []string{"Repr-Digest", strings.TrimSuffix(digestOf("x"), ":")}},
		{"", []string{"Repr-Digest", digestOf("x"), "Content-Digest", digestOf("y")}},
		{"", []string{"Repr-Digest", "sha256" + strings.TrimPrefix(digestOf("x"), "sha-256")}},
		{"", []string{"Repr-Digest", "sha-512=:AAAA:"}},
		{"", []string{"Content-Digest", "sha-512=:AAAA:"}},
		{"", []string{"Repr-Digest", "md5=:AAAA:, crc32c=:AAAA:"}},
		{"", []string{"Repr-Digest", ""}},
		{"", []string{"Repr-Digest", "x"}},
		{"", []string{"Repr-Digest", digestOf("x") + ", sha-512"}},
		{"", []string{"Repr-Digest", digestOf("x") + ","}},
		{"", []string{"Repr-Digest", digestOf("x") + ", " + digestOf("y")}},
		{"", []string{"Repr-Digest", digestOf("x"), "Content-Digest", "sha-512=:AAAA:"}},
		{"", []string{"Content-Encoding", "gzip"}},
		{"", []string{"Content-Range", "bytes 0-0/1"}},
		{"", []string{"If-None-Match", "*"}},
		{"?publish=maybe", nil},
		{"?publish=", nil},
		{"?publish", nil},
		{"?publish=1", nil},
		{"?publish=true&publish=false", nil},
		{"?publsh=true", nil},
		{"?publish=true", []string{"If-Match", "17.1"}},
		{"?publish=true", []string{"If-Match", `"17.1"`, "If-None-Match", "*"}},
	} {
		r := newRig(t, web.Options{})
		w := r.grant("k")
		w.put("f", "x").want(201)
		if w.put("f"+test.query, "x", test.headers...).wantProblem(publish.ErrInvalidRequest); len(r.blobs.Names()) != 1 {
			t.Errorf("%v: stored %v", test, r.blobs.Names())
		}
		if m := w.publish("").wantProblem(publish.ErrGenerationIncomplete); fmt.Sprint(m["failed"]) != "[f]" {
			t.Errorf("%v: the facts are %v", test, m)
		}
		w.put("f", "x").want(200)
		w.publish("").want(200)
	}
}

// TestDigests: what a digest promises is checked, other algorithms beside it are passed over (RFC 9530), and the digest of zeros
// is one that no bytes have.
func TestDigests(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	w := r.grant("k")
	zeros := "sha-256=:" + strings.Repeat("A", 43) + "=:"
	for i, good := range []string{
		digestOf("x"), "SHA-256" + strings.TrimPrefix(digestOf("x"), "sha-256"), "sha-512=:AAAA:, " + digestOf("x"), digestOf("x") + ",md5=:AAAA:;p=1",
		digestOf("x") + ";p=1", digestOf("x") + ", " + digestOf("x"), "sha256=:AAAA:, " + digestOf("x"),
	} {
		for _, header := range []string{"Repr-Digest", "Content-Digest"} {
			path := fmt.Sprint(header, i)
			w.put(path, "y", header, good).wantProblem(publish.ErrDigestMismatch)
			w.put(path, "x", header, good).want(201)
		}
	}
	for _, headers := range [][]string{{"Repr-Digest", zeros}, {"Content-Digest", zeros}, {"Repr-Digest", zeros, "Content-Digest", zeros}} {
		if m := w.put("f", "x", headers...).wantProblem(publish.ErrDigestMismatch); m["promised"] != strings.Repeat("0", 64) {
			t.Errorf("%q: the facts are %v", headers, m)
		}
		if m := w.publish("").wantProblem(publish.ErrGenerationIncomplete); fmt.Sprint(m["failed"]) != "[f]" {
			t.Errorf("%q: the publish says %v", headers, m)
		}
	}
	w.put("f", "x").want(201)
	promise := `{"manifest_digest":"` + strings.Repeat("0", 64) + `"}`
	if m := w.publish(promise).wantProblem(publish.ErrDigestMismatch); m["promised"] != strings.Repeat("0", 64) || len(fmt.Sprint(m["came"])) != 64 {
		t.Errorf("the facts are %v", m)
	}
	w.publish("").want(200)
	w.publish(promise).wantProblem(publish.ErrGenerationSealed) // As any other manifest after the final publish (case 7).
}

// TestRefusedUploadsOfNobody: a request that has no valid lease marks nothing, and one that can't be marked is worth repeating.
func TestRefusedUploadsOfNobody(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	w := r.grant("k")
	w.put("f", "x").want(201)
	r.call("PUT", w.generation()+"/files/f", "x", "Content-Encoding", "gzip", "Pawl-Lease", strings.Repeat("ab", 16)).wantProblem(publish.ErrInvalidRequest)
	r.call("PUT", w.generation()+"/files/f", "x", "Content-Encoding", "gzip").wantChallenge()
	r.pointers.Faults.Add(publishtest.Fault{Operation: "BeginUpload"})
	w.put("f", "x", "Content-Encoding", "gzip").wantProblem(publish.ErrUnavailable)
	w.publish("").want(200)
}

func TestUploadAndPublish(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	w := r.grant("k")
	got := w.put("f?publish=true", "x", "If-None-Match", "*").want(201)
	if m := got.json(); m["revision"] != 1.0 || m["url"] != "/v1/keys/k/-/generations/1/files/f" || got.header.Get("Location") != m["url"] {
		t.Errorf("the receipt is %s", got.body)
	}
	if m := w.put("f?publish=true", "x", "If-None-Match", "*").want(200).json(); m["replayed"] != true {
		t.Errorf("the repeat is %v", m)
	}
	w.put("f?publish=true", "y").wantProblem(publish.ErrGenerationSealed)

	r.pointers.Expire("k")
	second := r.grant("k")
	second.put("f?publish=true", "z", "If-Match", `"9.1"`).wantProblem(publish.ErrPreconditionFailed)
	second.put("f?publish=true", "z", "If-Match", `"1.1"`).want(201)
}

// TestSuperseded covers a holder that was overtaken by a grant but not by a publish: it is warned.
func TestSuperseded(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	w := r.grant("k")
	if got := w.put("f", "x").want(201); got.header.Get("Pawl-Superseded-By") != "" {
		t.Errorf("warned without reason: %v", got.header)
	}
	r.pointers.Expire("k")
	r.grant("k")
	if got := w.put("g", "x").want(201); got.header.Get("Pawl-Superseded-By") != "2" || got.json()["superseded_by"] != 2.0 {
		t.Errorf("upload: %v %s", got.header, got.body)
	}
	if got := w.publish("").want(200); got.header.Get("Pawl-Superseded-By") != "2" || got.json()["lease_expired"] != true {
		t.Errorf("publish: %v %s", got.header, got.body)
	}
}

func TestPublishConditions(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	r.published("k", "f", "x")
	w := r.grant("k")
	w.put("f", "y").want(201)
	for _, headers := range [][]string{{"If-Match", "*"}, {"If-Match", "1.1"}, {"If-Match", `"1.1", "2.1"`}, {"If-Match", `"x"`}, {"If-None-Match", `"1.1"`}, {"If-Match", `"1.1"`, "If-None-Match", "*"}} {
		w.publish("", headers...).wantProblem(publish.ErrInvalidRequest)
	}
	if m := w.publish("", "If-None-Match", "*").wantProblem(publish.ErrPreconditionFailed); fmt.Sprint(m["current"]) != "map[revision:1 token:1]" {
		t.Errorf("the facts are %v", m)
	}
	w.publish("", "If-Match", `"1.2"`).wantProblem(publish.ErrPreconditionFailed)
	w.publish("", "If-Match", `W/"1.1"`).want(200)
}

// TestCase41 sends files without a type and with a lie; they are listed and served with the table's.
func TestCase41(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	w := r.grant("k")
	types := map[string]string{
		".m3u8": "application/vnd.apple.mpegurl", ".ts": "video/mp2t", ".m4s": "video/iso.segment", ".mpd": "application/dash+xml",
		".glb": "model/gltf-binary", ".b3dm": "application/octet-stream", ".wasm": "application/wasm", ".exr": "image/x-exr",
		".avif": "image/avif", ".safetensors": "application/octet-stream",
	}
	for extension, want := range types {
		for name, headers := range map[string][]string{
			"none": nil, "lie": {"Content-Type", "text/html"}, "curl": {"Content-Type", "application/x-www-form-urlencoded"}, "nonsense": {"Content-Type", ";"},
		} {
			if m := w.put(name+extension, "x", headers...).want(201).json(); m["content_type"] != want {
				t.Errorf("%s%s is stored as %v, want %s", name, extension, m["content_type"], want)
			}
		}
	}
	w.publish(`{"primary":"lie.m3u8"}`).want(200)
	for extension, want := range types {
		for _, name := range []string{"none", "lie", "curl", "nonsense"} {
			got := r.call("GET", w.generation()+"/files/"+name+extension, "").want(200)
			if got.header.Get("Content-Type") != want || got.header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%s%s is served as %v, want %s", name, extension, got.header, want)
			}
		}
	}
}
