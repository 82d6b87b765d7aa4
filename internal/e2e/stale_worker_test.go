package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"image/jpeg"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// picture is a real photograph, from the Go distribution.
func picture(t testing.TB) string {
	t.Helper()
	path := filepath.Join(runtime.GOROOT(), "src", "image", "testdata", "video-001.png") //nolint:staticcheck // The distribution that runs the test has the picture.
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	return path
}

// render is a worker's command: it says who it is, waits until it may go on, and makes a thumbnail with libvips.
const render = `echo $$ > "$NOTES/pid"
while [ ! -e "$NOTES/go" ]; do sleep 0.05; done
exec vips thumbnail "$PICTURE" "$PAWL_OUT/thumb.jpg" "$WIDTH"`

// worker is one `pawl run` around render.
type worker struct {
	*process
	notes string
	pid   int // of the command, which leads a process group of its own
}

// run starts a worker and waits until its command runs, under its token.
func (s *server) run(key, holder, width, ttl string) *worker {
	s.t.Helper()
	notes := s.t.TempDir()
	w := &worker{notes: notes}
	w.process = start(s.t, []string{"PAWL_URL=" + s.url, "NOTES=" + notes, "PICTURE=" + picture(s.t), "WIDTH=" + width},
		binary(s.t), "run", "--key", key, "--holder", holder, "--ttl", ttl, "--wait", "30s", "--out", "thumb.jpg", "--", "sh", "-c", render)
	pid, err := strconv.Atoi(awaitFile(s.t, filepath.Join(notes, "pid")))
	if err != nil {
		s.t.Fatal(err)
	}
	w.pid = pid
	s.t.Cleanup(func() { _ = syscall.Kill(-pid, syscall.SIGKILL) })
	return w
}

// stop suspends the whole worker, as a suspended machine would.
func (w *worker) stop() {
	w.signal(syscall.SIGSTOP)
	_ = syscall.Kill(-w.pid, syscall.SIGSTOP)
}

// resume wakes the worker; letGo lets its command render.
func (w *worker) resume() {
	_ = syscall.Kill(-w.pid, syscall.SIGCONT)
	w.signal(syscall.SIGCONT)
}

