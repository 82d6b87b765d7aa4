package web

import (
	"bytes"
	"context"
	"image"

	// The formats whose heads can be read.
	_ "image/gif"
	_ "image/jpeg"
	_ "image/png"

	"github.com/pawlhq/pawl/publish"
)

// measure reads how large a picture is from its head. One that doesn't say it there, or isn't what its type says, stays in a box.
func (h *Handler) measure(ctx context.Context, p *preview, file publish.StoredFile) error {
	p.Boxed = true
	kind := mediaType(file.ContentType)
	if kind != "image/png" && kind != "image/jpeg" && kind != "image/gif" {
		return nil
	}
	head, err := h.head(ctx, file, pictureBytes)
	if err != nil {
		return err
	}
	config, format, err := image.DecodeConfig(bytes.NewReader(head))
	if err != nil || "image/"+format != kind || config.Width <= 0 || config.Height <= 0 {
		return nil //nolint:nilerr // What isn't known isn't shown.
	}
	p.Width, p.Height = config.Width, config.Height
	// A camera's JPEG may say that it is to be turned.
	p.Boxed = bytes.Contains(head, []byte("Exif\x00\x00"))
	return nil
}
