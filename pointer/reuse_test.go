package pointer_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/publish"
)

// reuseTime bounds one publish that carries 100,000 files over, beside all other tests on two cores; alone it takes 1.3 s.
const reuseTime = 60 * time.Second

// Case 23: a set of 100,000 frames of which a few are rendered again: carrying the rest over is answered within its time, also when
// all of it is expected, and asked for a second time; the statistics know nothing of the files yet, as here.
// It isn't parallel: it is about time.
func TestCase23ManyFrames(t *testing.T) {
	store, dsn := newStore(t)
	a := grant(t, store, "shots/010/comp", "A")
	exec1(t, dsn, `INSERT INTO pawl.files (key_id, token, path, upload_id, state, size, sha256, content_type, from_revision)
		SELECT k.id, 1, 'beauty.' || lpad(n::text, 6, '0') || '.exr', decode(md5(n::text), 'hex'), 'stored', 3, sha256('abc'), 'image/x-exr', 1
		FROM pawl.keys k, generate_series(1, 100000) n`)
	if _, err := a.publish(store); err != nil {
		t.Fatal(err)
	}
	within := func(what string, req publish.PublishRequest) publish.Receipt {
		t.Helper()
		start := time.Now()
		receipt, err := store.Publish(context.Background(), req)
		took := time.Since(start)
		t.Logf("%s: %v", what, took.Round(time.Millisecond))
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if took > reuseTime {
			t.Errorf("%s took %v, want less than %v", what, took, reuseTime)
		}
		return receipt
	}
	for token := publish.Token(2); token <= 3; token++ { // The second time a chain.
		b := render(t, store, a.lease.Key, "beauty.001007.exr", "beauty.001008.exr")
		req := publish.PublishRequest{Grant: b.grant(), Final: true, ReuseFrom: token - 1, Expect: []string{"beauty.[000001-100000].exr"}, Release: true}
		receipt := within("reuse", req)
		if receipt.Files != 100000 || receipt.ReusedFiles != 99998 || receipt.Replayed {
			t.Fatalf("receipt %+v", receipt)
		}
		if !within("replay", req).Replayed {
			t.Error("a repeat is no replay")
		}
	}
	file, err := store.File(context.Background(), a.lease.Key, 3, "beauty.050000.exr", publish.LeaseID{})
	if err != nil || !strings.HasPrefix(string(file.Object), "shots/010/comp/-/1/") {
		t.Errorf("a file that was carried over twice is %+v, %v; want the object of the first generation", file, err)
	}
}

// render is granted a key and uploads files of three bytes.
func render(t *testing.T, store publish.PointerStore, key publish.Key, paths ...publish.Path) worker {
	t.Helper()
	w := grant(t, store, key, "W")
	for _, path := range paths {
		start, err := store.BeginUpload(context.Background(), publish.BeginUploadRequest{Grant: w.grant(), Path: path})
		if err != nil {
			t.Fatal(err)
		}
		file := publish.File{Path: path, Size: 3, SHA256: publish.Digest{1}, ContentType: "image/x-exr"}
		if _, err := store.CompleteUpload(context.Background(), start.Upload, file); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// What still references the objects of a generation is told by an index, whatever the key holds besides.
func TestReferencesOfAGeneration(t *testing.T) {
	t.Parallel()
	store, dsn := newStore(t)
	published := func(from publish.Token, paths ...publish.Path) publish.Token {
		t.Helper()
		w := render(t, store, "k", paths...)
		req := publish.PublishRequest{Grant: w.grant(), Final: true, ReuseFrom: from, Release: true}
		if _, err := store.Publish(context.Background(), req); err != nil {
			t.Fatal(err)
		}
		return w.lease.Token
	}
	first := published(0, "f", "g")
	second := published(first, "g")
	third := published(second, "h")
	published(0, "f")
	conn, err := pgx.Connect(context.Background(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background()) //nolint:errcheck // The test is over.
	const query = `SELECT DISTINCT token FROM pawl.files
		WHERE key_id = (SELECT id FROM pawl.keys WHERE name = 'k') AND object_token = $1 ORDER BY token`
	for object, want := range map[publish.Token][]publish.Token{first: {second, third}, second: {third}, third: {}} {
		rows, err := conn.Query(context.Background(), query, int64(object))
		if err != nil {
			t.Fatal(err)
		}
		got, err := pgx.CollectRows(rows, pgx.RowTo[publish.Token])
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("generations that reference objects of %d: %v %s", object, err, diff)
		}
	}
	if _, err := conn.Exec(context.Background(), `SET enable_seqscan = off`); err != nil {
		t.Fatal(err)
	}
	rows, err := conn.Query(context.Background(), `EXPLAIN `+strings.ReplaceAll(query, "$1", "1"))
	if err != nil {
		t.Fatal(err)
	}
	plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || !strings.Contains(strings.Join(plan, "\n"), "files_reused") {
		t.Errorf("the plan doesn't use the index: %v\n%s", err, strings.Join(plan, "\n"))
	}
}
