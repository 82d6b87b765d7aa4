package blobstore

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// Unfinished uploads are found by a prefix of their names, however many pages that takes, also when they are aborted while the list is read.
func TestS3Unfinished(t *testing.T) {
	t.Parallel()
	s := openS3(t, testenv.S3Bucket(t), "some/prefix")
	var want []publish.ObjectName
	ids := map[publish.ObjectName]publish.PartsID{}
	begin := func(name publish.ObjectName) {
		id, err := s.StartParts(t.Context(), name, "")
		if err != nil {
			t.Fatal(err)
		}
		ids[name] = id
	}
	abort := func(name publish.ObjectName) {
		if err := s.core.AbortMultipartUpload(t.Context(), s.bucket, s.key(name), string(ids[name])); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 1010 { // A page has 1000.
		want = append(want, publish.ObjectName(fmt.Sprintf("k/-/7/upload/%04d", i)))
		begin(want[i])
	}
	others := []publish.ObjectName{"k/-/70/upload/f", "k2/-/7/upload/f"}
	for _, other := range others {
		begin(other)
	}
	var got []publish.ObjectName
	for name, err := range s.Unfinished(t.Context(), "k/-/7/") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, name)
		abort(name)
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unfinished (-want +got):\n%s", diff)
	}
	for name, err := range s.Unfinished(t.Context(), "k/-/7/") {
		t.Errorf("left: %q, %v", name, err)
	}
	for _, other := range others {
		abort(other)
	}
}
