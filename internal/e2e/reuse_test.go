package e2e

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// Case 23 with real processes and a folder as the store: ten frames, of which two are rendered again. The folder gets two files
// more, and readers get all ten frames of the new version.
func TestCase23ReuseFrames(t *testing.T) {
	t.Parallel()
	store := filepath.Join(t.TempDir(), "blobs")
	s := serve(t, testenv.Postgres(t), "file://"+store)
	const render = `for n in $FRAMES; do echo "$LOOK $n" > "$PAWL_OUT/beauty.$n.exr"; done`
	run := func(look, frames string, flags ...string) *process {
		args := append([]string{"run", "--key", "shot", "--expect", "beauty.[1001-1010].exr"}, flags...)
		return start(t, []string{"PAWL_URL=" + s.url, "LOOK=" + look, "FRAMES=" + frames}, binary(t), append(args, "--", "sh", "-c", render)...)
	}
	const all = "1001 1002 1003 1004 1005 1006 1007 1008 1009 1010"
	if code := run("first", all).exit(); code != 0 {
		t.Fatalf("the first render exits %d", code)
	}
	if code := run("second", "1007 1008").exit(); code != 66 {
		t.Errorf("a render of two frames exits %d without --reuse-from, want 66: eight are missing", code)
	}
	before := objects(t, store)
	if code := run("third", "1007 1008", "--reuse-from", "1").exit(); code != 0 {
		t.Fatalf("the render that reuses exits %d", code)
	}
	if after := objects(t, store); after != before+2 {
		t.Errorf("the store has %d objects after %d, want two more", after, before)
	}
	for n := 1001; n <= 1010; n++ {
		want := fmt.Sprintf("first %d\n", n)
		if n == 1007 || n == 1008 {
			want = fmt.Sprintf("third %d\n", n)
		}
		path := publish.Path(fmt.Sprintf("beauty.%d.exr", n))
		for _, url := range []string{s.url + "/v1/keys/shot/-/current/" + string(path), s.api.FileURL("shot", 3, path)} {
			if got, err := get(url); err != nil || string(got) != want {
				t.Errorf("%s gives %q, %v; want %q", url, got, err, want)
			}
		}
	}
	generation, err := s.api.Generation(context.Background(), "shot", 3)
	if err != nil || len(generation.Receipts) != 1 || generation.Receipts[0].ReuseFrom != 1 || generation.Receipts[0].ReusedFiles != 8 {
		t.Errorf("the history says %+v, %v", generation.Receipts, err)
	}
	if code := run("fourth", "1001", "--reuse-from", "1").exit(); code != 82 {
		t.Errorf("a render that reuses what isn't current any more exits %d, want 82", code)
	}
}

// objects counts the files of a folder that is a store.
func objects(t *testing.T, store string) (n int) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(store), ".", func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			n++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
