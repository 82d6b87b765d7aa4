package publishtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// uploadState is what became of an upload.
type uploadState string

const (
	uploadPending  uploadState = "pending"
	uploadFailed   uploadState = "failed"
	uploadComplete uploadState = "complete"
	uploadDropped  uploadState = "dropped" // replaced or deleted before any revision named it
)

// uploadRow is one upload. A complete one counts from one revision of its generation on, and until another one
// when it was replaced or deleted after that had been published.
type uploadRow struct {
	publish.Upload
	// generation is the token of the generation that the row belongs to: another one than the upload's for a file that was
	// carried over.
	generation publish.Token
	state      uploadState
	why        string
	result     publish.UploadResult
	from       int64
	until      int64 // 0: counts still
	direct     *directRow
	sweep      sweepRow
}

func (u *uploadRow) counts() bool { return u.state == uploadComplete && u.until == 0 }

// inRevision reports whether a revision names the upload.
func (u *uploadRow) inRevision(revision int64) bool {
	return u.state == uploadComplete && u.from <= revision && (u.until == 0 || u.until >= revision)
}

// BeginUpload writes the row of an upload; see publish.UploadStore.
func (p *Pointers) BeginUpload(ctx context.Context, req publish.BeginUploadRequest) (publish.UploadStart, error) {
	return transact(ctx, p, "BeginUpload", req.Grant.Key, func(now time.Time) (publish.UploadStart, error) {
		r := request{req.Grant, publish.OperationUpload, req.Path}
		k, g, err := p.checkGrant(now, r)
		if err != nil {
			return publish.UploadStart{}, err
		}
		start := publish.UploadStart{SupersededBy: k.supersededBy(g.token), MaxFileBytes: p.policy(k.key).MaxFileBytes}
		if req.ReplaySealed && g.state == publish.StateSealed {
			if there := g.published(req.Path); there != nil {
				start.Existing, start.Sealed = clone(&there.result.File), true
				return start, nil
			}
		}
		if err := p.checkFence(now, r, k, g); err != nil {
			return publish.UploadStart{}, err
		}
		if top := g.top(req.Path); !req.Digest.IsZero() && top != nil && top.counts() && top.result.SHA256 == req.Digest {
			start.Existing = clone(&top.result.File)
			return start, nil
		}
		if g.upload(req.ID) != nil {
			panic(fmt.Sprintf("publishtest: upload id %s was used twice", req.ID))
		}
		p.uploads++
		start.Upload = publish.Upload{Grant: req.Grant, Path: req.Path, ID: req.ID, Number: p.uploads}
		g.uploads = append(g.uploads, &uploadRow{Upload: start.Upload, generation: g.token, state: uploadPending})
		return start, nil
	})
}

// CompleteUpload registers the stored bytes of an upload; see publish.UploadStore.
func (p *Pointers) CompleteUpload(ctx context.Context, upload publish.Upload, file publish.File) (publish.UploadResult, error) {
	return transact(ctx, p, "CompleteUpload", upload.Grant.Key, func(now time.Time) (publish.UploadResult, error) {
		r := request{upload.Grant, publish.OperationUpload, upload.Path}
		k, g, err := p.checkGrant(now, r)
		if err != nil {
			return publish.UploadResult{}, err
		}
		row := g.upload(upload.ID)
		if err := p.checkFence(now, r, k, g); err != nil {
			if row != nil && row.state == uploadPending {
				row.state, row.why = uploadFailed, err.Error()
			}
			return publish.UploadResult{}, err
		}
		if row == nil {
			return publish.UploadResult{}, notFound(k.key)
		}
		if row.state == uploadFailed {
			return publish.UploadResult{}, &publish.Error{
				Code: publish.ErrGenerationIncomplete,
				Key:  k.key, Token: g.token, Failed: []publish.Path{row.Path},
			}
		}
		if row.state == uploadPending {
			files, bytes := g.own(row.Path)
			if err := p.checkLimits(r, files+1, bytes+file.Size); err != nil {
				return publish.UploadResult{}, err
			}
			row.result = publish.UploadResult{File: file, Key: k.key, Token: g.token}
			g.complete(row)
		}
		result := row.result
		result.Overtaken = row.state == uploadDropped
		result.SupersededBy = k.supersededBy(g.token)
		return result, nil
	})
}

