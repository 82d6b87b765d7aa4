package publish

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// signedFor is how long a signed request is valid. Those of parts are handed out just before they are needed, so that an upload may
// take longer.
const signedFor = 15 * time.Minute

// MaxSignedParts is how many parts one request may ask signed requests for.
const MaxSignedParts = 1000

// Promise is what a client says of the bytes that it is about to send to the store itself.
type Promise struct {
	File
	// CRC64NVME is that of the whole file, nil when the client doesn't say. A store that computes it on its own spares
	// this server the reading back, where the Verification allows it.
	CRC64NVME *uint64
}

// DirectUpload is a direct upload as its row has it.
type DirectUpload struct {
	Upload
	Promise
	// State is pending, stored, failed or dropped.
	State UploadState
	// PartSize is that of its plan, in bytes; 0 for a single request.
	PartSize     int64
	SupersededBy Token
}

// parts is how many parts the upload has, 0 for a single request.
func (d DirectUpload) parts() int { return PartsOf(d.Size, d.PartSize) }

// PartsOf is how many parts of partSize bytes a file of size bytes has; 0 for a partSize of 0, which stands for a single request.
func PartsOf(size, partSize int64) int {
	if partSize == 0 {
		return 0
	}
	return int((size + partSize - 1) / partSize)
}

// partLength is how many bytes a part has.
func (d DirectUpload) partLength(number int) int64 {
	return min(d.PartSize, d.Size-int64(number-1)*d.PartSize)
}

// UploadState is what became of an upload.
type UploadState string

// The states of an upload.
const (
	UploadPending UploadState = "pending"
	UploadStored  UploadState = "stored"
	UploadFailed  UploadState = "failed"
	// UploadDropped was replaced or deleted before any revision named it.
	UploadDropped UploadState = "dropped"
)

// BeginDirectRequest asks for the row of a direct upload.
type BeginDirectRequest struct {
	Grant    Grant
	ID       UploadID
	Promise  Promise
	PartSize int64
	// MaxUploads is how many direct uploads the caller (see WithCaller) may have open with it, where one is known; 0 is no limit.
	MaxUploads int64
}

// UnitUploads is the Unit of a Limit that counts direct uploads.
const UnitUploads = "uploads"

// DirectUploadStore is the part of PointerStore that knows direct uploads. Its rules are those of UploadStore, whose
// CompleteUpload and FailUpload end a direct upload, too.
type DirectUploadStore interface {
	// BeginDirect writes the pending row. When the promised file counts at its path already, nothing is written and it is
	// returned as existing. When the newest upload of the path is a pending direct one with the same promise and part size,
	// that one is returned, to be gone on with; resumed tells. A new one that would be too many for its caller is quota-exceeded (with Limit and
	// Unit), and nothing is written. All direct uploads of a caller count that are pending, whichever server began them; those that begin at the
	// same moment may get past the limit.
	BeginDirect(ctx context.Context, req BeginDirectRequest) (start DirectStart, err error)
	// FindDirect returns an upload by its id. fenced asks the fence, too, unless the upload is stored.
	FindDirect(ctx context.Context, grant Grant, id UploadID, fenced bool) (DirectUpload, error)
}

// DirectStart is the answer to BeginDirect.
type DirectStart struct {
	DirectUpload
	Existing *File
	Resumed  bool
}

// DirectRequest asks to send one file to the store directly.
type DirectRequest struct {
	Grant   Grant
	Promise Promise
	// MaxUploads is how many direct uploads the caller may have open with it; 0 is no limit.
	MaxUploads int64
}

// Direct tells a client how to send a file.
type Direct struct {
	// Existing is the file when the generation has it already: there is nothing to send.
	Existing *File
	ID       DirectID
	// PartSize, Parts and PartChecksum are the plan's.
	PartSize     int64
	Parts        int
	PartChecksum bool
	// Uploaded are the numbers of the parts that an earlier attempt has sent, ascending.
	Uploaded []int
	// Put is the single request, nil for an upload in parts, and where an earlier attempt has sent everything.
	Put          *SignedRequest
	SupersededBy Token
}

// notOffered is the refusal of a direct upload that this server can't take.
func notOffered() error {
	return &Error{Code: ErrNotFound, Detail: "direct uploads of this size are not offered by this server's blob store; PUT the file instead"}
}

