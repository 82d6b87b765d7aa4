package web_test

import (
	"crypto/sha256"
	"fmt"
	"testing"

	"github.com/pawlhq/pawl/web"
)

// TestCase38 goes on with a download across a flip: at the key's address the whole new file comes, at the permanent one the rest of the old.
func TestCase38(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	const one, two = "0123456789", "ABCDEFGHIJKLMNOP"
	tag := func(body string) string { return fmt.Sprintf("%q", fmt.Sprintf("%x", sha256.Sum256([]byte(body)))) }
	current := func(headers ...string) answer {
		t.Helper()
		to := r.call("GET", "/v1/keys/k/-/current", "", headers...).want(307)
		return r.call("GET", to.header.Get("Location"), "", headers...)
	}
	old := r.published("k", "f", one)
	begun := current("Range", "bytes=0-4").want(206)
	if begun.body != one[:5] || begun.header.Get("ETag") != tag(one) {
		t.Fatalf("the beginning is %q with %v", begun.body, begun.header)
	}
	rest := []string{"Range", "bytes=5-", "If-Range", begun.header.Get("ETag")}
	if got := current(rest...).want(206); got.body != one[5:] {
		t.Errorf("before the flip the rest is %q", got.body)
	}
	r.published("k", "f", two)
	if got := current(rest...).want(200); got.body != two || got.header.Get("ETag") != tag(two) || got.header.Get("Content-Range") != "" {
		t.Errorf("across the flip came %q with %v, want the whole new file", got.body, got.header)
	}
	if got := r.call("GET", old.generation()+"/files/f", "", rest...).want(206); got.body != one[5:] || got.header.Get("ETag") != tag(one) {
		t.Errorf("the permanent address gives %q with %v", got.body, got.header)
	}
	// The same bytes under another token go on as well.
	r.published("k", "f", one)
	if got := current(rest...).want(206); got.body != one[5:] {
		t.Errorf("the same bytes again are %q", got.body)
	}
}
