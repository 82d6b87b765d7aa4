package blobstore

import (
	"bytes"
	"context"
	"errors"
	"io/fs"

	"github.com/pawlhq/pawl/publish"
)

// Mark returns the store's id.
func (d *Dir) Mark(ctx context.Context) (publish.StoreID, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	text, err := d.root.ReadFile(MarkName)
	if err != nil {
		return "", dirError("reading", MarkName, missing(err))
	}
	return decodeMark(text)
}

// SetMark puts the mark as an object comes into being: whole, durable, and over no other one.
func (d *Dir) SetMark(ctx context.Context, id publish.StoreID) error {
	text := encodeMark(id)
	temp, err := d.writeTemp(newBody(ctx, bytes.NewReader(text), int64(len(text))))
	if err == nil {
		err = errors.Join(d.place(ctx, temp.name, MarkName), temp.Close())
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrExist):
		return publish.ErrObjectExists
	}
	return dirError("storing", MarkName, err)
}
