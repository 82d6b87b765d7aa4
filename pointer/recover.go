package pointer

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/pawlhq/pawl/publish"
)

const registerLostSQL = `SELECT pawl.register_lost($1, $2, $3::jsonb)`

// lostRow is a file as the database's function takes it.
type lostRow struct {
	Path        publish.Path   `json:"path"`
	UploadID    string         `json:"upload_id"`
	Size        int64          `json:"size"`
	SHA256      publish.Digest `json:"sha256"`
	ContentType string         `json:"content_type"`
}

// RegisterLost makes the rows of a lost generation.
func (s *Store) RegisterLost(ctx context.Context, key publish.Key, token publish.Token, files []publish.LostFile) (bool, error) {
	rows := make([]lostRow, len(files))
	for i, file := range files {
		rows[i] = lostRow{file.Path, file.Upload.String(), file.Size, file.SHA256, file.ContentType}
	}
	text, err := json.Marshal(rows)
	if err != nil {
		return false, fmt.Errorf("writing the files of a lost generation: %w", err)
	}
	answer, err := s.change(ctx, registerLostSQL, string(key), int64(token), string(text))
	return answer.Uploads > 0, err
}

const currentEpochSQL = `
SELECT jsonb_build_object('epoch', pawl.epoch_now(), 'noticed', pawl.epoch_now() = epoch, 'reason', reason, 'raised_at', raised_at)
FROM pawl.epochs ORDER BY pawl.epochs.epoch DESC LIMIT 1`

// CurrentEpoch tells the epoch of the next grant.
func (s *Store) CurrentEpoch(ctx context.Context) (epoch publish.Epoch, err error) {
	found, err := s.read(ctx, &epoch, currentEpochSQL)
	if err == nil && !found {
		// The record of epochs is gone; the next grant makes a new one.
		epoch = publish.Epoch{Reason: "the record of epochs was lost"}
	}
	return epoch, err
}

const bumpEpochSQL = `SELECT jsonb_build_object('epoch', pawl.bump_epoch($1, 0))`

// BumpEpoch raises the epoch by hand.
func (s *Store) BumpEpoch(ctx context.Context, reason string) (publish.Epoch, error) {
	if _, err := s.change(ctx, bumpEpochSQL, reason); err != nil {
		return publish.Epoch{}, err
	}
	return s.CurrentEpoch(ctx)
}
