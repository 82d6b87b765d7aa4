package blobstore

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/pawlhq/pawl/publish"
)

func TestDirCheck(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		damage func(path string) error
		wrong  bool
	}{
		"Sound":         {damage: func(string) error { return nil }},
		"TidiedUp":      {damage: func(path string) error { return os.RemoveAll(filepath.Join(path, "-")) }},
		"FolderGone":    {damage: os.RemoveAll, wrong: true},
		"FolderMoved":   {damage: func(path string) error { return os.Rename(path, path+".old") }, wrong: true},
		"FolderChanged": {damage: func(path string) error { return errors.Join(os.RemoveAll(path), os.Mkdir(path, folderMode)) }, wrong: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "blobs")
			d, err := OpenDir(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := test.damage(path); err != nil {
				t.Fatal(err)
			}
			if err := d.Check(t.Context()); (err != nil) != test.wrong || test.wrong && !errors.Is(err, publish.ErrUnavailable) {
				t.Errorf("Check gave %v", err)
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
