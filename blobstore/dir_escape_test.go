package blobstore

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/publish"
)

// TestNamesThatEscape tries names that lead out of the store, or to its temporary files.
func TestNamesThatEscape(t *testing.T) {
	t.Parallel()
	d := openDir(t)
	for _, name := range []publish.ObjectName{
		"", ".", "..", "../x", "a/../../x", "/etc/passwd", "a//b", "a/./b", "a/", "/", "-", "-/tmp/x", "a\x00b", `a\..\b`,
	} {
		_, openErr := d.Open(t.Context(), name, 0, -1)
		_, statErr := d.Stat(t.Context(), name)
		for call, err := range map[string]error{
			"Put":    d.Put(t.Context(), name, strings.NewReader("x"), 1, ""),
			"Open":   openErr,
			"Stat":   statErr,
			"Delete": d.Delete(t.Context(), name),
		} {
			if err == nil || errors.Is(err, publish.ErrObjectNotFound) {
				t.Errorf("%s of %q gave %v; want a refusal", call, name, err)
			}
		}
	}
}

// TestDirEscapeThroughLink puts symbolic links into the store that lead out of it.
func TestDirEscapeThroughLink(t *testing.T) {
	t.Parallel()
	d := openDir(t)
	outside := t.TempDir()
	secret := filepath.Join(outside, "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{"folder": outside, "file": secret, "up": "../" + filepath.Base(outside)} {
		if err := os.Symlink(target, filepath.Join(d.path, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []publish.ObjectName{"folder/secret", "folder/new", "folder/a/b", "up/secret", "up/new"} {
		if err := d.Put(t.Context(), name, strings.NewReader("x"), 1, ""); err == nil {
			t.Errorf("Put of %s went through", name)
		}
		if err := d.Delete(t.Context(), name); err == nil {
			t.Errorf("Delete of %s went through", name)
		}
	}
	for _, name := range []publish.ObjectName{"folder/secret", "up/secret", "file"} {
		if reader, err := d.Open(t.Context(), name, 0, -1); err == nil {
			t.Errorf("Open of %s went through", name)
			_ = reader.Close()
		}
		if _, err := d.Stat(t.Context(), name); err == nil {
			t.Errorf("Stat of %s went through", name)
		}
	}
	for _, prefix := range []string{"", "folder/", "up/s"} {
		for info, err := range d.List(t.Context(), prefix) {
			if err == nil {
				t.Errorf("List(%q) shows %s", prefix, info.Name)
			}
		}
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 1 {
		t.Errorf("outside there are %v, %v", entries, err)
	}
	if err := d.Put(t.Context(), "file", strings.NewReader("x"), 1, ""); !errors.Is(err, publish.ErrObjectExists) {
		t.Errorf("Put over a link gave %v", err)
	}
	if got, err := os.ReadFile(secret); err != nil || string(got) != "secret" {
		t.Errorf("the file outside has %q, %v", got, err)
	}
}
