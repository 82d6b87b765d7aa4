package main

import (
	"io"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Whatever a server reads stands in the help of serve and in the README's table, and nothing else stands in the help.
func TestSettingsAreTold(t *testing.T) {
	t.Parallel()
	given := lookup([]string{"PAWL_LISTEN=0.0.0.0:1", "PAWL_DATABASE_URL=postgres://db/pawl", "PAWL_BLOBS=file:///srv/pawl"})
	var read []string
	a := &app{stderr: io.Discard, getenv: func(name string) string {
		if strings.HasPrefix(name, "PAWL_") {
			read = append(read, name)
		}
		return given(name)
	}}
	settings, err := a.serverSettings(serverFlags{}, slog.LevelInfo)
	if err != nil || a.checkServe(settings) == nil {
		t.Fatalf("PAWL_ALLOW_UNAUTHENTICATED wasn't asked for; %v", err)
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	setting := regexp.MustCompile(`PAWL_[A-Z0-9_]*[A-Z0-9]`)
	help := setting.FindAllString(a.serveCommand().Long, -1)
	var table []string
	for _, row := range regexp.MustCompile("(?m)^\\| `PAWL_[^|]*\\|.*$").FindAllString(string(readme), -1) {
		table = append(table, setting.FindAllString(row, -1)...)
	}
	for _, name := range read {
		if base, isFile := strings.CutSuffix(name, "_FILE"); isFile && slices.Contains(read, base) {
			continue // The help and the table tell of these forms in a sentence of their own.
		}
		if !slices.Contains(help, name) {
			t.Errorf("pawl serve --help doesn't tell of %s", name)
		}
		if !slices.Contains(table, name) {
			t.Errorf("no table of the README tells of %s", name)
		}
	}
	for _, name := range help {
		if !slices.Contains(read, name) {
			t.Errorf("pawl serve --help tells of %s, which isn't read", name)
		}
	}
	if len(read) < 50 {
		t.Errorf("only %d settings were read", len(read))
	}
}
