package publishtest

import (
	"context"
	"slices"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// FileAt finds a file of a published revision; see publish.ReadStore.
func (p *Pointers) FileAt(ctx context.Context, key publish.Key, version publish.Version, path publish.Path) (publish.StoredFile, error) {
	return transact(ctx, p, "FileAt", key, func(time.Time) (publish.StoredFile, error) {
		rows, g, err := p.revision(key, version)
		if err != nil {
			return publish.StoredFile{}, err
		}
		for _, row := range rows {
			if row.Path == path {
				file := g.stored(row)
				file.Sealed = true
				return file, nil
			}
		}
		return publish.StoredFile{}, noFile(p.keys[key], g, path)
	})
}

// FilesAt returns one page of the files of a published revision; see publish.BrowseStore.
func (p *Pointers) FilesAt(ctx context.Context, key publish.Key, version publish.Version, after publish.Path, limit int) (publish.FilePage, error) {
	return transact(ctx, p, "FilesAt", key, func(time.Time) (publish.FilePage, error) {
		rows, _, err := p.revision(key, version)
		if err != nil {
			return publish.FilePage{}, err
		}
		return pageOf(filesOf(rows), after, limit), nil
	})
}

// revision is what a published revision names, sorted by path.
func (p *Pointers) revision(key publish.Key, version publish.Version) ([]*uploadRow, *generation, error) {
	_, g, err := p.generation(key, version.Token)
	switch {
	case err != nil:
		return nil, nil, err
	case g.state == publish.StateCondemned || g.state == publish.StateCollected:
		return nil, nil, &publish.Error{Code: publish.ErrGenerationCollected, Key: key, Token: g.token}
	case version.Revision < 1 || version.Revision > g.revision:
		return nil, nil, &publish.Error{Code: publish.ErrNotFound, Key: key, Token: g.token, Revision: version.Revision}
	}
	return g.choose(func(row *uploadRow) bool { return row.inRevision(version.Revision) }), g, nil
}

// pageOf is one page of sorted files.
func pageOf(files []publish.File, after publish.Path, limit int) publish.FilePage {
	files = slices.DeleteFunc(files, func(file publish.File) bool { return file.Path <= after })
	files, more := page(files, limitOr(limit))
	result := publish.FilePage{Files: files}
	if more {
		result.Next = files[len(files)-1].Path
	}
	return result
}
