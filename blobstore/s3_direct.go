package blobstore

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/pawlhq/pawl/publish"
)

var _ publish.DirectStore = (*S3)(nil)

// The headers by which a request and its signature are bound to the bytes.
const (
	headerChecksumSHA256    = "X-Amz-Checksum-Sha256"
	headerChecksumCRC64NVME = "X-Amz-Checksum-Crc64nvme"
	headerChecksumAlgorithm = "X-Amz-Checksum-Algorithm"
	headerChecksumType      = "X-Amz-Checksum-Type"
	fullObject              = "FULL_OBJECT"
)

// PlanDirect offers a single request up to one part's size, and only to a server that was seen to refuse what would overwrite:
// a signed request can be used again until it expires, also after the file was published. Everything else goes in parts,
// whose id dies when they become an object.
func (s *S3) PlanDirect(size int64) (publish.DirectPlan, bool) {
	able := s.Capable()
	switch {
	case !able.Presign || size < 1:
		return publish.DirectPlan{}, false
	case size <= s.memory.chunk && (able.CreateOnlyPut || able.ChecksumSHA256):
		return publish.DirectPlan{}, true
	}
	length := s.partLength(1, size)
	plan := publish.DirectPlan{PartSize: length, Parts: publish.PartsOf(size, length), PartChecksum: able.ChecksumCRC64NVME}
	return plan, length <= maxPartSize
}

// SignPut binds the request to the length and whatever of create-only and SHA-256 the server obeys.
func (s *S3) SignPut(ctx context.Context, name publish.ObjectName, file publish.File, validFor time.Duration) (publish.SignedRequest, error) {
	able := s.Capable()
	header := http.Header{"Content-Length": {strconv.FormatInt(file.Size, 10)}, "Content-Type": {file.ContentType}}
	if able.CreateOnlyPut {
		header.Set("If-None-Match", "*")
	}
	if able.ChecksumSHA256 {
		header.Set(headerChecksumSHA256, base64.StdEncoding.EncodeToString(file.SHA256[:]))
	}
	return s.sign(ctx, http.MethodPut, s.key(name), validFor, nil, header)
}

// StartParts marks the object with the upload's own id, which is a part of its name, and asks the server to compute a checksum of the
// whole object where it can.
func (s *S3) StartParts(ctx context.Context, name publish.ObjectName, contentType string) (publish.PartsID, error) {
	if err := errors.Join(ctx.Err(), checkName(name)); err != nil {
		return "", err
	}
	options := minio.PutObjectOptions{ContentType: contentType, UserMetadata: map[string]string{uploadMark: directMark(name)}}
	if s.Capable().ChecksumCRC64NVME {
		options.UserMetadata[headerChecksumAlgorithm] = "CRC64NVME"
		options.UserMetadata[headerChecksumType] = fullObject
	}
	// A repeated request may begin two; the one without parts goes with the sweep of what isn't finished.
	id, err := s.core.NewMultipartUpload(ctx, s.bucket, s.key(name), options)
	if err == nil && id == "" {
		err = errors.New("the server gave no id for a multipart upload")
	}
	if err != nil {
		return "", s3Error(ctx, "beginning the parts of "+string(name), err)
	}
	return publish.PartsID(id), nil
}

// directMark is the mark of a direct upload's object: the upload's id, which its name holds.
func directMark(name publish.ObjectName) string {
	_, rest, _ := strings.Cut(string(name), "/-/")
	_, rest, _ = strings.Cut(rest, "/")
	id, _, _ := strings.Cut(rest, "/")
	return path.Join("direct", id)
}

// FindParts looks for an upload in parts under the name. Of several it takes the one that has the most parts.
func (s *S3) FindParts(ctx context.Context, name publish.ObjectName) (publish.PartsID, error) {
	if err := errors.Join(ctx.Err(), checkName(name)); err != nil {
		return "", err
	}
	found, err := s.core.ListMultipartUploads(ctx, s.bucket, s.key(name), "", "", "", 1000)
	if err != nil {
		return "", s3Error(ctx, "looking for the parts of "+string(name), err)
	}
	var best publish.PartsID
	most := -1
	for _, upload := range found.Uploads {
		if upload.Key != s.key(name) {
			continue
		}
		parts, err := s.ListParts(ctx, name, publish.PartsID(upload.UploadID))
		if err != nil && !errors.Is(err, publish.ErrObjectNotFound) {
			return "", err
		}
		if err == nil && len(parts) > most {
			best, most = publish.PartsID(upload.UploadID), len(parts)
		}
	}
	if best == "" {
		return "", publish.ErrObjectNotFound
	}
	return best, nil
}

