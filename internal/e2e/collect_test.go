package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

func seconds(n time.Duration) publish.Duration { return publish.Duration{Duration: n * time.Second} }

func setPolicy(t testing.TB, s *server, policy publish.Policy) {
	t.Helper()
	if err := s.api.SetPolicy(context.Background(), policy, "ops"); err != nil {
		t.Fatal(err)
	}
}

// collect runs the verb on a server's database and store to its end.
func collect(t testing.TB, s *server, args ...string) (report publish.CollectReport) {
	t.Helper()
	p := start(t, s.env, binary(t), append([]string{"collect", "--json"}, args...)...)
	<-p.done
	if err := json.Unmarshal([]byte(p.out.String()), &report); err != nil || p.err != nil || report.Errors > 0 {
		t.Fatalf("collect: %v, %v: %s%s", p.err, err, p.out.String(), p.errs.String())
	}
	return report
}

// collectUntil runs the verb until it has condemned so many generations.
func collectUntil(t testing.TB, s *server, condemned int) {
	t.Helper()
	got := 0
	testenv.Eventually(t, patience, func() error {
		if got += collect(t, s, "--grace", "0s").Condemned; got < condemned {
			return fmt.Errorf("%d generations are condemned, want %d", got, condemned)
		}
		return nil
	})
}

func connect(t testing.TB, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// checkStore compares a bucket with the database: every object of a kept generation is there, and no other one is.
func checkStore(t testing.TB, dsn string, bucket testenv.S3) {
	t.Helper()
	rows, err := connect(t, dsn).Query(context.Background(), `
		SELECT DISTINCT format('%s/-/%s/%s/%s', k.name, coalesce(f.object_token, f.token), encode(f.upload_id, 'hex'), f.path)
		FROM pawl.files f JOIN pawl.generations g USING (key_id, token) JOIN pawl.keys k ON k.id = f.key_id
		WHERE f.state = 'stored' AND g.state IN ('open', 'sealed')`)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	objects, err := bucket.Objects()
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, object := range objects {
		if _, name, _ := strings.Cut(object, "/"); strings.Contains(name, "/-/") { // below the prefix of the address, without the store's own
			there[name] = true
		}
	}
	for _, name := range kept {
		if !there[name] {
			t.Errorf("%s is gone, which a kept generation names", name)
		}
		delete(there, name)
	}
	for name := range there {
		t.Errorf("%s is left", name)
	}
	if unfinished, err := bucket.Unfinished(); err != nil || len(unfinished) > 0 {
		t.Errorf("unfinished uploads: %q, %v", unfinished, err)
	}
}

// fiveOfTen is a worker's script: five files, a pause until it may go on, five more, and a publish.
const fiveOfTen = `for n in 1 2 3 4 5; do echo "file $n" > "$NOTES/$n"; "$PAWL" put "$KEY" "$NOTES/$n" --path "$n" || exit; done
echo half > "$NOTES/half"
while [ ! -e "$NOTES/go" ]; do sleep 0.05; done
for n in 6 7 8 9 10; do echo "file $n" > "$NOTES/$n"; "$PAWL" put "$KEY" "$NOTES/$n" --path "$n"; done
exec "$PAWL" publish "$KEY" --primary 1`

// Case 8: A uploads 5 of 10 files and is stopped, its lease expires, a collection with zero grace runs, A goes on and publishes: it is told that its
// generation was collected, and no pointer names missing bytes. Where a policy keeps its generation, it publishes all ten. In both fence modes,
// and with a version before that stays current.
func TestCase08CollectedWhileStopped(t *testing.T) {
	t.Parallel()
	for _, mode := range []publish.FenceMode{publish.FenceAccepted, publish.FenceGranted} {
		for _, kept := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/kept=%t", mode, kept), func(t *testing.T) {
				t.Parallel()
				dsn, bucket := testenv.Postgres(t), testenv.S3Bucket(t)
				s := serve(t, dsn, s3Address(bucket), append(s3Env(bucket), "PAWL_COLLECT=off")...)
				policy := publish.Policy{FenceMode: mode, KeepGenerations: 1, KeepUnpublishedFor: seconds(1)}
				if kept {
					policy.KeepUnpublishedFor = seconds(3600)
				}
				setPolicy(t, s, policy)
				if err := roundTrip(s, "k", []byte("before"), 6); err != nil {
					t.Fatal(err)
				}
				s.release("k")
				lease, err := s.api.Acquire(t.Context(), publish.AcquireRequest{Key: "k", Holder: "A", TTL: time.Second})
				if err != nil {
					t.Fatal(err)
				}
				notes := t.TempDir()
				a := start(t, []string{
					"PAWL_URL=" + s.url, "PAWL=" + binary(t), "KEY=k", "NOTES=" + notes,
					fmt.Sprintf("PAWL_TOKEN=%d", lease.Token), "PAWL_LEASE_ID=" + lease.LeaseID.Hex(),
				}, "sh", "-c", fiveOfTen)
				awaitFile(t, filepath.Join(notes, "half"))
				_ = syscall.Kill(-a.cmd.Process.Pid, syscall.SIGSTOP)
				testenv.Eventually(t, patience, func() error {
					held, err := s.api.Lease(t.Context(), "k")
					if err == nil && held.Held {
						err = errors.New("the lease is alive")
					}
					return err
				})
				if kept {
					collect(t, s, "--grace", "0s")
				} else {
					collectUntil(t, s, 1)
				}
				if err := os.WriteFile(filepath.Join(notes, "go"), nil, 0o600); err != nil {
					t.Fatal(err)
				}
				_ = syscall.Kill(-a.cmd.Process.Pid, syscall.SIGCONT)
				code := a.exit()
				checkStore(t, dsn, bucket)
				switch {
				case kept:
					if code != 0 || s.read("k") != "file 1\n" {
						t.Errorf("A exits %d and %q is current", code, s.read("k"))
					}
				case code != 80 || !strings.Contains(a.errs.String(), "given up"):
					t.Errorf("A exits %d: %s", code, a.errs.String())
				case s.read("k") != "before":
					t.Errorf("current is %q", s.read("k"))
				}
			})
		}
	}
}

