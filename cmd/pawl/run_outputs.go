package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/text/unicode/norm"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/publish"
)

// declaredOutput is one --out: a file or folder, in the scratch folder or elsewhere.
type declaredOutput struct {
	name     string // as given
	folder   string // "" for the scratch folder
	relative string // to folder, with slashes
}

// declareOutputs reads the --out flags.
func declareOutputs(outs []string) ([]declaredOutput, error) {
	var declared []declaredOutput
	for _, out := range outs {
		switch {
		case filepath.IsAbs(out) && filepath.Clean(out) != "/":
			clean := filepath.Clean(out)
			declared = append(declared, declaredOutput{name: out, folder: filepath.Dir(clean), relative: filepath.Base(clean)})
		case filepath.IsLocal(out):
			declared = append(declared, declaredOutput{name: out, relative: filepath.ToSlash(filepath.Clean(out))})
		default:
			return nil, usageError{fmt.Errorf("--out %q: must lie in PAWL_OUT, or be absolute", out)}
		}
	}
	return declared, nil
}

// output is one file to publish.
type output struct {
	path publish.Path
	root *os.Root
	name string // in root
}

func (o output) open() (*os.File, error) {
	f, err := o.root.Open(o.name)
	var fault *fs.PathError
	if errors.As(err, &fault) {
		err = fault.Err // The name and the call that failed tell people nothing beside the output's.
	}
	if err != nil {
		return nil, missingError{fmt.Errorf("output %s can't be published: %w", o.name, err)}
	}
	return f, nil
}

// outputs are all files to publish, with the folders that they are read through: those can't be left by a link.
type outputs struct {
	files []output
	roots []*os.Root
}

func (o *outputs) close() {
	for _, root := range o.roots {
		_ = root.Close() //nolint:errcheck // Nothing was written.
	}
}

// collectOutputs finds what the command left behind. Without declarations that is all of the scratch folder, and it may be nothing when the
// command has uploaded by itself: the server tells.
func collectOutputs(scratch string, declared []declaredOutput) (_ *outputs, err error) {
	all := &outputs{}
	defer func() {
		if err != nil {
			all.close()
		}
	}()
	if len(declared) == 0 {
		root, err := all.open(scratch)
		if err != nil {
			return nil, err
		}
		return all, all.walk(root, ".")
	}
	var missing []string
	for _, d := range declared {
		folder := d.folder
		if folder == "" {
			folder = scratch
		}
		before := len(all.files)
		root, err := all.open(folder)
		if err == nil {
			err = all.walk(root, d.relative)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist), err == nil && len(all.files) == before:
			missing = append(missing, d.name)
		case err != nil:
			return nil, err
		}
	}
	if len(missing) > 0 {
		return nil, missingError{fmt.Errorf("the command succeeded, but did not leave what --out declares: %s", strings.Join(missing, ", "))}
	}
	return all, nil
}

func (o *outputs) open(folder string) (*os.Root, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, missingError{err}
	}
	o.roots = append(o.roots, root)
	return root, nil
}

// walk adds a file, or all files of a folder. A link to a file in the folder is published as that file; what else
// isn't a plain file can't be published, and leaving it out in silence would publish an incomplete set.
func (o *outputs) walk(root *os.Root, start string) error {
	return fs.WalkDir(root.FS(), start, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return missingError{err}
		}
		if entry.IsDir() {
			return nil
		}
		info, err := root.Stat(name)
		switch {
		case err != nil:
			return missingError{fmt.Errorf("output %s can't be published: %w", name, err)}
		case !info.Mode().IsRegular():
			return missingError{fmt.Errorf("output %s can't be published: it is no plain file (%s)", name, info.Mode().Type())}
		}
		o.files = append(o.files, output{path: publish.Path(path.Clean(name)), root: root, name: name})
		return nil
	})
}

// nameOutputs brings the names into the form that the server takes.
func (a *app) nameOutputs(files []output) ([]output, error) {
	seen := map[publish.Path]bool{}
	for i := range files {
		name := string(files[i].path)
		if normal := norm.NFC.String(name); normal != name {
			name = a.nfc("output", name)
		}
		path, err := publish.ParsePath(name)
		if err != nil {
			return nil, missingError{fmt.Errorf("output %+q can't be published: %w", files[i].name, err)}
		}
		if seen[path] {
			return nil, missingError{fmt.Errorf("two outputs have the name %q", path)}
		}
		seen[path] = true
		files[i].path = path
	}
	return files, nil
}

// uploadWorkers is how many files are uploaded side by side.
const uploadWorkers = 4

// upload uploads all files, and stops at the first failure or when its context ends.
func (w worker) upload(parent context.Context, files []output) error {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	next := make(chan output)
	var failed error
	var once sync.Once
	var group sync.WaitGroup
	for range min(uploadWorkers, len(files)) {
		group.Go(func() {
			for file := range next {
				if err := w.uploadFile(ctx, file); err != nil {
					once.Do(func() { failed = err; cancel(err) })
				}
			}
		})
	}
feed:
	for _, file := range files {
		select {
		case next <- file:
		case <-ctx.Done():
			once.Do(func() { failed = context.Cause(ctx) })
			break feed
		}
	}
	close(next)
	group.Wait()
	if failed != nil && parent.Err() != nil {
		return context.Cause(parent)
	}
	return failed
}

func (w worker) uploadFile(ctx context.Context, file output) error {
	f, err := file.open()
	if err != nil {
		return err
	}
	up := &upload{path: file.path, mode: client.DirectAuto}
	defer up.close()
	if err := up.read(ctx, f); err != nil {
		return err
	}
	_, err = up.send(ctx, w.client, w.lease.Grant())
	return uploadFailure(file.path, err)
}