// SignPart binds the request to the part's length and checksum. The length alone isn't enough: some servers keep the head of a body whose
// connection broke, as a part of full length.
func (s *S3) SignPart(ctx context.Context, name publish.ObjectName, id publish.PartsID, number int, length int64, crc *uint64, validFor time.Duration) (publish.SignedRequest, error) {
	query := url.Values{"partNumber": {strconv.Itoa(number)}, "uploadId": {string(id)}}
	header := http.Header{"Content-Length": {strconv.FormatInt(length, 10)}}
	if crc != nil {
		header.Set(headerChecksumCRC64NVME, base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint64(nil, *crc)))
	}
	return s.sign(ctx, http.MethodPut, s.key(name), validFor, query, header)
}

// ListParts asks for all pages. Some servers list a part that was sent again twice: the one that came last is the one.
func (s *S3) ListParts(ctx context.Context, name publish.ObjectName, id publish.PartsID) ([]publish.Part, error) {
	if err := errors.Join(ctx.Err(), checkName(name)); err != nil {
		return nil, err
	}
	if id == "" {
		return nil, publish.ErrObjectNotFound
	}
	parts := map[int]minio.ObjectPart{}
	for marker := 0; ; {
		page, err := s.core.ListObjectParts(ctx, s.bucket, s.key(name), string(id), marker, 1000)
		if minio.ToErrorResponse(err).Code == minio.NoSuchUpload {
			return nil, publish.ErrObjectNotFound
		}
		if err != nil {
			return nil, s3Error(ctx, "listing the parts of "+string(name), err)
		}
		for _, part := range page.ObjectParts {
			if other, twice := parts[part.PartNumber]; !twice || !part.LastModified.Before(other.LastModified) {
				parts[part.PartNumber] = part
			}
		}
		if !page.IsTruncated || page.NextPartNumberMarker <= marker {
			return sortedParts(parts), nil
		}
		marker = page.NextPartNumberMarker
	}
}

func sortedParts(parts map[int]minio.ObjectPart) []publish.Part {
	sorted := make([]publish.Part, 0, len(parts))
	for _, number := range slices.Sorted(maps.Keys(parts)) {
		part := parts[number]
		sorted = append(sorted, publish.Part{Number: number, Size: part.Size, ETag: part.ETag, Checksum: part.ChecksumCRC64NVME})
	}
	return sorted
}

// FinishParts completes the upload as Put does. The object's mark tells whether it is this upload's own.
func (s *S3) FinishParts(ctx context.Context, name publish.ObjectName, id publish.PartsID, parts []publish.Part) error {
	if err := errors.Join(ctx.Err(), checkName(name)); err != nil {
		return err
	}
	m := &multipart{upload: &upload{s: s, key: s.key(name), mark: directMark(name)}, id: string(id)}
	for _, part := range parts {
		m.parts = append(m.parts, minio.CompletePart{PartNumber: part.Number, ETag: part.ETag, ChecksumCRC64NVME: part.Checksum})
		m.size += part.Size
	}
	if err := m.complete(ctx); err != nil {
		return s3Error(ctx, "completing "+string(name), err)
	}
	return nil
}

// Prove returns the checksums of the whole object that the server is known to compute by itself.
func (s *S3) Prove(ctx context.Context, name publish.ObjectName) (publish.Proof, error) {
	if err := errors.Join(ctx.Err(), checkName(name)); err != nil {
		return publish.Proof{}, err
	}
	info, err := s.core.StatObject(ctx, s.bucket, s.key(name), minio.StatObjectOptions{Checksum: true})
	if err != nil {
		return publish.Proof{}, s3Error(ctx, "looking at "+string(name), err)
	}
	proof := publish.Proof{Size: info.Size}
	able := s.Capable()
	if info.ChecksumMode != "" && info.ChecksumMode != fullObject {
		return proof, nil // Of the parts' checksums, not of the bytes.
	}
	// A checksum of parts ends in "-" and their number, and isn't base64.
	if sum, err := base64.StdEncoding.DecodeString(info.ChecksumSHA256); err == nil && able.ChecksumSHA256 && len(sum) == len(proof.SHA256) {
		proof.SHA256 = publish.Digest(sum)
	}
	if sum, err := base64.StdEncoding.DecodeString(info.ChecksumCRC64NVME); err == nil && able.ChecksumCRC64NVME && len(sum) == 8 {
		crc := binary.BigEndian.Uint64(sum)
		proof.CRC64NVME = &crc
	}
	return proof, nil
}
