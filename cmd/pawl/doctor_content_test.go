package main

import (
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/blobstore"
)

// Doctor says where files are shown, and whether that is far enough from the pages.
func TestContentFinding(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		env   string
		level blobstore.Level
		seen  string
	}{
		{"", blobstore.LevelNote, "such as HTML reports, are downloads"},
		{"PAWL_CONTENT_ORIGIN=https://files.example", blobstore.LevelOK, "files are shown at https://files.example"},
		{"PAWL_CONTENT_ORIGIN=https://files.example.net PAWL_HOSTS=pawl.example.com", blobstore.LevelOK, "another site than that of the pages"},
		{"PAWL_CONTENT_ORIGIN=https://files.example.com PAWL_HOSTS=10.0.0.1,pawl.example.com", blobstore.LevelNote, "of the same site, example.com, as the pages at pawl.example.com"},
		{"PAWL_CONTENT_ORIGIN=https://pawl-files.github.io PAWL_HOSTS=pawl.github.io", blobstore.LevelOK, "another site"}, // github.io is a suffix like com
		{"PAWL_CONTENT_ORIGIN=https://10.9.0.1 PAWL_HOSTS=10.8.0.1", blobstore.LevelOK, "another site"},
		{"PAWL_CONTENT_ORIGIN=http://files.example", blobstore.LevelWarn, "whoever is on the way reads them"},
		{"PAWL_CONTENT_ORIGIN=http://files.localhost:8484", blobstore.LevelOK, "files are shown at http://files.localhost:8484"},
	} {
		a := &app{stderr: io.Discard, getenv: lookup(strings.Fields(test.env))}
		settings, err := a.serverSettings(serverFlags{}, slog.LevelInfo)
		if err != nil {
			t.Fatal(err)
		}
		found := settings.contentFinding()
		if found.Level != test.level || !strings.Contains(found.Seen, test.seen) || (found.Cure == "") != (found.Level == blobstore.LevelOK) {
			t.Errorf("%q: %+v", test.env, found)
		}
	}
}
