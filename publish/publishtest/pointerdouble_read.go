package publishtest

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// maxListedPaths bounds the paths that the answer about a set without a primary file lists.
const maxListedPaths = 1000

// Pointer returns the current pointer of a key; see publish.ReadStore.
func (p *Pointers) Pointer(ctx context.Context, key publish.Key) (publish.Pointer, error) {
	return transact(ctx, p, "Pointer", key, func(time.Time) (publish.Pointer, error) {
		k := p.keys[key]
		if k == nil || k.current == nil {
			return publish.Pointer{}, p.noPointer(key)
		}
		return k.pointer(), nil
	})
}

// pointer is what the key resolves to: the facts of its current receipt.
func (k *keyRow) pointer() publish.Pointer {
	r := k.receipt(k.currentReceipt())
	pointer := publish.Pointer{
		Key: r.Key, Token: r.Token, Revision: r.Revision, ManifestDigest: r.ManifestDigest, Final: r.Final, Primary: r.Primary,
		Files: r.Files, Bytes: r.Bytes, PublishedAt: r.PublishedAt, Publisher: r.Publisher,
		SourceRevision: r.SourceRevision, Metadata: r.Metadata, Pinned: clone(k.pin),
	}
	if primary := k.find(r.Token).published(r.Primary); primary != nil {
		pointer.ContentType = primary.result.ContentType
	}
	return pointer
}

// CurrentFile finds a file of the current version; see publish.ReadStore.
func (p *Pointers) CurrentFile(ctx context.Context, key publish.Key, path publish.Path) (publish.StoredFile, error) {
	return transact(ctx, p, "CurrentFile", key, func(time.Time) (publish.StoredFile, error) {
		k := p.keys[key]
		if k == nil || k.current == nil {
			return publish.StoredFile{}, p.noPointer(key)
		}
		g, receipt := k.find(k.current.Token), k.currentReceipt()
		if path == "" {
			path = receipt.Primary
		}
		if path == "" {
			missing := &publish.Error{Code: publish.ErrNotFound, Key: key, Token: g.token}
			rows, _ := page(g.last(), maxListedPaths)
			for _, row := range rows {
				missing.Paths = append(missing.Paths, row.Path)
			}
			return publish.StoredFile{}, missing
		}
		row := g.published(path)
		if row == nil {
			return publish.StoredFile{}, noFile(k, g, path)
		}
		return g.stored(row), nil
	})
}

// File finds a file of a generation; see publish.ReadStore.
func (p *Pointers) File(ctx context.Context, key publish.Key, token publish.Token, path publish.Path, id publish.LeaseID) (publish.StoredFile, error) {
	return transact(ctx, p, "File", key, func(time.Time) (publish.StoredFile, error) {
		k, g, err := p.generation(key, token)
		if err != nil {
			return publish.StoredFile{}, err
		}
		if g.state == publish.StateCondemned || g.state == publish.StateCollected {
			return publish.StoredFile{}, &publish.Error{Code: publish.ErrGenerationCollected, Key: key, Token: token}
		}
		row := g.published(path)
		if !id.IsZero() && id.SHA256() == g.lease {
			row = nil
			if top := g.countingAt(path); top != nil {
				row = top
			}
		}
		if row == nil {
			return publish.StoredFile{}, noFile(k, g, path)
		}
		return g.stored(row), nil
	})
}

// countingAt finds the upload of a path that the next revision would name.
func (g *generation) countingAt(path publish.Path) *uploadRow {
	for _, row := range g.counting() {
		if row.Path == path {
			return row
		}
	}
	return nil
}

func (g *generation) stored(row *uploadRow) publish.StoredFile {
	return publish.StoredFile{
		File: row.result.File, Token: g.token, Object: row.Object(),
		Sealed: g.sealed != nil, Published: row.from <= g.revision,
	}
}

func noFile(k *keyRow, g *generation, path publish.Path) error {
	return &publish.Error{Code: publish.ErrNotFound, Key: k.key, Path: path, Token: g.token}
}

// generation finds a generation, or refuses with not-found.
func (p *Pointers) generation(key publish.Key, token publish.Token) (*keyRow, *generation, error) {
	if k := p.keys[key]; k != nil {
		if g := k.find(token); g != nil {
			return k, g, nil
		}
	}
	return nil, nil, &publish.Error{Code: publish.ErrNotFound, Key: key, Token: token}
}
