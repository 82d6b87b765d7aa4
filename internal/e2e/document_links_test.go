package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Links between the documents lead somewhere: to a file that is there, and to a heading in it.
func TestDocumentLinks(t *testing.T) {
	t.Parallel()
	documents := []string{"../../README.md"}
	for _, pattern := range []string{"../../docs/*.md", "../../examples/*.md", "../../examples/*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %q, %v", pattern, found, err)
		}
		documents = append(documents, found...)
	}
	link := regexp.MustCompile(`\]\(([^)\s]+)\)|srcset="([^"]+)"|src="([^"]+)"`)
	for _, document := range documents {
		for _, match := range link.FindAllStringSubmatch(readText(t, document), -1) {
			target := match[1] + match[2] + match[3]
			if strings.Contains(target, "://") {
				continue
			}
			file, heading, _ := strings.Cut(target, "#")
			path := document
			if file != "" {
				path = filepath.Join(filepath.Dir(document), file)
			}
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s: %v", document, err)
			} else if heading != "" && !slices.Contains(headings(readText(t, path)), heading) {
				t.Errorf("%s: no heading of %s is #%s", document, path, heading)
			}
		}
	}
}

// No document or example sends a credential in the clear: what isn't on the reader's own machine is reached by TLS.
func TestDocumentsUseTLS(t *testing.T) {
	t.Parallel()
	documents := []string{"../../README.md"}
	for _, pattern := range []string{"../../docs/*.md", "../../examples/*", "../../examples/*/*"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %q, %v", pattern, found, err)
		}
		documents = append(documents, found...)
	}
	plain := regexp.MustCompile(`http://[A-Za-z0-9_.-]+`)
	own := regexp.MustCompile(`^http://(127\.0\.0\.1|([a-z]+\.)?localhost)$`)
	for _, document := range documents {
		if info, err := os.Stat(document); err != nil || info.IsDir() {
			continue
		}
		for _, address := range plain.FindAllString(readText(t, document), -1) {
			if !own.MatchString(address) {
				t.Errorf("%s: %s is reached without TLS", document, address)
			}
		}
	}
}

// headings are the names under which GitHub knows those of a document.
func headings(text string) (names []string) {
	for _, match := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		name := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(match[1]), "")
		names = append(names, strings.ReplaceAll(name, " ", "-"))
	}
	return names
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
