package web_test

import (
	"strings"
	"testing"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

// TestLeaseOpensItsFiles: as the password of the user lease, a lease id stands in for a credential for the files of its own generation, while that is open.
func TestLeaseOpensItsFiles(t *testing.T) {
	t.Parallel()
	r, known := newAuthRig(t, web.Options{})
	caller := known.issue(t, "worker", "publish:k")
	w := r.grantTo(caller, "k")
	file, mine := w.generation()+"/files/f", basic("lease", w.lease)
	r.call("PUT", file, "one", mine...).want(201)
	r.call("PUT", file, "two", append(mine, "Pawl-Lease", w.lease)...).want(200)
	for _, method := range []string{"GET", "HEAD"} {
		if got := r.call(method, file, "", mine...).want(200); got.header.Get("Cache-Control") != "private, no-store" {
			t.Errorf("the publisher's own is kept by %q", got.header.Get("Cache-Control"))
		}
	}
	r.call("DELETE", file, "", mine...).want(204)
	r.call("PUT", file, "three", mine...).want(201)
	r.pointers.Expire("k")
	r.call("PUT", file, "four", mine...).want(200)

	// It opens nothing else.
	r.call("GET", file, "", "Pawl-Lease", w.lease).wantProblem(publish.ErrUnauthorized)
	r.call("PUT", file, "x", "Pawl-Lease", w.lease).wantProblem(publish.ErrUnauthorized)
	for _, target := range []string{
		"GET /v1/keys/k", "DELETE /v1/keys/k/-/lease", "PATCH /v1/keys/k/-/lease", "GET " + w.generation(), "GET " + w.generation() + ".zip",
		"POST " + w.generation() + "/publish", "POST " + w.generation() + "/uploads", "POST " + w.generation() + "/effects/files", "GET " + w.generation() + "/files", "GET /k/k", "GET /v1/keys", "GET /metrics",
	} {
		method, path, _ := strings.Cut(target, " ")
		r.call(method, path, "", append(mine, "Pawl-Lease", w.lease)...).wantProblem(publish.ErrUnauthorized)
	}
	if log := r.log.String(); strings.Contains(log, w.lease) || strings.Contains(log, mine[1]) {
		t.Error("the lease id is in the log")
	}
}

// A lease id of another grant, token or key is none at all.
func TestForeignLeaseOpensNothing(t *testing.T) {
	t.Parallel()
	r, known := newAuthRig(t, web.Options{})
	caller := known.issue(t, "worker", "publish")
	w, other := r.grantTo(caller, "k"), r.grantTo(caller, "other")
	w.put("f", "x", caller...).want(201)
	r.pointers.Expire("other")
	newer := r.grantTo(caller, "other")
	for _, password := range []string{other.lease, newer.lease, strings.Repeat("ab", 16), strings.Repeat("0", 32), "", "x", strings.TrimPrefix(caller[1], "Bearer ")} {
		for _, method := range []string{"GET", "HEAD", "PUT", "DELETE"} {
			began := r.pointers.Faults.Calls("BeginUpload") + r.pointers.Faults.Calls("File") + r.pointers.Faults.Calls("DeleteFile")
			got := r.call(method, w.generation()+"/files/f", "y", basic("lease", password)...).want(401)
			if len(password) > 1 && strings.Contains(got.body, password) {
				t.Errorf("the answer repeats the password: %s", got.body)
			}
			if after := r.pointers.Faults.Calls("BeginUpload") + r.pointers.Faults.Calls("File") + r.pointers.Faults.Calls("DeleteFile"); after != began {
				t.Errorf("%s with %q reached the files", method, password)
			}
		}
	}
	// The same answer for a key that never was.
	r.call("GET", "/v1/keys/never/-/generations/1/files/f", "", basic("lease", w.lease)...).wantProblem(publish.ErrUnauthorized)
	r.call("PUT", other.generation()+"/files/f", "x", basic("lease", newer.lease)...).wantProblem(publish.ErrUnauthorized)
}

// It ends when the generation is sealed or fenced; who comes late with it learns why, and shows in the history.
func TestLeaseOpensUntilTheEnd(t *testing.T) {
	t.Parallel()
	r, known := newAuthRig(t, web.Options{PublicRead: publish.ReachOf("open")})
	caller := known.issue(t, "worker", "publish")
	for _, key := range []string{"k", "open"} {
		late := r.grantTo(caller, key)
		r.pointers.Expire(publish.Key(key))
		w := r.grantTo(caller, key)
		w.put("f", "x", caller...).want(201)
		w.publish("", caller...).want(200)
		for _, test := range []struct {
			worker
			put publish.Code
		}{{late, publish.ErrStaleToken}, {w, publish.ErrGenerationSealed}} {
			file, mine := test.generation()+"/files/f", basic("lease", test.lease)
			for _, method := range []string{"PUT", "DELETE"} {
				r.call(method, file, "y", mine...).wantProblem(test.put)
			}
			switch got := r.call("GET", file, "", mine...); {
			case key == "k":
				got.wantProblem(publish.ErrUnauthorized)
			case test.token == w.token:
				got.want(200) // as to everybody
			default:
				got.wantProblem(publish.ErrNotFound)
			}
		}
		if history := r.with(caller, "GET", "/v1/keys/"+key+"/-/generations", "").want(200); !strings.Contains(history.body, `"operation":"upload"`) {
			t.Errorf("the history doesn't tell of the late writer: %s", history.body)
		}
	}
}

// Publishing isn't the files': with a lease id alone it is refused, and the path counts as failed, as after every refused upload.
func TestLeaseDoesNotPublish(t *testing.T) {
	t.Parallel()
	r, known := newAuthRig(t, web.Options{})
	caller := known.issue(t, "worker", "publish:k")
	w := r.grantTo(caller, "k")
	r.call("PUT", w.generation()+"/files/f?publish=true", "x", basic("lease", w.lease)...).wantProblem(publish.ErrUnauthorized)
	w.publish("", caller...).wantProblem(publish.ErrGenerationIncomplete)
	w.call("PUT", w.generation()+"/files/f?publish=true", "x", append(caller, "Pawl-Lease", w.lease)...).want(201)
	r.with(caller, "GET", "/v1/keys/k", "").want(200)
}
