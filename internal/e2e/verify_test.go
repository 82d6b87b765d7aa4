package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// verify runs pawl verify and returns its findings, as "fault key token path", and its sum.
func (s *server) verify(wantExit int, args ...string) (findings []string, report publish.VerifyReport) {
	s.t.Helper()
	lines := strings.Split(strings.TrimSpace(s.operator(wantExit, append([]string{"verify", "--json"}, args...)...)), "\n")
	for _, line := range lines[:len(lines)-1] {
		var f publish.VerifyFinding
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			s.t.Fatal(err)
		}
		findings = append(findings, fmt.Sprintf("%s %s %d %s", f.Fault, f.Key, f.Token, f.Path))
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &report); err != nil {
		s.t.Fatal(err)
	}
	return findings, report
}

// object finds the file in a directory store that holds the bytes of one upload.
func object(t *testing.T, folder, key string, token int, path string) (found string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(folder, key, "-", fmt.Sprint(token)), func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && strings.HasSuffix(name, "/"+path) {
			found = name
		}
		return err
	})
	if err != nil || found == "" {
		t.Fatalf("no object of %s %d %s: %v", key, token, path, err)
	}
	return found
}

// What is missing, damaged or nobody's is found, and nothing else: keys whose order by name isn't that of their objects, tokens whose order as text
// isn't that of numbers, files that lie in another generation, uploads that run, and foreign files are all in order.
func TestVerify(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	folder := filepath.Join(t.TempDir(), "blobs")
	dsn := testenv.Postgres(t)
	s := serve(t, dsn, "file://"+folder, "PAWL_MARKERS=true")
	for _, key := range []publish.Key{"a", "a!", "a/b", "a/!", "a0", "ä/z"} {
		s.ship(key, "W", "of "+string(key))
	}
	execSQL(t, dsn, `UPDATE pawl.keys SET counter = 9 WHERE name = 'a'`)
	for range 3 {
		s.ship("a", "W", "again")
	}
	// A generation that carries a file over.
	lease := s.acquire("a!", "W")
	if _, err := s.api.Publish(ctx, publish.PublishRequest{Grant: lease.Grant(), Final: true, ReuseFrom: 1}); err != nil {
		t.Fatal(err)
	}
	// An upload that runs, and one that was replaced before it was published.
	running := s.acquire("run", "W")
	stop, uploaded := make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := s.api.Upload(ctx, publish.UploadRequest{Grant: running.Grant(), Path: "slow", Size: -1, Body: &until{done: stop}})
		uploaded <- err
	}()
	for range 2 {
		if err := s.upload(running, "replaced"); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(folder, "README"), []byte("not Pawl's"), 0o600); err != nil {
		t.Fatal(err)
	}
	findings, report := s.verify(0, "--deep")
	if len(findings) > 0 || report.Damaged || report.Pointers != 6 || report.Needed != 10 || report.Foreign != 1 {
		t.Errorf("of a store in order verify finds %q and reports %+v", findings, report)
	}

	damage(t, folder)
	want := []string{
		"digest a 11 out.txt", "missing a 12 out.txt", "orphan a 2 out.txt", "orphan gone 7 x", "size a0 1 out.txt",
	}
	findings, report = s.verify(65, "--deep")
	slices.Sort(findings)
	if slices.Sort(want); !slices.Equal(findings, want) || !report.Damaged {
		t.Errorf("verify finds %q, want %q; %+v", findings, want, report)
	}
	// What was carried over is needed by the generation that carries it, and a prefix is a key, not a beginning of its name.
	if err := os.Remove(object(t, folder, "a!", 1, "out.txt")); err != nil {
		t.Fatal(err)
	}
	if findings, _ := s.verify(65, "--prefix", "a!"); !slices.Equal(findings, []string{"missing a! 1 out.txt"}) {
		t.Errorf("verify of a! finds %q", findings)
	}
	if findings, _ := s.verify(0, "--prefix", "a/b"); findings != nil {
		t.Errorf("verify of a/b finds %q", findings)
	}
	// Where nothing lies, all being well would be no news.
	nothing := start(t, s.env, binary(t), "verify", "--prefix", "nope")
	if code := nothing.exit(); code != 82 || !strings.Contains(nothing.errs.String(), "--prefix nope: there is no such key") {
		t.Errorf("verify of nothing ends with %d: %s%s", code, nothing.out.String(), nothing.errs.String())
	}
	if text := s.operator(65, "verify"); !strings.Contains(text, " bytes, 1 foreign object(s)\n") {
		t.Errorf("verify says\n%s", text)
	}
	close(stop)
	if err := <-uploaded; err != nil {
		t.Error(err)
	}
	// A store that isn't the database's own would be full of orphans.
	wrong := start(t, append(slices.Clone(s.env), "PAWL_DATABASE_URL="+testenv.Postgres(t)), binary(t), "verify")
	if code := wrong.exit(); code != 78 || wrong.out.String() != "" {
		t.Errorf("verify against another database ends with %d: %s%s", code, wrong.out.String(), wrong.errs.String())
	}
}

