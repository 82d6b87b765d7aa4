package e2e

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each line of the threat model names the tests that show it. They exist.
func TestSecurityDocument(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err = filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, found := range function.FindAllStringSubmatch(string(source), -1) {
			there[found[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for line := range strings.Lines(string(text)) {
		tests := regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(line, -1)
		for _, test := range tests {
			if !there[test[1]] {
				t.Errorf("there is no %s", test[1])
			}
		}
		if strings.HasPrefix(line, "| can't ") {
			if lines++; len(tests) == 0 {
				t.Errorf("no test shows: %s", line)
			}
		}
	}
	if lines < 25 {
		t.Errorf("only %d lines", lines)
	}
}
