package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// untilGo is a shell loop that waits for a file in the folder NOTES. It looks seldom, since many run side by side.
const untilGo = `while [ ! -e "$NOTES/go" ]; do sleep 0.2; done; `

// hold starts `pawl run` around a shell script, and waits until that runs.
func (s *server) hold(notes, key, script string, flags ...string) *process {
	s.t.Helper()
	args := append([]string{"run", "--key", key, "--holder", "worker-a"}, flags...)
	p := start(s.t, []string{"PAWL_URL=" + s.url, "NOTES=" + notes}, binary(s.t),
		append(args, "--", "sh", "-c", `echo $$ >"$NOTES/pid"; `+script)...)
	awaitFile(s.t, filepath.Join(notes, "pid"))
	return p
}

func letGo(t *testing.T, notes string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(notes, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// The server is killed for longer than the lease lasts. When it is back and nobody took over, the run goes on under its token and
// publishes; when B took over, it is fenced. Both with a command that runs on, and with one that is paused meanwhile.
func TestRunOutlastsTheServer(t *testing.T) {
	t.Parallel()
	for _, whenAway := range []string{"keep", "pause"} {
		for _, takenOver := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, taken over %t", whenAway, takenOver), func(t *testing.T) {
				t.Parallel()
				dsn, blobs, notes := testenv.Postgres(t), directory(t), t.TempDir()
				s := serve(t, dsn, blobs)
				const key = "away/k"
				a := s.hold(notes, key, untilGo+`echo "by $PAWL_TOKEN" >"$PAWL_OUT/out.txt"`, "--ttl", "1s", "--when-away", whenAway)
				s.kill()
				awaitWord(t, a, "expired by the own clock")
				if whenAway == "pause" {
					awaitWord(t, a, "the command is paused until a renewal is answered")
				}
				if takenOver {
					// B reaches another replica, which A doesn't know.
					other := serve(t, dsn, blobs)
					lease, err := other.api.Acquire(context.Background(), publish.AcquireRequest{Key: key, Holder: "worker-b", TTL: time.Minute, Wait: patience})
					if err != nil {
						t.Fatal(err)
					}
					body := "by B"
					if _, err := other.api.UploadAndPublish(context.Background(), publish.UploadRequest{
						Grant: lease.Grant(), Path: "out.txt", Size: int64(len(body)), Body: strings.NewReader(body),
					}); err != nil {
						t.Fatal(err)
					}
				}
				s.start()
				if takenOver {
					s.checkFenced(a, key, 1, 2, "worker-a")
					if got := s.read(key); got != "by B" {
						t.Errorf("current is %q", got)
					}
					return
				}
				letGo(t, notes)
				if code := a.exit(); code != 0 {
					t.Fatalf("A exits %d: %s", code, a.errs.String())
				}
				if got := s.read(key); got != "by 1\n" {
					t.Errorf("current is %q", got)
				}
			})
		}
	}
}

// Case 12: all replicas are stopped for three TTLs with 50 live holders, `pawl run` processes and such that were acquired step by
// step. Afterwards each may renew or publish if nobody replaced it, and is fenced if somebody did. No token comes twice.
func TestCase12FiftyHoldersOutlastTheServers(t *testing.T) {
	t.Parallel()
	const ttl, holders, runs = 2 * time.Second, 50, 25
	dsn, blobs := testenv.Postgres(t), directory(t)
	servers := []*server{serve(t, dsn, blobs), serve(t, dsn, blobs)}
	key := func(n int) string { return fmt.Sprint("held/", n) }
	notes, leases, work := t.TempDir(), t.TempDir(), make([]*process, holders)
	file := func(n int) string { return filepath.Join(leases, fmt.Sprint(n)) }
	for n := range holders {
		if n < runs {
			work[n] = start(t, []string{"PAWL_URL=" + servers[n%2].url, "NOTES=" + notes}, binary(t), "run", "--key", key(n), "--holder", "worker-a",
				"--ttl", ttl.String(), "--lease-file", file(n), "--", "sh", "-c", untilGo+`echo "by $PAWL_TOKEN" >"$PAWL_OUT/out.txt"`)
			continue
		}
		p := servers[n%2].pawl("acquire", key(n), "--holder", "worker-a", "--ttl", ttl.String(), "--json")
		if code := p.exit(); code != 0 {
			t.Fatalf("acquire exits %d", code)
		}
		if err := os.WriteFile(file(n), []byte(p.out.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for n := range runs {
		awaitFile(t, file(n)) // its lease
	}
	for _, s := range servers {
		s.kill()
	}
	time.Sleep(3 * ttl) // This is what is tested: how long nobody can reach a server.
	for _, s := range servers {
		s.start()
	}

	// B asks for every third key, once. A wrapper that was quicker has renewed its lease.
	ctx := context.Background()
	granted := make([]publish.Token, holders) // to B, 0 for none
	for n := 0; n < holders; n += 3 {
		if lease, err := servers[0].api.Acquire(ctx, publish.AcquireRequest{Key: publish.Key(key(n)), Holder: "worker-b", TTL: time.Minute}); err == nil {
			granted[n] = lease.Token
		}
	}
	letGo(t, notes)
	out := filepath.Join(t.TempDir(), "out.txt")
	if err := os.WriteFile(out, []byte("by 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	replaced := 0
	for n := range holders {
		want := 0
		if granted[n] != 0 {
			want, replaced = 80, replaced+1
		}
		if n >= runs {
			renew := servers[1].pawl("renew", key(n), "--lease-file", file(n), "--json")
			if code := renew.exit(); code != want {
				t.Errorf("renew of %s exits %d, want %d", key(n), code, want)
			}
			if want != 0 {
				continue // It may publish as long as B hasn't: that is the fence's matter, and another test's.
			}
			if !strings.Contains(renew.out.String(), `"token":1,`) {
				t.Errorf("renewed is %s", renew.out.String())
			}
			work[n] = servers[1].pawl("put", key(n), out, "--lease-file", file(n), "--publish")
		}
		if code := work[n].exit(); code != want {
			t.Errorf("%s exits %d, want %d: %s", key(n), code, want, work[n].errs.String())
		}
		if want == 0 {
			if got := servers[0].read(key(n)); got != "by 1\n" {
				t.Errorf("current of %s is %q", key(n), got)
			}
		}
	}
	if replaced < 5 {
		t.Errorf("B replaced only %d", replaced)
	}
	for n := range holders {
		history, err := servers[0].api.History(ctx, publish.Key(key(n)), 0, 100)
		if err != nil {
			t.Fatal(err)
		}
		tokens := []publish.Token{}
		for _, g := range history.Generations {
			tokens = append(tokens, g.Token)
		}
		want := "[1]"
		if granted[n] != 0 {
			want = "[2 1]"
		}
		if got := fmt.Sprint(tokens); got != want || granted[n] != 0 && granted[n] != 2 {
			t.Errorf("the tokens of %s are %s, want %s; B has %d", key(n), got, want, granted[n])
		}
	}
}