func (w *worker) letGo() {
	if err := os.WriteFile(filepath.Join(w.notes, "go"), nil, 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// checkPicture checks that the current bytes are a picture of that width.
func (s *server) checkPicture(key string, width int) (body string) {
	s.t.Helper()
	body = s.read(key)
	config, err := jpeg.DecodeConfig(strings.NewReader(body))
	if err != nil || config.Width != width {
		s.t.Errorf("the current bytes are a picture of width %d, %v; want %d", config.Width, err, width)
	}
	return body
}

// checkFenced checks everything that must be seen of a stale worker: its exit code, both tokens in its message, its rejection in
// history, log and metric.
func (s *server) checkFenced(p *process, key string, token, winner publish.Token, holder string) {
	s.t.Helper()
	if code := p.exit(); code != 80 {
		s.t.Errorf("the stale worker exits %d, want 80", code)
	}
	for _, want := range []string{fmt.Sprintf("token %d", token), fmt.Sprint(winner)} {
		if !strings.Contains(p.errs.String(), want) {
			s.t.Errorf("the stale worker's message lacks %q: %s", want, p.errs.String())
		}
	}
	history, err := s.api.History(context.Background(), publish.Key(key), 0, 100)
	if err != nil {
		s.t.Fatal(err)
	}
	found, operation := false, ""
	for _, g := range history.Generations {
		for _, r := range g.Rejections {
			if g.Token == token && r.Token == token && r.Holder == holder && r.AcceptedToken == winner && !r.LastAt.IsZero() {
				found, operation = true, r.Operation
			}
		}
	}
	if !found {
		s.t.Errorf("history has no rejection of %s under token %d after %d: %+v", holder, token, winner, history)
	}
	awaitWord(s.t, s.process, "fence_rejected")
	if line := s.metric(`pawl_fence_rejections_total{operation="` + operation + `"}`); line == "" || strings.HasSuffix(line, " 0") {
		s.t.Errorf("the metric of rejected operations %q is %q", operation, line)
	}
}

// Case 1, the story that Pawl is for: A is stopped past its lease, B renders and publishes, A wakes up, goes on, and must not
// overwrite B's picture. With and without a crash of everything in the middle.
func TestCase01StaleWorker(t *testing.T) {
	t.Parallel()
	for _, crash := range []bool{false, true} {
		name := "plain"
		if crash {
			name = "server and Postgres killed in the middle"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			postgres := testenv.PrivatePostgres(t)
			s := serve(t, postgres.DSN(), directory(t))
			const key = "thumbs/image-52"

			a := s.run(key, "worker-a", "60", "1s")
			a.stop()
			if crash {
				s.kill()
				postgres.Kill(t)
				postgres.Restart(t)
				s.start()
			}
			b := s.run(key, "worker-b", "40", "30s") // waits until A's lease has run out
			b.letGo()
			if code := b.exit(); code != 0 {
				t.Fatalf("B exits %d: %s", code, b.errs.String())
			}
			current := s.checkPicture(key, 40)
			if crash {
				s.kill()
				postgres.Kill(t)
				postgres.Restart(t)
				s.start()
			}

			a.letGo()
			a.resume()
			s.checkFenced(a.process, key, 1, 2, "worker-a")
			if s.checkPicture(key, 40) != current {
				t.Error("the current bytes have changed")
			}
			c := s.run(key, "worker-c", "30", "30s")
			c.letGo()
			if code := c.exit(); code != 0 {
				t.Errorf("C exits %d", code)
			}
			s.checkPicture(key, 30)
			if p, err := s.api.Pointer(context.Background(), key); err != nil || p.Token != 3 {
				t.Errorf("the current version is %+v, %v; want token 3", p, err)
			}
		})
	}
}

// The same story step by step, without the wrapper: nothing watches A's lease, and the fence alone holds it off.
func TestCase01StaleWorkerStepByStep(t *testing.T) {
	t.Parallel()
	s := serve(t, testenv.Postgres(t), directory(t))
	notes := t.TempDir()
	const key = "thumbs/step-by-step"
	script := `set -e
eval "$("$PAWL" acquire "$KEY" --holder "$HOLDER" --ttl "$TTL" --wait 30s --json |
	sed -n 's/.*"token":\([0-9]*\).*"lease_id":"\([0-9a-f]*\)".*/PAWL_TOKEN=\1 PAWL_LEASE_ID=\2/p')"
export PAWL_TOKEN PAWL_LEASE_ID
echo "$PAWL_TOKEN" > "$NOTES/$HOLDER"
while [ ! -e "$NOTES/go-$HOLDER" ]; do sleep 0.05; done
vips thumbnail "$PICTURE" "$NOTES/$HOLDER.jpg" "$WIDTH"
exec "$PAWL" put "$KEY" "$NOTES/$HOLDER.jpg" --path thumb.jpg --publish`
	work := func(holder, ttl, width string) *process {
		return start(t, []string{
			"PAWL_URL=" + s.url, "PAWL=" + binary(t), "KEY=" + key, "HOLDER=" + holder, "TTL=" + ttl,
			"NOTES=" + notes, "PICTURE=" + picture(t), "WIDTH=" + width,
		}, "sh", "-c", script)
	}
	letGo := func(holder string) {
		if err := os.WriteFile(filepath.Join(notes, "go-"+holder), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a := work("worker-a", "1s", "60")
	if token := awaitFile(t, filepath.Join(notes, "worker-a")); token != "1" {
		t.Fatalf("A has token %s", token)
	}
	if err := syscall.Kill(-a.cmd.Process.Pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	b := work("worker-b", "30s", "40")
	letGo("worker-b")
	if code := b.exit(); code != 0 {
		t.Fatalf("B exits %d: %s", code, b.errs.String())
	}
	before := sha256.Sum256([]byte(s.checkPicture(key, 40)))
	letGo("worker-a")
	if err := syscall.Kill(-a.cmd.Process.Pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	s.checkFenced(a, key, 1, 2, "worker-a")
	if after := sha256.Sum256([]byte(s.checkPicture(key, 40))); after != before {
		t.Error("the current bytes have changed")
	}
}

// Case 2: one job is redelivered every TTL while all earlier runs live on. Exactly the newest token is current, and five runs end
// with exit 80.
func TestCase02RedeliveredSixTimes(t *testing.T) {
	t.Parallel()
	s := serve(t, testenv.Postgres(t), directory(t))
	const key = "jobs/redelivered"
	var runs []*worker
	for n := range 6 {
		w := s.run(key, fmt.Sprint("delivery-", n+1), fmt.Sprint(20+n), "500ms")
		if n < 5 {
			w.stop()
		}
		runs = append(runs, w)
	}
	newest := runs[5]
	newest.letGo()
	if code := newest.exit(); code != 0 {
		t.Fatalf("the newest run exits %d: %s", code, newest.errs.String())
	}
	for _, w := range runs[:5] {
		w.letGo()
		w.resume()
	}
	for n, w := range runs[:5] {
		s.checkFenced(w.process, key, publish.Token(n+1), 6, fmt.Sprint("delivery-", n+1))
	}
	s.checkPicture(key, 25)
	body, err := os.ReadFile(picture(t))
	if err != nil || bytes.Equal(body, []byte(s.read(key))) {
		t.Error("the current bytes are not a rendered picture")
	}
}

// A wrapper that is stopped alone, while its command runs on and ends: resumed, it publishes when nobody took over, and is fenced when
// somebody did. That it was continued is no reason to end.
func TestStoppedWrapperResumes(t *testing.T) {
	t.Parallel()
	s := serve(t, testenv.Postgres(t), directory(t))
	for n := range 4 { // What came first to the wrapper, the signal or the end of its command, is a matter of luck.
		key := fmt.Sprint("resumed/alone-", n)
		a := s.run(key, "worker-a", "60", "30s")
		a.signal(syscall.SIGSTOP)
		a.letGo()
		awaitEnd(t, a.pid)
		a.signal(syscall.SIGCONT)
		if code := a.exit(); code != 0 {
			t.Errorf("the wrapper exits %d: %s", code, a.errs.String())
		}
		s.checkPicture(key, 60)

		key = fmt.Sprint("resumed/late-", n)
		a = s.run(key, "worker-a", "60", "500ms")
		a.signal(syscall.SIGSTOP)
		a.letGo()
		awaitEnd(t, a.pid)
		b := s.run(key, "worker-b", "40", "30s")
		b.letGo()
		if code := b.exit(); code != 0 {
			t.Fatalf("B exits %d: %s", code, b.errs.String())
		}
		a.signal(syscall.SIGCONT)
		s.checkFenced(a.process, key, 1, 2, "worker-a")
		s.checkPicture(key, 40)
	}
}

// awaitEnd waits until a command has ended, though its stopped parent hasn't taken note.
func awaitEnd(t *testing.T, pid int) {
	t.Helper()
	testenv.Eventually(t, patience, func() error {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err == nil && !strings.Contains(string(stat), ") Z ") {
			return fmt.Errorf("%d runs on: %s", pid, stat)
		}
		return nil
	})
}
