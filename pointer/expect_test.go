package pointer_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// expectTime bounds one publish of as many frames as a publish may expect, beside all other tests on two cores; alone it takes well below a second.
const expectTime = 30 * time.Second

// Case 22: 100,000 expected frames. Every publish of them is answered within its time, whether all are there, half are missing
// or empty, or it is a repeat; also where the statistics know nothing of the files yet, as here.
// It isn't parallel: it is about time.
func TestCase22ManyFrames(t *testing.T) {
	store, dsn := newStore(t)
	w := grant(t, store, "shots/010/comp", "W")
	const insert = `INSERT INTO pawl.files (key_id, token, path, upload_id, state, size, sha256, content_type, from_revision)
		SELECT k.id, 1, 'beauty.' || lpad(n::text, 6, '0') || '.exr', decode(md5(n::text), 'hex'), 'stored', 3, sha256('abc'), 'image/x-exr', 1
		FROM pawl.keys k, generate_series($1::int, 100000, 2) n`
	exec1(t, dsn, insert, 2)
	req := publish.PublishRequest{Grant: w.grant(), Final: true, Expect: []string{"beauty.[000001-100000].exr"}}
	within := func(what string) (publish.Receipt, *publish.Error) {
		t.Helper()
		start := time.Now()
		receipt, err := store.Publish(context.Background(), req)
		took := time.Since(start)
		t.Logf("%s: %v", what, took.Round(time.Millisecond))
		if took > expectTime {
			t.Errorf("%s took %v, want less than %v", what, took, expectTime)
		}
		var refusal *publish.Error
		if err != nil && (!errors.As(err, &refusal) || refusal.Code != publish.ErrGenerationIncomplete) {
			t.Fatalf("%s: %v", what, err)
		}
		return receipt, refusal
	}
	odd := func(what string, paths []publish.Path) {
		t.Helper()
		if len(paths) != 50000 {
			t.Fatalf("%s lists %d paths, want 50000", what, len(paths))
		}
		for i, path := range paths {
			if want := publish.Path(fmt.Sprintf("beauty.%06d.exr", 2*i+1)); path != want {
				t.Fatalf("%s lists %s at %d, want %s", what, path, i, want)
			}
		}
	}

	_, refusal := within("half missing")
	odd("missing", refusal.Missing)
	exec1(t, dsn, insert, 1)
	exec1(t, dsn, `UPDATE pawl.files SET size = 0 WHERE substr(path, 13, 1) IN ('1', '3', '5', '7', '9')`)
	_, refusal = within("half empty")
	odd("empty", refusal.Empty)
	exec1(t, dsn, `UPDATE pawl.files SET size = 3`)
	receipt, refusal := within("complete")
	if refusal != nil || receipt.Files != 100000 || receipt.Replayed {
		t.Fatalf("complete: %+v, %v", receipt, refusal)
	}
	if receipt, refusal = within("replay"); refusal != nil || !receipt.Replayed {
		t.Errorf("replay: %+v, %v", receipt, refusal)
	}
}
