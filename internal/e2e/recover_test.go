package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// postgres runs a client program of Postgres and returns what it printed.
func postgres(t testing.TB, input []byte, name string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command(testenv.PostgresProgram(t, name), args...)
	var complaints strings.Builder
	cmd.Stdin, cmd.Stderr = bytes.NewReader(input), &complaints
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, complaints.String())
	}
	return out
}

func execSQL(t testing.TB, dsn, sql string) {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background()) //nolint:errcheck // The statement was answered.
	if _, err := conn.Exec(context.Background(), sql); err != nil {
		t.Fatal(err)
	}
}

// acquire takes a lease that outlives the test.
func (s *server) acquire(key publish.Key, holder string) client.Lease {
	s.t.Helper()
	lease, err := s.api.Acquire(context.Background(), publish.AcquireRequest{Key: key, Holder: holder, TTL: time.Hour})
	if err != nil {
		s.t.Fatal(err)
	}
	return lease
}

func (s *server) upload(lease client.Lease, body string) error {
	_, err := s.api.Upload(context.Background(), publish.UploadRequest{
		Grant: lease.Grant(), Path: "out.txt", Size: int64(len(body)), Body: strings.NewReader(body),
	})
	return err
}

func (s *server) publish(lease client.Lease) error {
	_, err := s.api.Publish(context.Background(), publish.PublishRequest{Grant: lease.Grant(), Final: true, Release: true})
	return err
}

// ship publishes one generation of a key.
func (s *server) ship(key publish.Key, holder, body string) client.Lease {
	s.t.Helper()
	lease := s.acquire(key, holder)
	if err := errors.Join(s.upload(lease, body), s.publish(lease)); err != nil {
		s.t.Fatal(err)
	}
	return lease
}

// operator runs an operator's verb with the settings of a server.
func (s *server) operator(wantExit int, args ...string) string {
	s.t.Helper()
	p := start(s.t, s.env, binary(s.t), args...)
	if code := p.exit(); code != wantExit {
		s.t.Fatalf("pawl %s ended with %d, want %d\n%s%s", strings.Join(args, " "), code, wantExit, p.out.String(), p.errs.String())
	}
	return p.out.String()
}

// lost returns the lost generations that pawl recover lists, as "key token objects marked known".
func (s *server) lost() []string {
	s.t.Helper()
	var all []string
	decoder := json.NewDecoder(strings.NewReader(s.operator(0, "recover", "--json")))
	for decoder.More() {
		var lost publish.LostGeneration
		if err := decoder.Decode(&lost); err != nil {
			s.t.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%s %d %d %t %s", lost.Key, lost.Token, lost.Objects, lost.Marked, lost.Known))
	}
	return all
}

// The restore drill, case 17: 41, 42 and 43 are published, then the dump of after 42 is put back. Nobody helps.
func TestCase17RestoreDrill(t *testing.T) {
	t.Parallel()
	for name, other := range map[string]bool{"same server": false, "another server": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			restoreDrill(t, other)
		})
	}
}

func restoreDrill(t *testing.T, other bool) {
	dsn, bucket := testenv.Postgres(t), testenv.S3Bucket(t)
	env := append(s3Env(bucket), "PAWL_MARKERS=true")
	s := serve(t, dsn, s3Address(bucket), env...)
	s.ship("thumbs/a", "W1", "made by W1")
	s.ship("thumbs/idle", "W1", "made by W1")
	execSQL(t, dsn, `UPDATE pawl.keys SET counter = 40 WHERE name = 'thumbs/a'`)
	s.ship("thumbs/a", "W41", "made by W41")
	s.ship("thumbs/a", "W42", "made by W42")
	open := s.acquire("thumbs/open", "before the dump")
	dump := postgres(t, nil, "pg_dump", "-Fc", "-d", dsn)

	w43 := s.ship("thumbs/a", "W43", "made by W43")
	young := s.acquire("thumbs/after", "W1")
	if err := errors.Join(s.upload(young, "made after the dump"), s.upload(open, "uploaded after the dump")); err != nil {
		t.Fatal(err)
	}
	if w43.Token != 43 {
		t.Fatalf("the token is %d, want 43", w43.Token)
	}
	before, err := bucket.Objects()
	if err != nil {
		t.Fatal(err)
	}
	s.kill()
	if other {
		dsn = testenv.PrivatePostgres(t).DSN()
	}
	postgres(t, dump, "pg_restore", "--clean", "--if-exists", "--no-owner", "-d", dsn)
	s = serve(t, dsn, s3Address(bucket), env...)

	if got := s.read("thumbs/a"); got != "made by W42" {
		t.Errorf("current after the restore is %q, want that of 42", got)
	}
	want := []string{"thumbs/a 43 1 true ", "thumbs/after 1 1 false ", "thumbs/open 1 1 false open"}
	if got := s.lost(); !slices.Equal(got, want) {
		t.Errorf("lost are %q, want %q", got, want)
	}
	// Worker 43 comes back late, before anybody has noticed and after; so does the worker of a key that the database has never seen.
	late := func() {
		t.Helper()
		if err := s.upload(w43, "late"); !errors.Is(err, publish.ErrStaleToken) {
			t.Errorf("an upload under 43: %v, want stale-token", err)
		}
		if err := s.publish(w43); !errors.Is(err, publish.ErrStaleToken) {
			t.Errorf("a publish under 43: %v, want stale-token", err)
		}
	}
	late()
	if err := s.publish(young); !errors.Is(err, publish.ErrNotFound) && !errors.Is(err, publish.ErrStaleToken) {
		t.Errorf("a publish of a lost key: %v", err)
	}
	for _, key := range []publish.Key{"thumbs/a", "thumbs/idle", "thumbs/after", "thumbs/never-seen"} {
		if next := s.ship(key, "W44", "made after the restore"); next.Token <= 43 {
			t.Errorf("the next token of %s is %d, want one above 43", key, next.Token)
		}
	}
	late()
	if err := s.publish(young); !errors.Is(err, publish.ErrStaleToken) {
		t.Errorf("a publish of a key that was lost and made again: %v, want stale-token", err)
	}
	if got := s.read("thumbs/a"); got != "made after the restore" {
		t.Errorf("current is %q", got)
	}
	checkKept(t, bucket, before)
	checkRecovered(t, s, want)
}

