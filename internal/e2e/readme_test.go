package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// dev starts `pawl dev` on a free port and waits for its greeting. It returns the address.
func dev(t *testing.T, data string) (p *process, url string) {
	t.Helper()
	p = start(t, nil, binary(t), "dev", "--data", data, "--listen", "127.0.0.1:0")
	address := regexp.MustCompile(`http://127\.0\.0\.1:\d+`)
	testenv.Eventually(t, patience, func() error {
		select {
		case <-p.done:
			t.Fatalf("pawl dev ended: %s", p.errs.String())
		default:
		}
		if url = address.FindString(p.out.String()); url == "" || strings.Count(p.out.String(), "curl") < 3 {
			return errors.New("no greeting yet")
		}
		return nil
	})
	return p, url
}

// bash runs a script as a reader of the README would, all in one shell, in a folder that looks like the checkout after `make run`.
func bash(t *testing.T, script string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(binary(t), filepath.Join(dir, "bin", "pawl")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", script)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("the tour ended with %v:\n%s", err, out)
	}
	return string(out)
}

// Every command of the README's tour runs as it is printed, in order, against `pawl dev`, and tells the story that the text tells.
func TestReadmeTour(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var tour strings.Builder
	for _, block := range regexp.MustCompile("(?s)```sh tour\n(.*?)```").FindAllStringSubmatch(string(readme), -1) {
		tour.WriteString(block[1])
		tour.WriteString("echo\n")
	}
	if strings.Count(tour.String(), "curl ") < 8 {
		t.Fatalf("the README's tour is gone: %s", tour.String())
	}
	_, url := dev(t, devData(t))
	out := bash(t, strings.ReplaceAll(tour.String(), "http://127.0.0.1:8484", url))
	// Again at once, as a reader does who has mistyped something: nobody holds the key any more.
	again := bash(t, strings.ReplaceAll(tour.String(), "http://127.0.0.1:8484", url))
	if strings.Contains(again, "lease-held") {
		t.Errorf("the second tour meets the first:\n%s", again)
	}
	for i, shown := range []string{out, again} {
		rest, a, b := shown, 2*i+1, 2*i+2
		for _, want := range []string{
			fmt.Sprintf(`"token":%d,"lease_id"`, a), fmt.Sprintf(`"token":%d,"lease_id"`, b), // A's and B's grants
			fmt.Sprintf(`"token":%d,"revision":1`, b),                                                                          // B's receipt
			`"code":"stale-token"`, fmt.Sprintf(`"token":%d`, a), fmt.Sprintf(`"accepted_token":%d`, b), `"holder":"worker-b"`, // A's refusal
			"rendered by B\n", // what readers get
			`"key":"thumbs/image-52"`,
			`"rejections":[{`, `"holder":"worker-a"`, // history
			"reports/today", // the wrapper's part
			" report.txt\n", // its archive
		} {
			_, after, found := strings.Cut(rest, want)
			if !found {
				t.Fatalf("tour %d does not show %q where it should:\n%s", i+1, want, shown)
			}
			rest = after
		}
	}
}

// devData is a data folder that the private Postgres may enter, also for root.
func devData(t *testing.T) string { return filepath.Join(testenv.TempDir(t), "data") }

// The three lines that `pawl dev` prints work as printed. Ctrl-C stops all of it within 2 s, and nothing is lost. It isn't parallel, since
// beside the load of all the others its time would tell nothing.
func TestDevIsKept(t *testing.T) {
	data := devData(t)
	p, _ := dev(t, data)
	var lines []string
	for line := range strings.Lines(p.out.String()) {
		if strings.Contains(line, "curl ") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	out := bash(t, strings.Join(lines, "\n"))
	if !strings.Contains(out, `"revision":1`) || !strings.HasSuffix(out, "Hello from Pawl") {
		t.Errorf("the printed lines gave:\n%s", out)
	}

	second := start(t, nil, binary(t), "dev", "--data", data, "--listen", "127.0.0.1:0")
	if code := second.exit(); code != 78 || !strings.Contains(second.errs.String(), "in use") {
		t.Errorf("a second pawl dev on the same data exits %d and says %q", code, second.errs.String())
	}

	pressed := time.Now()
	p.signal(syscall.SIGINT)
	if code := p.exit(); code != 0 && code != 130 {
		t.Errorf("pawl dev exits %d after Ctrl-C: %s", code, p.errs.String())
	}
	if took := time.Since(pressed); took > 2*time.Second {
		t.Errorf("Ctrl-C took %v, want at most 2 s", took)
	}

	_, url := dev(t, data)
	body, err := get(url + "/v1/keys?prefix=demo/")
	var page publish.ListPage
	if err == nil {
		err = json.Unmarshal(body, &page)
	}
	if err != nil || len(page.Keys) != 1 {
		t.Fatalf("after a restart the list is %s, %v; want one key", body, err)
	}
	if body, err := get(url + "/v1/keys/" + string(page.Keys[0].Key) + "/-/current"); err != nil || string(body) != "Hello from Pawl" {
		t.Errorf("after a restart the current bytes are %q, %v", body, err)
	}
}

// A lease that was held when `pawl dev` was killed is not granted again with the same token, and its holder may go on.
func TestDevKilled(t *testing.T) {
	t.Parallel()
	data := devData(t)
	p, url := dev(t, data)
	acquire := start(t, []string{"PAWL_URL=" + url}, binary(t), "acquire", "k", "--ttl", "1h", "--json")
	if code := acquire.exit(); code != 0 {
		t.Fatal(acquire.errs.String())
	}
	var lease publish.Lease
	if err := json.Unmarshal([]byte(acquire.out.String()), &lease); err != nil {
		t.Fatal(err)
	}
	p.signal(syscall.SIGKILL)
	<-p.done

	_, url = dev(t, data)
	env := []string{"PAWL_URL=" + url, "PAWL_LEASE_ID=" + lease.LeaseID.Hex(), "PAWL_TOKEN=1"}
	if other := start(t, env[:1], binary(t), "acquire", "k"); other.exit() != 75 {
		t.Errorf("another acquire: %s", other.errs.String())
	}
	if renew := start(t, env, binary(t), "renew", "k"); renew.exit() != 0 {
		t.Errorf("renew: %s", renew.errs.String())
	}
}
