package main

import (
	"context"

	"github.com/pawlhq/pawl/publish"
)

// publishedAlready reports whether the generation's published files are exactly these, byte by byte: the command has uploaded and
// published its output by itself, and left it in PAWL_OUT as well. The content type that it gave them is its own affair.
func (w worker) publishedAlready(ctx context.Context, files []output) (bool, error) {
	published := map[publish.Path]publish.File{}
	for after := publish.Path(""); ; {
		page, err := w.client.Files(ctx, w.lease.Key, w.lease.Token, after, publish.MaxPageSize)
		if err != nil {
			return false, err
		}
		for _, file := range page.Files {
			published[file.Path] = file
		}
		if len(published) > len(files) || page.Next == "" {
			break
		}
		after = page.Next
	}
	if len(published) != len(files) {
		return false, nil
	}
	for _, file := range files {
		there, found := published[file.path]
		if !found {
			return false, nil
		}
		if same, err := file.is(ctx, there); err != nil || !same {
			return false, err
		}
	}
	return true, nil
}

// is reports whether an output has the bytes of a published file.
func (o output) is(ctx context.Context, there publish.File) (bool, error) {
	f, err := o.open()
	if err != nil {
		return false, err
	}
	up := &upload{}
	defer up.close()
	if err := up.read(ctx, f); err != nil {
		return false, err
	}
	return up.size == there.Size && up.sum == there.SHA256, nil
}