// checkKept checks that nothing was taken out of the bucket.
func checkKept(t *testing.T, bucket testenv.S3, before []string) {
	t.Helper()
	after, err := bucket.Objects()
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range before {
		if !slices.Contains(after, object) {
			t.Errorf("the object %s is gone", object)
		}
	}
}

// checkRecovered fetches what worker 43 has made, and registers it.
func checkRecovered(t *testing.T, s *server, lost []string) {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "w43")
	s.operator(0, "recover", "thumbs/a", "43", "--out", folder)
	if got, err := os.ReadFile(filepath.Join(folder, "out.txt")); err != nil || string(got) != "made by W43" {
		t.Errorf("fetched %q, %v", got, err)
	}
	if got := s.lost(); !slices.Equal(got, lost) {
		t.Errorf("lost are %q, want %q still", got, lost)
	}
	// Orphans are no damage.
	var report publish.VerifyReport
	lines := strings.Split(strings.TrimSpace(s.operator(0, "verify", "--deep", "--json")), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &report); err != nil {
		t.Fatal(err)
	}
	if report.Damaged || report.Faults[publish.FaultOrphan] != 3 || report.Faults[publish.FaultMarker] != 1 || report.Pointers != 4 {
		t.Errorf("verify reports %+v, want 3 orphans, a lost marker and 4 pointers", report)
	}

	s.operator(0, "recover", "thumbs/a", "43", "--register")
	if got := s.operator(0, "recover", "--register-all"); !strings.Contains(got, "thumbs/after, token 1: registered with 1 file(s)") {
		t.Errorf("registering all printed %s", got)
	}
	if got, want := s.lost(), []string{"thumbs/a 43 0 true open", "thumbs/open 1 1 false open"}; !slices.Equal(got, want) {
		t.Errorf("lost are %q, want %q", got, want)
	}
	g, err := s.api.Generation(context.Background(), "thumbs/a", 43)
	if err != nil || g.State != publish.StateOpen || len(g.Receipts) != 0 || g.Uploads.Unpublished != 1 {
		t.Errorf("the registered generation is %+v, %v; want it open, with one unpublished file", g, err)
	}
	if got := s.read("thumbs/a"); got != "made after the restore" {
		t.Errorf("registering has made %q current", got)
	}
}

// A generation that the database may still grant isn't registered; after the epoch was raised by hand it is.
func TestRecoverBump(t *testing.T) {
	t.Parallel()
	dsn, bucket := testenv.Postgres(t), testenv.S3Bucket(t)
	s := serve(t, dsn, s3Address(bucket), s3Env(bucket)...)
	s.ship("k", "W1", "one")
	s.ship("k", "W2", "two")
	// As a volume snapshot of after the first publish would leave it: the lineage is the same.
	execSQL(t, dsn, `ALTER TABLE pawl.keys DISABLE TRIGGER keys_never_back`)
	execSQL(t, dsn, `DELETE FROM pawl.receipts WHERE token = 2`)
	execSQL(t, dsn, `DELETE FROM pawl.files WHERE token = 2`)
	execSQL(t, dsn, `UPDATE pawl.keys SET counter = 1, fence = 1, current_token = 1`)
	execSQL(t, dsn, `DELETE FROM pawl.generations WHERE token = 2`)
	execSQL(t, dsn, `ALTER TABLE pawl.keys ENABLE TRIGGER keys_never_back`)

	if out := s.operator(80, "recover", "k", "2", "--register"); out != "" {
		t.Errorf("a token that can be granted was registered: %s", out)
	}
	if out := s.operator(0, "recover", "--bump"); !strings.Contains(out, "epoch 0 ") || !strings.Contains(out, "nothing was changed") {
		t.Errorf("the dry run printed %s", out)
	}
	if out := s.operator(0, "recover", "--bump", "--yes", "--reason", "snapshot of 12:00 put back"); !strings.Contains(out, "raised to epoch") {
		t.Errorf("--bump --yes printed %s", out)
	}
	s.operator(0, "recover", "k", "2", "--register")
	if next := s.ship("k", "W3", "three"); next.Token < 1_000_000_001 {
		t.Errorf("the next token is %d, want one of a raised epoch", next.Token)
	}
}