// release gives up whatever lease a key has.
func (s *server) release(key publish.Key) {
	s.t.Helper()
	conn := connect(s.t, s.dsn())
	if _, err := conn.Exec(context.Background(), `UPDATE pawl.keys SET lease_expires_at = clock_timestamp() - interval '1 ms'
		WHERE name = $1 AND lease_expires_at IS NOT NULL`, string(key)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *server) dsn() string {
	i := slices.IndexFunc(s.env, func(v string) bool { return strings.HasPrefix(v, "PAWL_DATABASE_URL=") })
	return strings.TrimPrefix(s.env[i], "PAWL_DATABASE_URL=")
}

// Case 20: a signed URL is used after its generation was collected. The object is swept by a later pass.
func TestCase20SignedURLUsedLate(t *testing.T) {
	t.Parallel()
	dsn, bucket := testenv.Postgres(t), testenv.S3Bucket(t)
	s := serve(t, dsn, s3Address(bucket), append(s3Env(bucket), "PAWL_COLLECT=off")...)
	setPolicy(t, s, publish.Policy{FenceMode: publish.FenceAccepted, KeepUnpublishedFor: seconds(1)})
	lease, err := s.api.Acquire(t.Context(), publish.AcquireRequest{Key: "k", Holder: "A", TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	content := bytes.Repeat([]byte("x"), 1000)
	text, err := json.Marshal(map[string]any{"path": "late", "size": len(content), "sha256": publish.Digest(sha256.Sum256(content))})
	if err != nil {
		t.Fatal(err)
	}
	send := func(method, url string, body []byte, header map[string]string) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range header {
			req.Header.Set(name, value)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	answer := send(http.MethodPost, fmt.Sprintf("%s/v1/keys/k/-/generations/%d/uploads", s.url, lease.Token), text, map[string]string{"Pawl-Lease": lease.LeaseID.Hex()})
	var begun struct {
		Put *publish.SignedRequest `json:"put"`
	}
	err = json.NewDecoder(answer.Body).Decode(&begun)
	_ = answer.Body.Close()
	if err != nil || begun.Put == nil {
		t.Fatalf("begun with %s, %v: %+v", answer.Status, err, begun)
	}
	collectUntil(t, s, 1) // The lease is alive, which doesn't matter.
	answer = send(begun.Put.Method, begun.Put.URL, content, begun.Put.Headers)
	_ = answer.Body.Close()
	objects, err := bucket.Objects()
	if answer.StatusCode != http.StatusOK || err != nil || !strings.HasSuffix(strings.Join(objects, "\n"), "/late") {
		t.Fatalf("the late upload was answered with %s; there are %q, %v", answer.Status, objects, err)
	}
	if got := collect(t, s, "--grace", "0s"); got.Objects != 0 {
		t.Errorf("at once: %+v", got)
	}
	// A day later.
	if _, err := connect(t, dsn).Exec(t.Context(), `UPDATE pawl.generations SET empty_at = empty_at - interval '25 hours', collected_at = collected_at - interval '25 hours'`); err != nil {
		t.Fatal(err)
	}
	if got := collect(t, s, "--grace", "0s"); got.Objects != 1 || got.Bytes != 1000 {
		t.Errorf("a day later: %+v", got)
	}
	checkStore(t, dsn, bucket)
}
