package web_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

// Each credential has so many direct uploads open and no more, whatever others have; who is asked for no credential has no such limit. One that is completed or
// aborted makes room, what is refused leaves no mark, and uploads through the server go on.
func TestLimitOfDirectUploads(t *testing.T) {
	t.Parallel()
	r, known := newAuthRig(t, web.Options{Direct: 2, Uploads: 100})
	one, other := known.issue(t, "one", "publish"), known.issue(t, "other", "publish")
	w, x := r.grantTo(one, "k"), r.grantTo(other, "l")
	begin := func(w worker, caller []string, path string) answer {
		body := fmt.Sprintf(`{"path":%q,"size":1,"sha256":"%x"}`, path, sha256.Sum256([]byte("x")))
		return r.with(caller, "POST", w.generation()+"/uploads", body, "Pawl-Lease", w.lease)
	}
	a, b := begin(w, one, "a").want(201).json(), begin(w, one, "b").want(201).json()
	refused := begin(w, one, "c").want(507)
	refused.wantProblem(publish.ErrQuotaExceeded)
	for _, part := range []string{`"limit":2`, `"unit":"uploads"`, `"path":"c"`, "2 direct uploads of yours", "PAWL_LIMIT_DIRECT", "complete or abort some"} {
		if !strings.Contains(refused.body, part) {
			t.Errorf("the refusal has no %s: %s", part, refused.body)
		}
	}
	if refused.header.Get("Retry-After") != "" || strings.Contains(refused.body, `"retryable":true`) {
		t.Errorf("the refusal asks to be repeated: %v %s", refused.header, refused.body)
	}
	if again := begin(w, one, "a").want(201).json(); again["upload_id"] != a["upload_id"] {
		t.Errorf("a was not gone on with: %v", again)
	}
	begin(x, other, "c").want(201)
	r.with(one, "PUT", w.generation()+"/files/d", "x", "Pawl-Lease", w.lease).want(201)

	id, _ := a["upload_id"].(string)
	w.deliver(a["put"].(map[string]any), "x")
	r.with(one, "POST", w.generation()+"/uploads/"+id+"/complete", "", "Pawl-Lease", w.lease).want(201)
	e := begin(w, one, "e").want(201).json()
	begin(w, one, "f").wantProblem(publish.ErrQuotaExceeded)
	for _, begun := range []map[string]any{b, e} {
		id, _ := begun["upload_id"].(string)
		r.with(one, "DELETE", w.generation()+"/uploads/"+id, "", "Pawl-Lease", w.lease).want(204)
	}
	for _, path := range []string{"b", "e"} {
		r.with(one, "DELETE", w.generation()+"/files/"+path, "", "Pawl-Lease", w.lease).want(204)
	}
	r.with(one, "POST", w.generation()+"/publish", `{"primary":"a"}`, "Pawl-Lease", w.lease).want(200)

	open := newRig(t, web.Options{Direct: 1}).grant("k")
	for _, path := range []string{"a", "b"} {
		open.begin(path, path).want(201)
	}
}
