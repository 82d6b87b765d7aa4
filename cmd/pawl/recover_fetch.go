package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"

	"github.com/pawlhq/pawl/publish"
)

// fetchLost writes the files of a lost generation into a new folder, from the blob store itself. What was uploaded more than once is written as
// NAME, NAME.2, NAME.3 in the order of the store's list: only people can tell which is meant.
func (a *app) fetchLost(ctx context.Context, both *bothStores, key publish.Key, token publish.Token, folder string) error {
	if err := os.Mkdir(folder, 0o777); err != nil {
		return ioError{fmt.Errorf("--out: %w; name a folder that doesn't exist yet", err)}
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return ioError{err}
	}
	defer root.Close() //nolint:errcheck // Its files are closed.
	files, bytes := 0, int64(0)
	for info, err := range both.blobs.List(ctx, fmt.Sprintf("%s/-/%d/", key, token)) {
		if err != nil {
			return err
		}
		parts, ok := publish.ParseObjectName(info.Name)
		if !ok || parts.Marker {
			continue
		}
		n, err := fetchObject(ctx, both, parts, root)
		if err != nil {
			return fmt.Errorf("fetching %s: %w", info.Name, err)
		}
		files++
		bytes += n
	}
	if files == 0 {
		return errors.Join(&publish.Error{Code: publish.ErrNotFound, Key: key, Token: token, Detail: "the blob store has no uploads of this generation"}, os.Remove(folder))
	}
	if a.json {
		return a.printJSON(map[string]any{"key": key, "token": token, "files": files, "bytes": bytes, "folder": folder})
	}
	a.printf("%d file(s), %d bytes in %s\n", files, bytes, folder)
	return a.unwritten()
}

func fetchObject(ctx context.Context, both *bothStores, parts publish.ObjectParts, root *os.Root) (int64, error) {
	if err := root.MkdirAll(path.Dir(string(parts.Path)), 0o777); err != nil {
		return 0, ioError{err}
	}
	file, err := createNew(root, string(parts.Path))
	if err != nil {
		return 0, ioError{err}
	}
	body, err := both.blobs.Open(ctx, parts.Name(), 0, -1)
	if err != nil {
		return 0, errors.Join(err, file.Close())
	}
	defer body.Close() //nolint:errcheck // It is only read.
	n, err := io.Copy(file, body)
	return n, errors.Join(err, file.Close())
}

// createNew makes a file that wasn't there, under the next name that is free.
func createNew(root *os.Root, name string) (*os.File, error) {
	for n := 1; ; n++ {
		numbered := name
		if n > 1 {
			numbered = fmt.Sprintf("%s.%d", name, n)
		}
		file, err := root.OpenFile(numbered, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if !errors.Is(err, os.ErrExist) {
			return file, err
		}
	}
}