// own is how many files the generation has uploaded that count, and their bytes, without the one at a path.
func (g *generation) own(without publish.Path) (files, bytes int64) {
	for _, row := range g.uploads {
		if row.counts() && !row.carried() && row.Path != without {
			files++
			bytes += row.result.Size
		}
	}
	return files, bytes
}

// complete lets a stored upload count, and drops those of the same path that started earlier, also ones that are still
// running: when such a one ends it finds itself dropped, and so overtaken.
func (g *generation) complete(row *uploadRow) {
	for _, other := range g.uploads {
		if other.Path == row.Path && other.Number < row.Number {
			row.result.Replaced = row.result.Replaced || other.counts()
			g.end(other)
		}
	}
	row.state, row.from = uploadComplete, g.revision+1
}

// end lets an upload count no longer. What a revision has published stays readable there.
func (g *generation) end(row *uploadRow) {
	switch {
	case row.counts() && row.from <= g.revision:
		row.until = g.revision
	case row.until == 0:
		row.state = uploadDropped
	}
}

// FailUpload marks a pending upload as failed; see publish.UploadStore.
func (p *Pointers) FailUpload(ctx context.Context, upload publish.Upload, why string) error {
	_, err := transact(ctx, p, "FailUpload", upload.Grant.Key, func(now time.Time) (struct{}, error) {
		_, g, err := p.checkGrant(now, request{upload.Grant, publish.OperationUpload, upload.Path})
		if err != nil {
			return struct{}{}, err
		}
		if row := g.upload(upload.ID); row != nil && row.state == uploadPending {
			row.state, row.why = uploadFailed, why
		}
		return struct{}{}, nil
	})
	return err
}

// DeleteFile drops a path from an open generation; see publish.UploadStore.
func (p *Pointers) DeleteFile(ctx context.Context, grant publish.Grant, path publish.Path) error {
	_, err := transact(ctx, p, "DeleteFile", grant.Key, func(now time.Time) (struct{}, error) {
		r := request{grant, publish.OperationDelete, path}
		k, g, err := p.checkGrant(now, r)
		if err != nil {
			return struct{}{}, err
		}
		if err := p.checkFence(now, r, k, g); err != nil {
			return struct{}{}, err
		}
		known := false
		for _, row := range g.uploads {
			if row.Path == path {
				known = true
				g.end(row)
			}
		}
		if !known && !p.keepOut(k, g, path) {
			return struct{}{}, &publish.Error{
				Code: publish.ErrNotFound, Key: k.key, Path: path, Token: g.token,
			}
		}
		return struct{}{}, nil
	})
	return err
}

func (g *generation) upload(id publish.UploadID) *uploadRow {
	for _, row := range g.uploads {
		if row.ID == id {
			return row
		}
	}
	return nil
}

// top is the upload of a path that started last, apart from dropped ones.
func (g *generation) top(path publish.Path) *uploadRow {
	for _, row := range slices.Backward(g.uploads) {
		if row.Path == path && row.state != uploadDropped {
			return row
		}
	}
	return nil
}

// counting is what the next revision would name, sorted by path.
func (g *generation) counting() []*uploadRow {
	return g.choose((*uploadRow).counts)
}

// last is what the last published revision names, sorted by path.
func (g *generation) last() []*uploadRow {
	return g.choose(func(row *uploadRow) bool { return row.inRevision(g.revision) })
}

// published finds a path in the last published revision.
func (g *generation) published(path publish.Path) *uploadRow {
	for _, row := range g.last() {
		if row.Path == path {
			return row
		}
	}
	return nil
}

func (g *generation) choose(wanted func(*uploadRow) bool) []*uploadRow {
	var rows []*uploadRow
	for _, row := range g.uploads {
		if wanted(row) {
			rows = append(rows, row)
		}
	}
	slices.SortFunc(rows, func(a, b *uploadRow) int { return strings.Compare(string(a.Path), string(b.Path)) })
	return rows
}

func filesOf(rows []*uploadRow) []publish.File {
	files := make([]publish.File, len(rows))
	for i, row := range rows {
		files[i] = row.result.File
	}
	return files
}
