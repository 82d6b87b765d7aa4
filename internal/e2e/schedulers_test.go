package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// schedulerTask is one task as a scheduler starts it.
type schedulerTask struct {
	args        []string          // the command line, with its tokens replaced
	environment map[string]string // what the scheduler sets
	key         publish.Key
	holder      string // a prefix
	labels      map[string]string
	given       string // what the worker's own program is given
	fenced      int    // the exit code by which the scheduler takes the task for done
}

// OpenCue's frame 1007: the layer's command from the README, with Cuebot's tokens replaced, and the variables that Cuebot sets.
func openCueFrame(t *testing.T, image string) schedulerTask {
	t.Helper()
	readme, err := os.ReadFile(filepath.Join(image, "examples/opencue/README.md"))
	if err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile(`Shell\("beauty", command=(\[.*?\])`).FindSubmatch(readme)
	if command == nil {
		t.Fatal("the README shows no layer")
	}
	text := strings.NewReplacer("#ZFRAME#", "1007", "#IFRAME#", "1007", "#LAYER#", "beauty").Replace(string(command[1]))
	var args []string
	if err := json.Unmarshal([]byte(text), &args); err != nil || strings.Contains(text, "#") {
		t.Fatalf("the layer's command is %s, %v", text, err)
	}
	return schedulerTask{
		args: args,
		environment: map[string]string{
			"CUE3": "1", "CUE_THREADS": "1", "CUE_MEMORY": "3355443", "CUE_LOG_PATH": "/shots/dune/sh010/logs", "CUE_RANGE": "1001-1100", "CUE_CHUNK": "1",
			"CUE_IFRAME": "1007", "CUE_LAYER": "beauty", "CUE_JOB": "dune-sh010-mia_comp", "CUE_FRAME": "1007-beauty", "CUE_SHOW": "dune",
			"CUE_SHOT": "sh010", "CUE_USER": "mia", "CUE_JOB_ID": "5a4f1c4e-8f0e-4a59-9d80-6f1f3c0e7a01",
			"CUE_LAYER_ID": "b7a7e9a2-0c52-4f0c-a1b5-3d1e6f0c9b02", "CUE_FRAME_ID": "0bd0c6f4-3a52-4f3c-8a2f-7f2a0c9f1d10", "CUE_THREADABLE": "0",
		},
		key:    "shots/dune/sh010/beauty/1007",
		holder: "mia@",
		labels: map[string]string{"job": "dune-sh010-mia_comp", "frame": "1007-beauty", "frame_id": "0bd0c6f4-3a52-4f3c-8a2f-7f2a0c9f1d10"},
		given:  "--frame 1007",
		fenced: 0, // OpenCue knows done and not done
	}
}

// readDAG reads a DAG file with stand-ins for Airflow's classes, which print what the DAG's tasks are.
const readDAG = `
import json, runpy, sys, types

class DAG:
    def __init__(self, **kwargs): self.kwargs = kwargs
    def __enter__(self): return self
    def __exit__(self, *error): pass

class BashOperator:
    def __init__(self, **kwargs): print(json.dumps(kwargs, default=str))

name = sys.argv[2]
for part in range(1, name.count(".") + 2):
    module = ".".join(name.split(".")[:part])
    sys.modules[module] = types.ModuleType(module)
sys.modules["airflow"].DAG = DAG
sys.modules[name].BashOperator = BashOperator
runpy.run_path(sys.argv[1])
`

// airflowTask is the task of the DAG as Airflow runs it: through bash, with the day in place of its template.
func airflowTask(t *testing.T, image, operators string) schedulerTask {
	t.Helper()
	out, err := exec.Command("python3", "-c", readDAG, filepath.Join(image, "examples/airflow/dag.py"), operators).Output()
	var operator struct {
		TaskID         string `json:"task_id"`
		BashCommand    string `json:"bash_command"`
		SkipOnExitCode int    `json:"skip_on_exit_code"`
		Retries        int    `json:"retries"`
	}
	if err == nil {
		err = json.Unmarshal(out, &operator)
	}
	if err != nil || operator.TaskID != "sales" || operator.Retries < 1 {
		t.Fatalf("the DAG's task is %s, %v", out, err)
	}
	command := strings.ReplaceAll(operator.BashCommand, "{{ ds }}", "2026-11-28")
	if strings.ContainsAny(command, "{}") {
		t.Fatalf("the command is %s", command)
	}
	const run = "scheduled__2026-11-28T02:30:00+00:00"
	return schedulerTask{
		args: []string{"bash", "-c", command},
		environment: map[string]string{
			"AIRFLOW_CTX_DAG_OWNER": "airflow", "AIRFLOW_CTX_DAG_ID": "nightly", "AIRFLOW_CTX_TASK_ID": "sales",
			"AIRFLOW_CTX_EXECUTION_DATE": "2026-11-28T02:30:00+00:00", "AIRFLOW_CTX_TRY_NUMBER": "1", "AIRFLOW_CTX_DAG_RUN_ID": run,
		},
		key:    "reports/nightly/sales/2026-11-28",
		holder: "airflow@",
		labels: map[string]string{"run": run, "try": "1"},
		given:  "--day 2026-11-28",
		fenced: operator.SkipOnExitCode,
	}
}

