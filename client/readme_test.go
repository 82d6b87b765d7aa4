package client_test

import (
	"os"
	"strings"
	"testing"
)

// The code in the README is that of an example, which is compiled and run.
func TestReadmeIsAnExample(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	examples, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(readme), "```go client\n")[1:]
	if len(blocks) == 0 {
		t.Fatal("the README has no Go of this package")
	}
	for _, block := range blocks {
		code, _, _ := strings.Cut(block, "```")
		if !strings.Contains(string(examples), "\t"+strings.ReplaceAll(strings.TrimSpace(code), "\n", "\n\t")) {
			t.Errorf("no example has this:\n%s", code)
		}
	}
}