// BeginDirect begins a direct upload, or goes on with one that was begun with the same promise. Where direct uploads aren't
// offered it fails with not-found; with one upload too many of its caller, with quota-exceeded.
func (s *Service) BeginDirect(ctx context.Context, req DirectRequest) (Direct, error) {
	promise := req.Promise
	if err := promise.validate(s.maxFileBytes(0)); err != nil {
		return Direct{}, err
	}
	if s.Direct == nil {
		return Direct{}, notOffered()
	}
	plan, offered := s.Direct.PlanDirect(promise.Size)
	if !offered {
		return Direct{}, notOffered()
	}
	promise.ContentType = ContentType(promise.Path, promise.ContentType)
	start, err := s.beginDirect(ctx, BeginDirectRequest{
		Grant: req.Grant, ID: s.newUploadID(), Promise: promise, PartSize: plan.PartSize, MaxUploads: req.MaxUploads,
	})
	if err != nil {
		return Direct{}, s.refused(ctx, err)
	}
	if start.Existing != nil {
		return Direct{Existing: start.Existing, SupersededBy: start.SupersededBy}, nil
	}
	// A crash from here on leaves a pending row, which blocks the final publish, and what the client has sent by then:
	// parts that nobody sees, or an object that no manifest names.
	upload := start.DirectUpload
	direct := Direct{
		ID: DirectID{Upload: upload.ID}, PartSize: upload.PartSize, Parts: upload.parts(), PartChecksum: plan.PartChecksum,
		SupersededBy: start.SupersededBy,
	}
	if start.Resumed {
		s.inFlight.sign(upload.Upload)
		err = s.resume(ctx, upload, &direct)
	}
	if err == nil && len(direct.Uploaded) == 0 && direct.ID.Parts == "" {
		err = s.firstRequest(ctx, upload, &direct)
	}
	return direct, err
}

// beginDirect is the store's BeginDirect, in order of arrival.
func (s *Service) beginDirect(ctx context.Context, req BeginDirectRequest) (DirectStart, error) {
	leave, err := s.arrivals.enter(ctx, req.Grant, req.Promise.Path)
	defer leave()
	if err != nil {
		return DirectStart{}, err
	}
	return s.Pointers.BeginDirect(ctx, req)
}

// validate checks what a client promises, before anything is looked up.
func (p Promise) validate(limit int64) error {
	switch {
	case p.Size < 1:
		return invalid("/size", "must be the number of bytes, from 1; PUT an empty file instead")
	case p.Size > limit:
		return &Error{Code: ErrTooLarge, Detail: fmt.Sprintf("a file may have at most %d bytes; nothing was stored", limit), Limit: limit}
	case p.SHA256.IsZero():
		return invalid("/sha256", "must be the SHA-256 of the file as 64 hex digits")
	}
	return nil
}

// resume finds out what an earlier attempt has sent.
func (s *Service) resume(ctx context.Context, upload DirectUpload, direct *Direct) error {
	if direct.Parts > 0 {
		id, parts, err := s.sentParts(ctx, upload)
		if err == nil {
			direct.ID.Parts = id
			for _, part := range parts {
				direct.Uploaded = append(direct.Uploaded, part.Number)
			}
			return nil
		}
		if !errors.Is(err, ErrObjectNotFound) {
			return err
		}
	}
	proof, err := s.Direct.Prove(ctx, upload.Object())
	switch {
	case errors.Is(err, ErrObjectNotFound):
		return nil // Nothing has come.
	case err != nil:
		return err
	case proof.Size == upload.Size:
		// All of it is there: the attempt ended between the store's success and ours.
		direct.Uploaded = make([]int, max(1, direct.Parts))
		for i := range direct.Uploaded {
			direct.Uploaded[i] = i + 1
		}
	}
	return nil
}

// sentParts finds the parts that an earlier attempt has sent.
func (s *Service) sentParts(ctx context.Context, upload DirectUpload) (PartsID, []Part, error) {
	id, err := s.Direct.FindParts(ctx, upload.Object())
	if err != nil {
		return "", nil, err
	}
	parts, err := s.goodParts(ctx, upload, id)
	return id, parts, err
}

// goodParts lists the parts that have come and have the length that they should have.
func (s *Service) goodParts(ctx context.Context, upload DirectUpload, id PartsID) ([]Part, error) {
	parts, err := s.Direct.ListParts(ctx, upload.Object(), id)
	return slices.DeleteFunc(parts, func(part Part) bool {
		return part.Number < 1 || part.Number > upload.parts() || part.Size != upload.partLength(part.Number)
	}), err
}

// firstRequest makes ready what a new upload starts with.
func (s *Service) firstRequest(ctx context.Context, upload DirectUpload, direct *Direct) error {
	var err error
	if direct.Parts > 0 {
		direct.ID.Parts, err = s.Direct.StartParts(ctx, upload.Object(), upload.ContentType)
		return err
	}
	put, err := s.Direct.SignPut(ctx, upload.Object(), upload.File, signedFor)
	direct.Put = &put
	return err
}

