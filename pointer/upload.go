package pointer

import (
	"context"

	"github.com/pawlhq/pawl/publish"
)

const beginUploadSQL = `SELECT pawl.begin_upload($1, $2, $3, $4, $5, $6, $7)
	|| jsonb_strip_nulls(jsonb_build_object('max_file_bytes', (pawl.policy($1)).max_file_bytes))`

// BeginUpload checks the grant and writes the pending row.
func (s *Store) BeginUpload(ctx context.Context, req publish.BeginUploadRequest) (publish.UploadStart, error) {
	answer, err := s.change(ctx, beginUploadSQL, string(req.Grant.Key), int64(req.Grant.Token), secret(req.Grant.LeaseID),
		string(req.Path), req.ID[:], digestOrNull(req.Digest), req.ReplaySealed)
	if err != nil {
		return publish.UploadStart{}, err
	}
	start := publish.UploadStart{Existing: answer.Existing, Sealed: answer.Sealed, MaxFileBytes: answer.MaxFileBytes, SupersededBy: answer.supersededBy()}
	if answer.Existing == nil {
		start.Upload = publish.Upload{Grant: req.Grant, Path: req.Path, ID: req.ID, Number: answer.UploadNo}
	}
	return start, nil
}

const completeUploadSQL = `SELECT pawl.upload_within(pawl.complete_upload($1, $2, $3, $4, $5, $6, $7, $8), nullif($9::bigint, 0), nullif($10::bigint, 0))`

// CompleteUpload registers stored bytes; see migrations 00004 and 00022.
func (s *Store) CompleteUpload(ctx context.Context, upload publish.Upload, file publish.File) (publish.UploadResult, error) {
	answer, err := s.change(ctx, completeUploadSQL, string(upload.Grant.Key), int64(upload.Grant.Token),
		secret(upload.Grant.LeaseID), string(upload.Path), upload.Number, file.Size, file.SHA256[:], file.ContentType,
		s.limits.Files, s.limits.Bytes)
	if err != nil {
		return publish.UploadResult{}, err
	}
	return *answer.Upload, nil
}

const failUploadSQL = `SELECT pawl.fail_upload($1, $2, $3, $4, $5, $6)`

// FailUpload marks a pending upload as failed.
func (s *Store) FailUpload(ctx context.Context, upload publish.Upload, why string) error {
	_, err := s.change(ctx, failUploadSQL, string(upload.Grant.Key), int64(upload.Grant.Token), secret(upload.Grant.LeaseID),
		string(upload.Path), upload.Number, why)
	return err
}

const deleteFileSQL = `SELECT pawl.delete_file($1, $2, $3, $4)`

// DeleteFile drops a path from an open generation.
func (s *Store) DeleteFile(ctx context.Context, grant publish.Grant, path publish.Path) error {
	_, err := s.change(ctx, deleteFileSQL, string(grant.Key), int64(grant.Token), secret(grant.LeaseID), string(path))
	return err
}

func digestOrNull(d publish.Digest) []byte {
	if d.IsZero() {
		return nil
	}
	return d[:]
}
