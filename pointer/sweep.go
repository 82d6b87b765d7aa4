package pointer

import (
	"context"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/publish"
)

const keepUploadsSQL = `SELECT pawl.keep_uploads($1, $2, $3, $4)`

// KeepUploads says that uploads are alive.
func (s *Store) KeepUploads(ctx context.Context, uploads []publish.Upload) error {
	keys, paths := make([]string, len(uploads)), make([]string, len(uploads))
	tokens, numbers := make([]int64, len(uploads)), make([]int64, len(uploads))
	for i, upload := range uploads {
		keys[i], tokens[i] = string(upload.Grant.Key), int64(upload.Grant.Token)
		paths[i], numbers[i] = string(upload.Path), upload.Number
	}
	_, err := s.change(ctx, keepUploadsSQL, keys, tokens, paths, numbers)
	return err
}

const failIdleUploadsSQL = `SELECT pawl.fail_idle_uploads($1, $2, $3)`

// FailIdleUploads marks pending uploads as failed.
func (s *Store) FailIdleUploads(ctx context.Context, idle, directIdle time.Duration, limit int) (int, error) {
	answer, err := s.change(ctx, failIdleUploadsSQL, idle.Milliseconds(), directIdle.Milliseconds(), limit)
	return answer.Uploads, err
}

// dueRow is an upload that is due as the database's function gives it.
type dueRow struct {
	Key      publish.Key         `json:"key"`
	Token    publish.Token       `json:"token"`
	Path     publish.Path        `json:"path"`
	UploadID hexBytes            `json:"upload_id"`
	UploadNo int64               `json:"upload_no"`
	State    publish.UploadState `json:"state"`
	Since    time.Time           `json:"since"`
}

const dueUploadsSQL = `SELECT pawl.due_uploads($1, $2, $3, $4, $5)`

// DueUploads returns uploads that may be swept.
func (s *Store) DueUploads(ctx context.Context, grace, directGrace time.Duration, after *publish.DueUpload, limit int) ([]publish.DueUpload, error) {
	var since *time.Time
	var number int64
	if after != nil {
		since, number = &after.LastSign, after.Number
	}
	var rows []dueRow
	if _, err := s.read(ctx, &rows, dueUploadsSQL, grace.Milliseconds(), directGrace.Milliseconds(), since, number, limit); err != nil {
		return nil, err
	}
	due := make([]publish.DueUpload, len(rows))
	for i, row := range rows {
		if len(row.UploadID) != len(publish.UploadID{}) {
			return nil, fmt.Errorf("reading the database's answer: an upload id has %d bytes", len(row.UploadID))
		}
		due[i] = publish.DueUpload{
			Key: row.Key, Token: row.Token, Path: row.Path, ID: publish.UploadID(row.UploadID), Number: row.UploadNo,
			State: row.State, LastSign: row.Since,
		}
	}
	return due, nil
}

const sweptSQL = `SELECT pawl.swept($1, $2)`

// Swept notes that what uploads left was removed.
func (s *Store) Swept(ctx context.Context, uploads []publish.DueUpload) (int, error) {
	since, numbers := make([]time.Time, len(uploads)), make([]int64, len(uploads))
	for i, upload := range uploads {
		since[i], numbers[i] = upload.LastSign, upload.Number
	}
	answer, err := s.change(ctx, sweptSQL, since, numbers)
	return answer.Uploads, err
}
