package blobstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/pawlhq/pawl/publish"
)

// What is left of a folder's volume counts as little below this, in bytes.
const littleSpace = 1 << 30

// Diagnose writes, syncs, renames, reads and removes a file of its own, as an upload does, and looks how much space is left.
func (d *Dir) Diagnose(ctx context.Context, _ DiagnoseOptions) Report {
	var report Report
	user := "let Pawl's user write to the folder that " + setting + " names"
	if err := d.Check(ctx); err != nil {
		report.add("folder", LevelFail, user+", or mount its volume", "%s: %s", d.path, err.Error())
		report.Down = errors.Is(err, publish.ErrUnavailable)
		return report
	}
	report.add("folder", LevelOK, "", "%s can be written to", d.path)
	if name, err := d.tryFile(ctx); err != nil {
		report.add(name, LevelFail, "choose a folder in "+setting+" on a file system that can do this", "%s: %s", d.path, err.Error())
	} else {
		report.add("write", LevelOK, "", "a file was written and synced")
		report.add("rename", LevelOK, "", "a file took its final name, and another one didn't take it away")
	}
	switch free, err := freeSpace(d.path); {
	case err != nil:
		report.add("space", LevelNote, "", "how much is left can't be told: %s", err.Error())
	case free < littleSpace:
		report.add("space", LevelWarn, "free some space, or enlarge the volume of "+setting, "%d MiB are left", free>>20)
	default:
		report.add("space", LevelOK, "", "%d GiB are left", free>>30)
	}
	return report
}

// tryFile does to a file what an upload does. It returns the name of the step that failed.
func (d *Dir) tryFile(ctx context.Context) (step string, err error) {
	body := []byte("Pawl tries this folder out: " + rand.Text())
	final := checkFolder + strings.ToLower(rand.Text())
	first, err := d.writeTemp(newBody(ctx, bytes.NewReader(body), int64(len(body))))
	if err != nil {
		return "write", err
	}
	if err := errors.Join(d.place(ctx, first.name, final), first.Close()); err != nil {
		return "rename", err
	}
	defer func() {
		err = errors.Join(err, d.root.Remove(final))
		d.prune(strings.TrimSuffix(checkFolder, "/"))
	}()
	second, err := d.writeTemp(newBody(ctx, bytes.NewReader(body), int64(len(body))))
	if err != nil {
		return "write", err
	}
	defer second.Close() //nolint:errcheck // It was synced.
	if err := d.createOnly(d.root, second.name, final); err == nil {
		return "rename", errors.New("a file took the name of another one")
	}
	if err := d.root.Remove(second.name); err != nil {
		return "write", err
	}
	file, err := d.root.Open(final)
	if err != nil {
		return "read", err
	}
	got, err := io.ReadAll(file)
	if err := errors.Join(err, file.Close()); err != nil {
		return "read", err
	}
	if !bytes.Equal(got, body) {
		return "read", fmt.Errorf("other bytes came back than were written (%d of %d)", len(got), len(body))
	}
	return "", nil
}
