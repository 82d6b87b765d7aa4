package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/internal/testenv"
)

// Case 50: the lease_id of a run stands in its lease file, which is for its owner alone, and in its command's environment; but in no
// command line, result, output for GitHub Actions, message or server log.
func TestCase50RunKeepsItsLeaseSecret(t *testing.T) {
	t.Parallel()
	s := serve(t, testenv.Postgres(t), directory(t), "PAWL_LOG_LEVEL=debug")
	notes := t.TempDir()
	file, outputs := filepath.Join(notes, "lease.json"), filepath.Join(notes, "outputs")
	a := start(t, []string{"PAWL_URL=" + s.url, "NOTES=" + notes, "GITHUB_ACTIONS=true", "GITHUB_OUTPUT=" + outputs}, binary(t),
		"run", "--key", "secret/k", "--ttl", "1s", "--lease-file", file, "--progress-file", "beat", "--max-silence", "300ms", "--json", "--",
		"sh", "-c", `echo "$PAWL_LEASE_ID" >"$NOTES/id"; echo $$ >"$NOTES/pid"; `+untilGo+`echo x >"$PAWL_OUT/x"`)
	id, child := awaitFile(t, filepath.Join(notes, "id")), awaitFile(t, filepath.Join(notes, "pid"))
	if len(id) != 32 {
		t.Fatalf("the lease_id is %q", id)
	}
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
		t.Errorf("the lease file: %v, %v", info.Mode(), err)
	}
	for _, pid := range []string{strconv.Itoa(a.cmd.Process.Pid), child} {
		line, err := os.ReadFile("/proc/" + pid + "/cmdline")
		if err != nil || strings.Contains(string(line), id) {
			t.Errorf("command line %q, %v", line, err)
		}
	}
	awaitWord(t, a, "--max-silence")
	letGo(t, notes)
	if code := a.exit(); code != 0 {
		t.Fatalf("it exits %d", code)
	}
	told, err := os.ReadFile(outputs)
	if err != nil || !strings.Contains(string(told), "pawl-token") {
		t.Errorf("outputs %q, %v", told, err)
	}
	if !strings.Contains(a.out.String(), `"outcome":"published"`) {
		t.Errorf("stdout %q", a.out.String())
	}
	for what, text := range map[string]string{"stdout": a.out.String(), "stderr": a.errs.String(), "outputs": string(told), "server": s.out.String() + s.errs.String()} {
		if strings.Contains(text, id) {
			t.Errorf("%s tells the lease_id: %s", what, text)
		}
	}
	if leftovers, _ := filepath.Glob(filepath.Join(notes, "*lease*")); leftovers != nil {
		t.Errorf("left: %q", leftovers)
	}
}
