package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// exampleStep is one block of commands of an example's README, and the lines that it must print.
type exampleStep struct {
	commands string
	prints   []string
}

// readExample finds the steps in an example's README.
func readExample(readme string) ([]exampleStep, error) {
	var steps []exampleStep
	for _, block := range regexp.MustCompile("(?ms)^```(sh|text) example\n(.*?)^```$").FindAllStringSubmatch(readme, -1) {
		kind, text := block[1], block[2]
		switch last := len(steps) - 1; {
		case kind == "sh":
			steps = append(steps, exampleStep{commands: text})
		case last < 0 || steps[last].prints != nil:
			return nil, fmt.Errorf("no commands stand before the output %q", text)
		default:
			steps[last].prints = strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		}
	}
	if len(steps) == 0 {
		return nil, errors.New("no block opens with ```sh example")
	}
	if opened := strings.Count(readme, " example\n"); opened != strings.Count(readme, "```sh example\n")+strings.Count(readme, "```text example\n") {
		return nil, errors.New("a block is neither `sh example` nor `text example`")
	}
	return steps, nil
}

// check compares what a step printed with what its README says: whole lines in that order, others between them.
func (s exampleStep) check(output string) error {
	lines := strings.Split(output, "\n")
	for _, want := range s.prints {
		pattern := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(want), "…", ".*") + "$")
		found := false
		for len(lines) > 0 && !found {
			found = pattern.MatchString(strings.TrimRight(lines[0], " \r"))
			lines = lines[1:]
		}
		if !found {
			return fmt.Errorf("it does not print %q where it should", want)
		}
	}
	return nil
}

// unnamed are the programs of an example that its README's commands don't run.
func unnamed(dir fs.FS, name string, steps []exampleStep) (programs []string, err error) {
	var commands strings.Builder
	for _, step := range steps {
		commands.WriteString(step.commands)
	}
	err = fs.WalkDir(dir, ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		program := path.Join("examples", name, file)
		switch path.Ext(file) {
		case ".sh", ".py":
		case ".go":
			program = "./" + path.Dir(program)
		default:
			return nil
		}
		if !strings.Contains(commands.String(), program) {
			programs = append(programs, program)
		}
		return nil
	})
	return programs, err
}

// Every folder of examples is found by readers: it has a README that runs what it holds, and the project's README leads to it.
func TestExamplesAreComplete(t *testing.T) {
	t.Parallel()
	front, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range exampleNames(t) {
		dir := filepath.Join("../../examples", name)
		readme, err := os.ReadFile(filepath.Join(dir, "README.md"))
		if err != nil {
			t.Error(err)
			continue
		}
		steps, err := readExample(string(readme))
		if err != nil {
			t.Errorf("examples/%s/README.md: %v", name, err)
		}
		programs, err := unnamed(os.DirFS(dir), name, steps)
		if err != nil || len(programs) > 0 {
			t.Errorf("the commands of examples/%s/README.md don't name %q, %v", name, programs, err)
		}
		if !regexp.MustCompile(`\]\(examples/` + regexp.QuoteMeta(name) + `[/)]`).Match(front) {
			t.Errorf("README.md has no link to examples/%s", name)
		}
	}
}

// exampleNames are the folders under examples.
func exampleNames(t *testing.T) (names []string) {
	t.Helper()
	entries, err := os.ReadDir("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if entry.IsDir() {
			names = append(names, entry.Name())
		}
	}
	if len(names) == 0 {
		t.Fatal("there are no examples")
	}
	return names
}

// A README that tells nothing that a test could run is noticed, and so is output that isn't as it says.
func TestExampleREADME(t *testing.T) {
	t.Parallel()
	for _, readme := range []string{
		"", "```sh\ntrue\n```\n", "```text example\nx\n```\n", "```sh example\ntrue\n", "```sh example\ntrue\n```\n```bash example\ntrue\n```\n",
		"```sh example\ntrue\n```\n```text example\nx\n```\n```text example\ny\n```\n",
	} {
		if steps, err := readExample(readme); err == nil {
			t.Errorf("%q is taken for the steps %q", readme, steps)
		}
	}
	steps, err := readExample("# A\n```sh example\none\ntwo\n```\nso:\n```text example\na.c\n\nd…f\n```\n```sh example\nthree\n```\n")
	if err != nil || len(steps) != 2 || steps[0].commands != "one\ntwo\n" || steps[1].commands != "three\n" {
		t.Fatalf("the steps are %q, %v", steps, err)
	}
	for output, right := range map[string]bool{
		"a.c\n\ndef\n": true, "x\na.c \nb\n\n\ndf": true,
		"abc\n\ndef\n": false, "a.c\ndef\n": false, "\ndef\na.c\n": false, "a.c\n\ndef g\n": false, "": false,
	} {
		if err := steps[0].check(output); (err == nil) != right {
			t.Errorf("%q: %v", output, err)
		}
	}
	if err := steps[1].check("whatever"); err != nil {
		t.Error(err)
	}
}