// SignedPart is the signed request of one part.
type SignedPart struct {
	Number int   `json:"part_number"`
	Size   int64 `json:"size"` // bytes
	SignedRequest
}

// WantedPart names a part to be signed for.
type WantedPart struct {
	Number int // from 1
	// CRC64NVME binds the request to the part's bytes: a body that is changed or cut off on the way is refused then, where a store
	// may else keep its head for the part. It may be nil.
	CRC64NVME *uint64
}

// SignParts signs requests for parts of a direct upload. The fence is asked each time, so that a worker that has been
// superseded stops early; its signed requests do no harm.
func (s *Service) SignParts(ctx context.Context, grant Grant, id DirectID, wanted []WantedPart) ([]SignedPart, error) {
	if s.Direct == nil {
		return nil, notOffered()
	}
	if len(wanted) < 1 || len(wanted) > MaxSignedParts {
		return nil, invalid("/part_numbers", "must hold 1 to %d numbers", MaxSignedParts)
	}
	upload, err := s.findDirect(ctx, grant, id, true)
	if err != nil {
		return nil, err
	}
	switch {
	case upload.State != UploadPending:
		return nil, overError(upload)
	case upload.parts() == 0:
		return nil, invalid("upload", "must be an upload in parts; this one is a single request, which its beginning was answered with")
	}
	s.inFlight.sign(upload.Upload)
	plan, _ := s.Direct.PlanDirect(upload.Size)
	signed := make([]SignedPart, len(wanted))
	for i, part := range wanted {
		number, crc := part.Number, part.CRC64NVME
		if !plan.PartChecksum {
			crc = nil
		}
		if number < 1 || number > upload.parts() {
			return nil, invalid("/part_numbers/"+strconv.Itoa(i), "must be a number from 1 to %d", upload.parts())
		}
		length := upload.partLength(number)
		request, err := s.Direct.SignPart(ctx, upload.Object(), id.Parts, number, length, crc, signedFor)
		if err != nil {
			return nil, err
		}
		signed[i] = SignedPart{Number: number, Size: length, SignedRequest: request}
	}
	return signed, nil
}

// findDirect is the store's FindDirect, with a refusal that says what isn't there.
func (s *Service) findDirect(ctx context.Context, grant Grant, id DirectID, fenced bool) (DirectUpload, error) {
	upload, err := s.Pointers.FindDirect(ctx, grant, id.Upload, fenced)
	if refusal := refusalOf(err, ErrNotFound); refusal != nil && refusal.Token != 0 && refusal.Detail == "" {
		named := *refusal
		named.Detail = fmt.Sprintf("there is no such upload in generation %d; begin it again", refusal.Token)
		err = &named
	}
	return upload, s.refused(ctx, err)
}

// overError is the refusal of a request about an upload that is over.
func overError(upload DirectUpload) error {
	if upload.State == UploadFailed {
		return &Error{
			Code: ErrGenerationIncomplete, Key: upload.Grant.Key, Token: upload.Grant.Token, Failed: []Path{upload.File.Path},
			Detail: "this upload has failed; begin another one",
		}
	}
	return invalid("upload", "must be an upload that isn't over; this one is %s", upload.State)
}

// AbortDirect gives a direct upload up: its path is marked as failed, and what it has sent is removed. It works for every grant, fenced
// ones too. Repeating it is harmless.
func (s *Service) AbortDirect(ctx context.Context, grant Grant, id DirectID) error {
	if s.Direct == nil {
		return notOffered()
	}
	upload, err := s.findDirect(ctx, grant, id, false)
	if err != nil {
		return err
	}
	if upload.State == UploadStored {
		return invalid("upload", "must be an upload that isn't over; this one is stored: delete the file instead")
	}
	return s.giveUp(ctx, upload, errAborted)
}

var errAborted = errors.New("aborted by its client")

// giveUp marks an upload as failed, then removes what it has sent. The mark comes first: after it, nobody can register the bytes.
func (s *Service) giveUp(ctx context.Context, upload DirectUpload, why error) error {
	if err := s.Pointers.FailUpload(ctx, upload.Upload, why.Error()); err != nil {
		return s.refused(ctx, err)
	}
	now, err := s.Pointers.FindDirect(ctx, upload.Grant, upload.ID, false)
	if err != nil || now.State == UploadStored {
		return err // Another request has registered it meanwhile.
	}
	return s.Blobs.Discard(ctx, upload.Object())
}
