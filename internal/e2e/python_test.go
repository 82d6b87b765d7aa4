package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/testenv"
)

// pythonFolder is where the Python client and its tests lie.
const pythonFolder = "../../python"

// pythonPatience bounds one module of the Python tests.
const pythonPatience = 3 * time.Minute

var (
	pythonRan    = regexp.MustCompile(`(?m)^Ran (\d+) tests? in `)
	pythonPassed = regexp.MustCompile(`(?m)^OK$`) // with anything skipped or expected to fail it is "OK (…)"
)

// The Python client does what its own tests say, against a real server. Each module of tests is a process; none may fail, be
// skipped, or be empty.
func TestPython(t *testing.T) {
	t.Parallel()
	s := serve(t, testenv.Postgres(t), directory(t))
	modules, err := filepath.Glob(filepath.Join(pythonFolder, "tests", "test_*.py"))
	if err != nil || len(modules) < 5 {
		t.Fatalf("the Python tests are gone: %q, %v", modules, err)
	}
	for _, file := range modules {
		module := strings.TrimSuffix(filepath.Base(file), ".py")
		t.Run(module, func(t *testing.T) {
			t.Parallel()
			out := python(t, []string{"PAWL_URL=" + s.url, "PAWL_TEST_BINARY=" + binary(t)},
				"-W", "error::ResourceWarning", "-m", "unittest", "-v", "tests."+module)
			ran := pythonRan.FindStringSubmatch(out)
			if ran == nil || ran[1] == "0" || !pythonPassed.MatchString(out) {
				t.Errorf("the tests of %s didn't all run and pass", module)
			}
			t.Logf("python3 -m unittest tests.%s:\n%s", module, out)
		})
	}
}

// The one file and its tests are well-typed, and have no syntax newer than Python 3.9, whatever runs here.
func TestPythonTypesAndSyntax(t *testing.T) {
	t.Parallel()
	t.Run("types", func(t *testing.T) {
		t.Parallel()
		cmd := exec.Command("mypy", "--strict", "--python-version", "3.9", "--cache-dir", t.TempDir(), "pawl.py", "tests", "../examples/report")
		cmd.Dir = pythonFolder
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("mypy: %v\n%s", err, out)
		}
	})
	t.Run("syntax", func(t *testing.T) {
		t.Parallel()
		const parse = `import ast, pathlib, sys
for name in sys.argv[1:]:
    ast.parse(pathlib.Path(name).read_text("utf-8"), name, feature_version=(3, 9))
print("parsed", len(sys.argv) - 1)`
		out := python(t, nil, "-c", parse, "pawl.py", "tests/rig.py", "../examples/report/report.py")
		if !strings.Contains(out, "parsed 3") {
			t.Errorf("not all files were parsed: %s", out)
		}
	})
	t.Run("standard library alone", func(t *testing.T) {
		t.Parallel()
		// -I keeps the environment and the user's packages out, -S the machine's.
		if out := python(t, nil, "-I", "-S", "-W", "error", "-c", "import sys; sys.path.insert(0, '.'); import pawl; print(len(pawl.__all__))"); out == "" {
			t.Error("pawl.py doesn't say what it exports")
		}
	})
}

// python runs an interpreter in the client's folder to its end, and returns what it printed.
func python(t *testing.T, env []string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), pythonPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "python3", append([]string{"-B"}, args...)...)
	cmd.Dir = pythonFolder
	cmd.Env = append(os.Environ(), env...)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("python3 %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}
