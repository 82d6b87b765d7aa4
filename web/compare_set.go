package web

import (
	"context"

	"github.com/pawlhq/pawl/publish"
)

// Bounds of the comparison of two sets: of what is looked at on each side, and of what is shown.
const (
	maxComparedFiles = 100_000
	maxChangedRows   = 1000
)

// The ways in which a file can differ between two versions.
const (
	fileAdded   = "added"
	fileRemoved = "removed"
	fileChanged = "changed"
)

// setComparison tells which files differ between two versions, by their digests.
type setComparison struct {
	Rows                          []changedFile
	Added, Removed, Changed, Same int64
	// More reports that there are more differing files than rows. The counts are of all.
	More bool
	// Cut reports that a side has more files than are looked at, so the counts are of the first ones.
	Cut bool
}

// Looked is how many files of a side are looked at.
func (setComparison) Looked() int64 { return maxComparedFiles }

// changedFile is a file that only one side has, or that they have with other bytes or another type.
type changedFile struct {
	Path            publish.Path
	Change          string
	Before, After   int64 // sizes in bytes
	Compare         string
	OnlyTypeDiffers bool
}

// compareSets walks two sorted listings side by side, page by page, so that sets of any size take the memory of two pages.
func (h *Handler) compareSets(ctx context.Context, key publish.Key, a, b publish.Version) (*setComparison, error) {
	result := &setComparison{}
	before, after := h.walk(ctx, key, a), h.walk(ctx, key, b)
	for {
		x, err := before.file()
		if err != nil {
			return nil, err
		}
		y, err := after.file()
		if err != nil {
			return nil, err
		}
		if x == nil && y == nil {
			return result, nil
		}
		if x != nil && before.seen > maxComparedFiles || y != nil && after.seen > maxComparedFiles {
			result.Cut = true
			return result, nil
		}
		row := changedFile{}
		switch {
		case y == nil || x != nil && x.Path < y.Path:
			row = changedFile{Path: x.Path, Change: fileRemoved, Before: x.Size}
			result.Removed++
			before.advance()
		case x == nil || y.Path < x.Path:
			row = changedFile{Path: y.Path, Change: fileAdded, After: y.Size}
			result.Added++
			after.advance()
		default:
			before.advance()
			after.advance()
			if x.SHA256 == y.SHA256 && x.ContentType == y.ContentType {
				result.Same++
				continue
			}
			row = changedFile{
				Path: x.Path, Change: fileChanged, Before: x.Size, After: y.Size, OnlyTypeDiffers: x.SHA256 == y.SHA256,
				Compare: h.links.compareFile(key, a, b, x.Path),
			}
			result.Changed++
		}
		if len(result.Rows) == maxChangedRows {
			result.More = true
			continue
		}
		result.Rows = append(result.Rows, row)
	}
}

// fileWalk gives the files of a version one by one.
type fileWalk struct {
	read  func(after publish.Path) (publish.FilePage, error)
	page  publish.FilePage
	begun bool
	seen  int // files that were given so far, with the one at hand
}

func (h *Handler) walk(ctx context.Context, key publish.Key, version publish.Version) *fileWalk {
	return &fileWalk{read: func(after publish.Path) (publish.FilePage, error) {
		return h.service.FilesAt(ctx, key, version, after, publish.MaxPageSize)
	}}
}

// file is the one at hand, nil behind the last one. It stays valid.
func (w *fileWalk) file() (*publish.File, error) {
	if len(w.page.Files) == 0 && (!w.begun || w.page.Next != "") {
		page, err := w.read(w.page.Next)
		if err != nil {
			return nil, err
		}
		w.page = page
		if !w.begun {
			w.begun, w.seen = true, 1
		}
	}
	if len(w.page.Files) == 0 {
		return nil, nil
	}
	return &w.page.Files[0], nil
}

// advance goes on to the next file.
func (w *fileWalk) advance() {
	w.page.Files = w.page.Files[1:]
	w.seen++
}
