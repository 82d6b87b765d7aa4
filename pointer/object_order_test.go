package pointer

import (
	"iter"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pawlhq/pawl/publish"
)

// Keys that come by name go on in the order of their objects' names, as a sort of all would have them; whatever characters stand around "/".
func TestObjectOrder(t *testing.T) {
	t.Parallel()
	name := rapid.StringMatching(`[a!\-./0~]{1,6}`).Filter(func(text string) bool {
		_, err := publish.ParseKey(text)
		return err == nil
	})
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfDistinct(name, rapid.ID[string]).Draw(t, "names")
		slices.Sort(names)
		got := []string{}
		for key, err := range inObjectOrder(named(names)) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, key.name+"/-/")
		}
		want := make([]string, 0, len(names))
		for _, name := range names {
			want = append(want, name+"/-/")
		}
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("order (-want +got):\n%s", diff)
		}
	})
}

func named(names []string) iter.Seq2[namedKey, error] {
	return func(yield func(namedKey, error) bool) {
		for i, name := range names {
			if !yield(namedKey{int64(i), name}, nil) {
				return
			}
		}
	}
}
