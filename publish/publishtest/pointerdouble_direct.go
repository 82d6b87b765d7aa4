package publishtest

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// directRow is what a direct upload's row has beside those of other uploads.
type directRow struct {
	promise  publish.Promise
	partSize int64
	caller   publish.CredentialID
}

// BeginDirect writes the row of a direct upload; see publish.DirectUploadStore.
func (p *Pointers) BeginDirect(ctx context.Context, req publish.BeginDirectRequest) (publish.DirectStart, error) {
	path := req.Promise.Path
	return transact(ctx, p, "BeginDirect", req.Grant.Key, func(now time.Time) (publish.DirectStart, error) {
		if most := p.policy(req.Grant.Key).MaxFileBytes; most != 0 && req.Promise.Size > most {
			return publish.DirectStart{}, &publish.Error{Code: publish.ErrTooLarge, Key: req.Grant.Key, Path: path, Limit: most}
		}
		r := request{req.Grant, publish.OperationUpload, path}
		k, g, err := p.checkGrant(now, r)
		if err != nil {
			return publish.DirectStart{}, err
		}
		if err := p.checkFence(now, r, k, g); err != nil {
			return publish.DirectStart{}, err
		}
		var start publish.DirectStart
		top := g.top(path)
		switch {
		case top != nil && top.counts() && top.result.SHA256 == req.Promise.SHA256 && top.result.ContentType == req.Promise.ContentType:
			start.Existing = clone(&top.result.File)
		case top != nil && top.continues(req):
			start.DirectUpload, start.Resumed = top.directUpload(req.Grant), true
		case p.caller.Known() && req.MaxUploads != 0 && p.openDirect(p.caller.Credential) >= req.MaxUploads:
			return publish.DirectStart{}, &publish.Error{
				Code: publish.ErrQuotaExceeded, Key: req.Grant.Key, Token: g.token, Path: path, Operation: publish.OperationUpload,
				Limit: req.MaxUploads, Unit: publish.UnitUploads,
			}
		default:
			p.uploads++
			row := &uploadRow{
				Upload:     publish.Upload{Grant: req.Grant, Path: path, ID: req.ID, Number: p.uploads},
				generation: g.token, state: uploadPending,
				direct: &directRow{promise: req.Promise, partSize: req.PartSize, caller: p.caller.Credential},
			}
			g.uploads = append(g.uploads, row)
			start.DirectUpload = row.directUpload(req.Grant)
		}
		start.SupersededBy = k.supersededBy(g.token)
		return start, nil
	})
}

// openDirect counts the direct uploads of a caller that are pending.
func (p *Pointers) openDirect(caller publish.CredentialID) (n int64) {
	for _, k := range p.keys {
		for _, g := range k.generations {
			for _, u := range g.uploads {
				if u.direct != nil && u.direct.caller == caller && u.state == uploadPending {
					n++
				}
			}
		}
	}
	return n
}

// continues reports whether a request promises what a pending direct upload has been promised.
func (u *uploadRow) continues(req publish.BeginDirectRequest) bool {
	if u.direct == nil || u.state != uploadPending || u.direct.partSize != req.PartSize || u.direct.promise.File != req.Promise.File {
		return false
	}
	old, crc := u.direct.promise.CRC64NVME, req.Promise.CRC64NVME
	return old == nil && crc == nil || old != nil && crc != nil && *old == *crc
}

func (u *uploadRow) directUpload(grant publish.Grant) publish.DirectUpload {
	state := publish.UploadState(u.state)
	if u.state == uploadComplete {
		state = publish.UploadStored
	}
	upload := publish.DirectUpload{Upload: u.Upload, Promise: u.direct.promise, State: state, PartSize: u.direct.partSize}
	upload.Grant = grant
	return upload
}

// FindDirect returns a direct upload by its id; see publish.DirectUploadStore.
func (p *Pointers) FindDirect(ctx context.Context, grant publish.Grant, id publish.UploadID, fenced bool) (publish.DirectUpload, error) {
	return transact(ctx, p, "FindDirect", grant.Key, func(now time.Time) (publish.DirectUpload, error) {
		r := request{grant, publish.OperationUpload, ""}
		var row *uploadRow
		if k := p.keys[grant.Key]; k != nil {
			if g := k.find(grant.Token); g != nil {
				if row = g.upload(id); row != nil {
					r.path = row.Path
				}
			}
		}
		k, g, err := p.checkGrant(now, r)
		if err != nil {
			return publish.DirectUpload{}, err
		}
		if row == nil || row.direct == nil {
			return publish.DirectUpload{}, &publish.Error{Code: publish.ErrNotFound, Key: k.key, Token: g.token}
		}
		if fenced && row.state != uploadComplete {
			if err := p.checkFence(now, r, k, g); err != nil {
				return publish.DirectUpload{}, err
			}
		}
		upload := row.directUpload(grant)
		upload.SupersededBy = k.supersededBy(g.token)
		return upload, nil
	})
}
