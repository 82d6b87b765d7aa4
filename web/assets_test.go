package web_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/web"
)

// maxAssetBytes bounds the pages' own files together, as they lie in the repository.
const maxAssetBytes = 25_500

// TestAssetsAreSmall adds up the style sheet, the scripts and the icon.
func TestAssetsAreSmall(t *testing.T) {
	t.Parallel()
	total := 0
	for _, content := range filesOf(t, "static/*") {
		total += len(content)
	}
	if total >= maxAssetBytes {
		t.Errorf("the pages' own files have %d bytes, want less than %d", total, maxAssetBytes)
	}
}

// TestStylesAreUsed looks for classes and ids of the style sheet that no template and no script names: then their rules are left over.
func TestStylesAreUsed(t *testing.T) {
	t.Parallel()
	var users strings.Builder
	for _, pattern := range []string{"templates/*.html", "static/*.js", "*.go"} {
		for name, content := range filesOf(t, pattern) {
			if !strings.HasSuffix(name, "_test.go") {
				users.WriteString(content)
			}
		}
	}
	words := regexp.MustCompile(`[\w-]+`).FindAllString(users.String(), -1)
	slices.Sort(words)
	css := regexp.MustCompile(`(?s)/\*.*?\*/|\{[^{}]*\}`).ReplaceAllString(filesOf(t, "static/style.css")["static/style.css"], " ")
	names := regexp.MustCompile(`[.#]([a-zA-Z][\w-]*)`).FindAllStringSubmatch(css, -1)
	if len(names) < 50 {
		t.Fatalf("only %d classes were found", len(names))
	}
	for _, name := range names {
		if _, found := slices.BinarySearch(words, name[1]); !found {
			t.Errorf("nothing has the class or id %q of the style sheet", name[1])
		}
	}
}

// A script imports from the very address at which pages have the shared script, so that it runs once.
func TestScriptsShareOneModule(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{BasePath: "/pawl"})
	page := r.call("GET", "/upload", "").want(200)
	shared := regexp.MustCompile(`src="/pawl/static/(page\.js\?v=[0-9a-f]+)"`).FindStringSubmatch(page.body)
	if shared == nil {
		t.Fatalf("the page has no shared script: %s", page.body)
	}
	for name := range filesOf(t, "static/*.js") {
		script := r.call("GET", "/"+name, "").want(200)
		for _, from := range regexp.MustCompile(`(?m)^import .* from "(.*)";$`).FindAllStringSubmatch(script.body, -1) {
			if from[1] != "./"+shared[1] {
				t.Errorf("%s imports %s, the page has %s", name, from[1], shared[1])
			}
		}
	}
}

func filesOf(t *testing.T, pattern string) map[string]string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || names == nil {
		t.Fatalf("%s: %v", pattern, err)
	}
	all := map[string]string{}
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.ToSlash(name)] = string(content)
	}
	return all
}
