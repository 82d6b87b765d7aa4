package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// The help shows no artefact of the library: an empty default, or a piece of a sentence for a flag's type.
func TestHelp(t *testing.T) {
	t.Parallel()
	a := &app{stdout: &checkedWriter{to: &bytes.Buffer{}}, stderr: &bytes.Buffer{}, getenv: lookup(nil)}
	types := []string{"", "string", "stringArray", "int", "duration"}
	verbs := 0
	for _, cmd := range a.rootCommand().Commands() {
		verbs++
		usage := cmd.Flags().FlagUsages() + cmd.InheritedFlags().FlagUsages()
		if strings.Contains(usage, "(default )") || strings.Contains(usage, "`") {
			t.Errorf("pawl %s --help:\n%s", cmd.Name(), usage)
		}
		cmd.Flags().VisitAll(func(flag *pflag.Flag) {
			if kind, _ := pflag.UnquoteUsage(flag); !slices.Contains(types, kind) {
				t.Errorf("pawl %s --help: the type of --%s shows as %q", cmd.Name(), flag.Name, kind)
			}
		})
	}
	if verbs < 10 {
		t.Errorf("only %d verbs", verbs)
	}
}