// program is the worker's own program, under the names that the examples give it. It leaves behind what it was given; WORK says
// whether it fails, or waits until it may go on.
const program = `#!/bin/sh
echo "$@" >"$PAWL_OUT/out.txt"
case $WORK in
fail) exit 3 ;;
wait)
	echo "$PAWL_LEASE_ID" >"$NOTES/lease"
	while [ ! -e "$NOTES/go" ]; do sleep 0.05; done
	;;
esac
`

// The command lines of the examples for schedulers do what their tables say: under the right key, holder and labels, with the exit code
// that makes the scheduler try again or not.
func TestSchedulerExamples(t *testing.T) {
	t.Parallel()
	image := checkout(t)
	for _, name := range []string{"my-render", "my-report"} {
		if err := os.WriteFile(filepath.Join(image, name), []byte(program), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, task := range map[string]schedulerTask{
		"OpenCue":   openCueFrame(t, image),
		"Airflow 2": airflowTask(t, image, "airflow.operators.bash"),
		"Airflow 3": airflowTask(t, image, "airflow.providers.standard.operators.bash"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			task.check(t, image)
		})
	}
}

func (task schedulerTask) check(t *testing.T, image string) {
	t.Helper()
	s := serve(t, testenv.Postgres(t), directory(t))
	notes := t.TempDir()
	environment := []string{
		"PAWL_URL=" + s.url, "NOTES=" + notes,
		fmt.Sprintf("PATH=%s/bin:%s/examples/opencue:%s:%s", image, image, image, os.Getenv("PATH")),
	}
	for name, value := range task.environment {
		environment = append(environment, name+"="+value)
	}
	run := func(work string) *process {
		// The scheduler's own shell finds the program in the PATH that the workers have.
		return start(t, append(environment, "WORK="+work), "/bin/sh", append([]string{"-c", `exec "$@"`, "sh"}, task.args...)...)
	}

	if code := run("fail").exit(); code != 3 {
		t.Errorf("when its program fails it exits %d, want its code 3", code)
	}
	if code := run("finish").exit(); code != 0 {
		t.Fatalf("it exits %d", code)
	}
	if body := s.read(string(task.key)); body != task.given+"\n" {
		t.Errorf("current is %q, want %q", body, task.given)
	}
	generation, err := s.api.Generation(t.Context(), task.key, 2)
	if err != nil || !generation.Current || !strings.HasPrefix(generation.Holder, task.holder) {
		t.Errorf("the holder is %q, %v; want %s…", generation.Holder, err, task.holder)
	}
	if diff := cmp.Diff(task.labels, generation.Labels); diff != "" {
		t.Errorf("the labels:\n%s", diff)
	}

	// A newer run takes over while this one is away, and publishes.
	stale := run("wait")
	var id publish.LeaseID
	if err := id.UnmarshalText([]byte(awaitFile(t, filepath.Join(notes, "lease")))); err != nil {
		t.Fatal(err)
	}
	if err := s.api.Release(t.Context(), task.key, id); err != nil {
		t.Fatal(err)
	}
	newer := s.pawl("run", "--key", string(task.key), "--holder", "newer", "--", "sh", "-c", `echo newer >"$PAWL_OUT/out.txt"`)
	if code := newer.exit(); code != 0 {
		t.Fatalf("the newer run exits %d: %s", code, newer.errs.String())
	}
	if err := os.WriteFile(filepath.Join(notes, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code := stale.exit(); code != task.fenced || !strings.Contains(stale.errs.String(), "newer") {
		t.Errorf("the fenced run exits %d, want %d, and says %s", code, task.fenced, stale.errs.String())
	}
	if body := s.read(string(task.key)); body != "newer\n" {
		t.Errorf("after the fenced run current is %q", body)
	}

	// Somebody else holds the key for long.
	if _, err := s.api.Acquire(t.Context(), publish.AcquireRequest{Key: task.key, Holder: "other", TTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if code := run("finish").exit(); code != 75 {
		t.Errorf("while another holds the lease it exits %d, want 75", code)
	}
}
