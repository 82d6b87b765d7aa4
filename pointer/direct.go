package pointer

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/pawlhq/pawl/publish"
)

// directRow is a direct upload as the database's functions give it.
type directRow struct {
	publish.File
	UploadNo  int64               `json:"upload_no"`
	UploadID  hexBytes            `json:"upload_id"`
	State     publish.UploadState `json:"state"`
	PartSize  int64               `json:"part_size"`
	CRC64NVME hexBytes            `json:"crc64nvme"`
}

// hexBytes are bytes that the database gives as hex digits; null gives none.
type hexBytes []byte

func (b *hexBytes) UnmarshalText(text []byte) error {
	raw, err := hex.DecodeString(string(text))
	*b = raw
	return err
}

const beginDirectSQL = `
SELECT pawl.direct_within(coalesce(pawl.check_size($1, $4, $6), pawl.begin_direct($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)),
	$1, $2, nullif($11::bigint, 0))`

// BeginDirect checks the grant and writes the pending row, or finds what makes it needless.
func (s *Store) BeginDirect(ctx context.Context, req publish.BeginDirectRequest) (publish.DirectStart, error) {
	promise := req.Promise
	answer, err := s.change(ctx, beginDirectSQL, string(req.Grant.Key), int64(req.Grant.Token), secret(req.Grant.LeaseID),
		string(promise.Path), req.ID[:], promise.Size, promise.SHA256[:], promise.ContentType, crcOrNull(promise.CRC64NVME), req.PartSize,
		req.MaxUploads)
	if err != nil {
		return publish.DirectStart{}, err
	}
	start := publish.DirectStart{Existing: answer.Existing, Resumed: answer.Resumed}
	if answer.Existing == nil {
		start.DirectUpload, err = answer.directUpload(req.Grant)
	}
	start.SupersededBy = answer.supersededBy()
	return start, err
}

const findDirectSQL = `SELECT pawl.find_direct($1, $2, $3, $4, $5)`

// FindDirect returns a direct upload by its id.
func (s *Store) FindDirect(ctx context.Context, grant publish.Grant, id publish.UploadID, fenced bool) (publish.DirectUpload, error) {
	answer, err := s.change(ctx, findDirectSQL, string(grant.Key), int64(grant.Token), secret(grant.LeaseID), id[:], fenced)
	if err != nil {
		return publish.DirectUpload{}, err
	}
	return answer.directUpload(grant)
}

func (o outcome) directUpload(grant publish.Grant) (publish.DirectUpload, error) {
	if o.Direct == nil || len(o.Direct.UploadID) != len(publish.UploadID{}) {
		return publish.DirectUpload{}, fmt.Errorf("reading the database's answer: it has no direct upload")
	}
	row := o.Direct
	upload := publish.DirectUpload{
		Upload:  publish.Upload{Grant: grant, Path: row.Path, ID: publish.UploadID(row.UploadID), Number: row.UploadNo},
		Promise: publish.Promise{File: row.File}, State: row.State, PartSize: row.PartSize, SupersededBy: o.supersededBy(),
	}
	if len(row.CRC64NVME) == 8 {
		crc := binary.BigEndian.Uint64(row.CRC64NVME)
		upload.CRC64NVME = &crc
	}
	return upload, nil
}

func (o outcome) supersededBy() publish.Token {
	if o.SupersededBy == nil {
		return 0
	}
	return *o.SupersededBy
}

func crcOrNull(crc *uint64) []byte {
	if crc == nil {
		return nil
	}
	return binary.BigEndian.AppendUint64(nil, *crc)
}
