package web_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

// Case 22 over HTTP: what is missing and what is empty stand in the problem document, and a repeat is a replay.
func TestCase22(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	w := r.grant("shot")
	w.put("beauty.1001.exr", "pixels").want(201)
	w.put("beauty.1003.exr", "").want(201)
	const body = `{"expect":["beauty.[1001-1004].exr"],"final":true}`
	problem := w.publish(body).wantProblem(publish.ErrGenerationIncomplete)
	want := "[beauty.1002.exr beauty.1004.exr] [beauty.1003.exr] <nil> <nil>"
	if got := fmt.Sprint(problem["missing"], problem["empty"], problem["failed"], problem["pending"]); got != want {
		t.Errorf("the lists are %s, want %s", got, want)
	}
	for _, part := range []string{`2 paths are missing, e.g. "beauty.1002.exr"`, `1 expected files are empty, e.g. "beauty.1003.exr"`, "allow_empty"} {
		if !strings.Contains(problem["detail"].(string), part) {
			t.Errorf("%q lacks %q", problem["detail"], part)
		}
	}
	const allowed = `{"expect":["beauty.[1001-1003x2].exr"],"allow_empty":true}`
	for _, replayed := range []bool{false, true} {
		if m := w.publish(allowed).want(200).json(); m["files"] != 2.0 || m["replayed"] != replayed {
			t.Errorf("the receipt is %v, want replayed %v", m, replayed)
		}
	}
}

// TestExpectedPathsOneByOne sends as many paths as a publish may expect, without a pattern, and gets them back as missing.
func TestExpectedPathsOneByOne(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	w := r.grant("shot")
	w.put("f", "x").want(201)
	var paths []string
	for n := range publish.MaxExpectedPaths {
		paths = append(paths, fmt.Sprintf("shots/010/%s/beauty.%06d.exr", strings.Repeat("layer", 20), n))
	}
	problem := w.publish(`{"expect":` + jsonOf(paths) + `}`).wantProblem(publish.ErrGenerationIncomplete)
	var missing []string
	for _, path := range problem["missing"].([]any) {
		missing = append(missing, path.(string))
	}
	if !slices.Equal(missing, paths) {
		t.Errorf("%d paths are missing, want all %d", len(missing), len(paths))
	}
	large := `{"expect":["` + strings.Repeat("a", 16<<20) + `"]}`
	if members := w.publish(large).wantProblem(publish.ErrTooLarge); members["limit"] != float64(16<<20) {
		t.Errorf("the limit is %v", members["limit"])
	}
}
