//go:build unix

package testenv

import (
	"os"
	"path/filepath"
	"testing"
)

// Axe is the source of axe-core, which finds in a page what people who can't see, point or tell colours apart would be stopped by. `make tools`
// fetches it. Without it the test is skipped, in CI it fails.
func Axe(t testing.TB) string {
	t.Helper()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(filepath.Join(root, ".tools", "axe.min.js"))
	if err != nil {
		skipOrFatal(t, "there is no axe-core (`make tools` fetches it): %v", err)
	}
	return string(source)
}

// axeRun gives a line for each rule that the page breaks, with the first places where it does. Style sheets aren't loaded once more, which halves its time, and
// frames hold files, which aren't ours.
const axeRun = `(rules) => axe.run(document, { resultTypes: ["violations"], preload: false, iframes: false, ...(rules && { runOnly: rules }) }).then((result) => result.violations.map((v) =>
	v.id + ": " + v.help + v.nodes.slice(0, 3).map((n) => "\n\t" + n.html.slice(0, 200) + " " + ([...n.any, ...n.all, ...n.none][0]?.message ?? "")).join("")))`

// Violations are the rules of axe-core that the page breaks: of all, or of those of a JSON array of their names. The Content-Security-Policy of the page
// doesn't bind axe: it comes as from the developer tools.
func (tab *Tab) Violations(axe, rules string) []string {
	tab.t.Helper()
	if there, err := Eval[bool](tab, `"axe" in window`); err != nil || !there {
		if _, err := Eval[bool](tab, axe+"\n;true"); err != nil {
			tab.t.Fatalf("loading axe-core: %v", err)
		}
	}
	if rules == "" {
		rules = "null"
	}
	broken, err := Eval[[]string](tab, "("+axeRun+")("+rules+")")
	if err != nil {
		tab.t.Fatalf("axe-core: %v", err)
	}
	return broken
}
