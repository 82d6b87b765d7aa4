package web

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// Bounds of a preview. The file itself may have any size: no more than its head is read.
const (
	previewBytes = 256 << 10 // of text
	hexBytes     = 4 << 10
	pictureBytes = 64 << 10 // in which a picture says how large it is
	previewTime  = 3 * time.Second
)

// The ways to show a file. Those of media are the browser's own, from the file's address; for the others the server reads the file's
// head and gives it out as text.
const (
	showPicture  = "picture"
	showVideo    = "video"
	showPlaylist = "playlist" // of HLS: a video where the browser knows how, and the text
	showAudio    = "audio"
	showPDF      = "pdf"
	showText     = "text"
	showTable    = "table"
	showBytes    = "bytes"
	showNothing  = "nothing" // the file is empty, or can't be read now
)

// preview shows one file, or as much of it as fits on a page.
type preview struct {
	publish.File
	URL string // the permanent address
	// Shown leads to where the file is shown as the page that it is, "" for what isn't one.
	Shown string
	// Show is one of the ways to show a file.
	Show string
	// Width and Height of a picture in pixels, 0 where they aren't known without decoding all of it.
	Width, Height int
	// Boxed reports that the browser may give the picture another shape than Width and Height say, so a box of fixed size holds it.
	Boxed bool
	Lines []string
	Table [][]string // its first row is the head
	// Note says what isn't shown, and why.
	Note string
}

// shownPictures are the types of pictures that browsers show. The others are shown as bytes.
var shownPictures = map[string]bool{
	"image/png": true, "image/jpeg": true, "image/gif": true, "image/webp": true, "image/avif": true, "image/apng": true,
	"image/bmp": true, "image/svg+xml": true, "image/vnd.microsoft.icon": true, "image/x-icon": true,
}

var shownVideos = map[string]bool{
	"video/mp4": true, "video/webm": true, "video/ogg": true, "video/quicktime": true, "video/x-m4v": true, "video/x-matroska": true,
}

var shownAudio = map[string]bool{
	"audio/aac": true, "audio/flac": true, "audio/mp4": true, "audio/mpeg": true, "audio/ogg": true, "audio/wav": true, "audio/webm": true,
}

// isPlaylist tells the types of HLS playlists, by all names that they are sent under.
func isPlaylist(kind string) bool {
	return kind == "application/vnd.apple.mpegurl" || kind == "application/x-mpegurl" || kind == "audio/mpegurl" || kind == "audio/x-mpegurl"
}

// textTypes are the types of text beside text/*, and those that end in +json and +xml.
var textTypes = map[string]bool{
	"application/json": true, "application/xml": true, "application/yaml": true, "application/x-ndjson": true, "application/javascript": true,
	"application/toml": true,
}

// wayToShow chooses by a file's type, which the fixed table of types has given it or else its publisher; showBytes is for all
// that nothing else shows.
func wayToShow(file publish.File) string {
	kind := mediaType(file.ContentType)
	switch {
	case file.Size == 0:
		return showNothing
	case shownPictures[kind]:
		return showPicture
	case shownVideos[kind]:
		return showVideo
	case isPlaylist(kind):
		return showPlaylist
	case shownAudio[kind]:
		return showAudio
	case kind == "application/pdf":
		return showPDF
	case separator(file) != 0:
		return showTable
	case isText(kind):
		return showText
	default:
		return showBytes
	}
}

func isText(kind string) bool {
	return strings.HasPrefix(kind, "text/") || textTypes[kind] || strings.HasSuffix(kind, "+json") || strings.HasSuffix(kind, "+xml")
}

// previewOf shows a file that is published. Bytes that can't be read, now or for long, are a note: what else the page tells is good
// without them.
func (h *Handler) previewOf(ctx context.Context, file publish.StoredFile, address string) *preview {
	p := &preview{File: file.File, URL: address, Show: wayToShow(file.File)}
	ctx, cancel := context.WithTimeout(ctx, previewTime)
	defer cancel()
	var err error
	switch p.Show {
	case showNothing:
		p.Note = "The file is empty."
	case showPicture:
		err = h.measure(ctx, p, file)
	case showPDF:
		err = h.checkPDF(ctx, p, file)
	case showText, showTable, showPlaylist, showBytes:
		err = h.showHead(ctx, p, file)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		h.log.WarnContext(ctx, "preview_failed", "object", file.Object, "error", err)
	}
	if err != nil && p.Show != showPicture && p.Show != showPlaylist {
		p.Show, p.Note = showNothing, "The file can't be read just now; its facts are right all the same. Load the page again later."
	}
	return p
}

// checkPDF shows the bytes of what isn't the PDF that it says it is: the browser would save it, unasked, instead of showing it.
func (h *Handler) checkPDF(ctx context.Context, p *preview, file publish.StoredFile) error {
	head, err := h.head(ctx, file, hexBytes)
	if err == nil && !agrees(mediaType(file.ContentType), head[:min(sniffedBytes, len(head))]) {
		p.Show, p.Lines, p.Note = showBytes, hexLines(head), "The file's type is application/pdf, but it isn't a PDF. "+shownOf(hexBytes, file.Size)
	}
	return err
}

// showHead reads the head of a file as its way of showing wants it.
func (h *Handler) showHead(ctx context.Context, p *preview, file publish.StoredFile) error {
	head, err := h.head(ctx, file, previewBytes)
	if err != nil {
		return err
	}
	if p.Show == showBytes && looksLikeText(head) {
		p.Show = showText
	}
	if p.Show != showBytes && holdsBytes(head) {
		p.Note = "The file's type is " + mediaType(file.ContentType) + ", but it doesn't hold text. "
		p.Show = showBytes
	}
	switch p.Show {
	case showBytes:
		p.Lines, p.Note = hexLines(head[:min(len(head), hexBytes)]), p.Note+shownOf(hexBytes, file.Size)
	case showTable:
		p.Table, p.Note = tableOf(head, separator(file.File), file.Size)
	default:
		p.Lines, p.Note = textLines(head, file.Size)
		if text, ok := indented(head, file.File); ok {
			p.Lines, p.Note = textLines(text, 0)
		}
	}
	return nil
}

// head reads at most limit bytes from the beginning of a file.
func (h *Handler) head(ctx context.Context, file publish.StoredFile, limit int64) ([]byte, error) {
	length := min(limit, file.Size)
	if length == 0 {
		return nil, nil
	}
	body, err := h.service.OpenFile(ctx, file, 0, length)
	if err != nil {
		return nil, err
	}
	head := make([]byte, length)
	_, err = io.ReadFull(body, head)
	_ = body.Close() //nolint:errcheck // Its bytes were counted; nothing depends on how it ends.
	return head, err
}

// shownOf says how much of a file is shown, "" for all.
func shownOf(limit, size int64) string {
	if size <= limit {
		return ""
	}
	return "The first " + humanBytes(limit) + " of " + humanBytes(size) + " are shown."
}