// damage breaks a store in every way that verify knows.
func damage(t *testing.T, folder string) {
	t.Helper()
	same := object(t, folder, "a", 11, "out.txt")
	if err := os.Chmod(same, 0o600); err != nil {
		t.Fatal(err)
	}
	longer := object(t, folder, "a0", 1, "out.txt")
	if err := os.Chmod(longer, 0o600); err != nil {
		t.Fatal(err)
	}
	orphan := filepath.Join(folder, "gone", "-", "7", strings.Repeat("0a", 16), "x")
	second := filepath.Join(folder, "a", "-", "2", strings.Repeat("0b", 16), "out.txt")
	for path, text := range map[string]string{same: "AGAIN", longer: "much longer than it was", orphan: "o", second: "o"} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(object(t, folder, "a", 12, "out.txt")); err != nil {
		t.Fatal(err)
	}
}

// The two orders agree over pages of keys and batches of doubtful objects.
func TestVerifyManyKeys(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "blobs")
	dsn := testenv.Postgres(t)
	s := serve(t, dsn, "file://"+folder)
	const keys = 1300
	// Names with bytes around that of the slash.
	execSQL(t, dsn, fmt.Sprintf(`
		INSERT INTO pawl.keys (name, counter) SELECT 'k' || substr('!-.0~/', n %% 6 + 1, 1) || n, 1 FROM generate_series(1, %d) n;
		INSERT INTO pawl.generations (key_id, token, lease_sha256, holder, granted_at) SELECT id, 1, sha256(name::text::bytea), 'W', now() FROM pawl.keys;
		INSERT INTO pawl.files (key_id, token, path, upload_id, state, size, sha256, content_type, from_revision)
			SELECT id, 1, 'f', decode(md5(name), 'hex'), 'stored', 1, sha256('x'), 'text/plain', 1 FROM pawl.keys`, keys))
	rows := postgres(t, nil, "psql", "-At", "-d", dsn, "-c", `SELECT name || '/-/1/' || md5(name) || '/f' FROM pawl.keys`)
	for line := range bytes.Lines(rows) {
		path := filepath.Join(folder, strings.TrimSpace(string(line)))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if findings, report := s.verify(0); len(findings) > 0 || report.Needed != keys {
		t.Errorf("%d findings, the first %q; %+v", len(findings), findings[:min(1, len(findings))], report)
	}
	// Without their rows all are orphans, in more than one batch.
	execSQL(t, dsn, `DELETE FROM pawl.files`)
	if findings, report := s.verify(0); len(findings) != keys || report.Faults[publish.FaultOrphan] != keys {
		t.Errorf("%d findings, want %d orphans; %+v", len(findings), keys, report)
	}
	if lost := s.lost(); len(lost) != keys {
		t.Errorf("%d lost generations, want %d", len(lost), keys)
	}
}
