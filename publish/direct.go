package publish

import (
	"context"
	"fmt"
	"hash"
	"hash/crc64"
	"strconv"
	"time"
)

// DirectStore is the side of a BlobStore by which clients send bytes without a detour through this server. It hands out
// signed requests; whoever has one can carry it out until it expires, fenced or not. That is harmless: each names the
// object of one upload, and what is sent counts only once CompleteUpload has registered it. Signing calls nobody.
//
// All methods may be called from many goroutines at once. Errors are those of BlobStore.
type DirectStore interface {
	// PlanDirect tells how a client would send an object of the given size, in bytes. It reports false when clients can't:
	// the store isn't known to refuse what would overwrite an object, or the size is none that it takes.
	PlanDirect(size int64) (plan DirectPlan, offered bool)

	// SignPut signs the upload of a whole object, for plans of one request. The signature binds the store to refuse other bytes
	// than those of the digest, or to refuse an object of that name that is there already.
	SignPut(ctx context.Context, name ObjectName, file File, validFor time.Duration) (SignedRequest, error)

	// StartParts begins an upload in parts and returns the store's id of it. Its parts are visible to nobody until FinishParts.
	StartParts(ctx context.Context, name ObjectName, contentType string) (PartsID, error)
	// FindParts returns the id of an upload in parts that was begun under the name, or ErrObjectNotFound.
	FindParts(ctx context.Context, name ObjectName) (PartsID, error)
	// SignPart signs the upload of one part, from number 1, of the given length in bytes. A part may be sent again. With
	// crc, the CRC-64/NVME of its bytes, the store refuses others; it is nil where the plan has no PartChecksum.
	SignPart(ctx context.Context, name ObjectName, id PartsID, number int, length int64, crc *uint64, validFor time.Duration) (SignedRequest, error)
	// ListParts returns the parts that have come, ordered by number. It returns ErrObjectNotFound when there is no
	// such upload (any more).
	ListParts(ctx context.Context, name ObjectName, id PartsID) ([]Part, error)
	// FinishParts makes an object of the parts, all of them, unless there is one of that name (ErrObjectExists). The id dies
	// with it: no signature made for the upload can change the object. Repeating it is harmless: it returns nil when
	// the object of this very upload is there.
	FinishParts(ctx context.Context, name ObjectName, id PartsID, parts []Part) error

	// Prove returns what the store itself knows of the object's bytes.
	Prove(ctx context.Context, name ObjectName) (Proof, error)
}

// ReadSigner is the side of a BlobStore by which clients fetch bytes without a detour through this server.
type ReadSigner interface {
	// SignGet signs the reading of an object, by GET; Range works with it. The answer carries the given headers. Signing calls
	// nobody. It returns errors.ErrUnsupported while the store isn't known to take signed requests.
	SignGet(ctx context.Context, name ObjectName, answer AnswerHeaders, validFor time.Duration) (SignedRequest, error)
}

// PartsID is a store's id of one upload in parts. It is no secret: without a signature nothing can be done with it.
type PartsID string

// DirectPlan says how a client sends one object.
type DirectPlan struct {
	// PartSize is how many bytes each part has but the last, which has the rest; 0 for a single request.
	PartSize int64
	// Parts is how many parts there are; 0 for a single request.
	Parts int
	// PartChecksum tells that the store can hold each part to its CRC-64/NVME.
	PartChecksum bool
}

// Part is one part of an upload, as the store has it.
type Part struct {
	Number int   // from 1
	Size   int64 // bytes
	// ETag and Checksum are the store's own names for the part's bytes; it wants them back in FinishParts.
	ETag, Checksum string
}

// Proof is what a store knows of an object's bytes, from its own reading of them.
type Proof struct {
	Size int64 // bytes
	// SHA256 is zero where the store has none of the whole object.
	SHA256 Digest
	// CRC64NVME is that of the whole object, nil where the store has none.
	CRC64NVME *uint64
}

// SignedRequest is a request that its bearer may carry out until it expires. Headers holds what the
// signature covers beside the length of the body: it must be sent as it is.
type SignedRequest struct {
	Method    string            `json:"method"`
	URL       string            `json:"url"`
	Headers   map[string]string `json:"headers"`
	ExpiresAt Time              `json:"expires_at"`
}

// AnswerHeaders are headers of the answer to a signed reading.
type AnswerHeaders struct {
	ContentType        string
	ContentDisposition string
	CacheControl       string
}

// crc64nvme is the polynomial of CRC-64/NVME (NVM Command Set Specification 1.0, 5.2.1.3.4), bits reversed as hash/crc64 wants it.
var crc64nvme = crc64.MakeTable(0x9a6c9329ac4bc9b5)

// NewCRC64NVME makes the hash that stores know as CRC64NVME.
func NewCRC64NVME() hash.Hash64 { return crc64.New(crc64nvme) }

// CRC64NVMEOf is that of data.
func CRC64NVMEOf(data []byte) uint64 { return crc64.Checksum(data, crc64nvme) }

// FormatCRC64NVME gives a CRC-64/NVME as 16 hex digits.
func FormatCRC64NVME(crc uint64) string { return fmt.Sprintf("%016x", crc) }

// ParseCRC64NVME reads 16 hex digits.
func ParseCRC64NVME(text string) (uint64, error) {
	crc, err := strconv.ParseUint(text, 16, 64)
	if err != nil || len(text) != 16 {
		return 0, invalid("/crc64nvme", "must be the CRC-64/NVME of the file as 16 hex digits")
	}
	return crc, nil
}
