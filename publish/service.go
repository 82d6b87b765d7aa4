package publish

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"sync"
	"time"
)

// PointerStore is everything that Postgres holds: leases, generations, pointers, receipts and rejections. Its
// invariants are those of its parts. All methods may be called from many goroutines and processes at once: order comes from the
// database alone. Refusals are *Error values; Unavailable means that nothing was changed, outcome-unknown that
// the answer to a commit was lost. A canceled context ends every call soon.
type PointerStore interface {
	LeaseStore
	UploadStore
	DirectUploadStore
	PublishStore
	OperatorStore
	PolicyStore
	AuditStore
	CredentialStore
	SessionStore
	ReadStore
	ResolveStore
	BrowseStore
	OverviewStore
	SweepStore
	EffectStore
	CollectStore
	EventStore

	// Check tells whether the store can serve requests now; it is called by the readiness probe.
	Check(ctx context.Context) error
}

// FenceMode says when a newer grant fences an older one. It is a policy by key prefix.
type FenceMode string

const (
	// FenceAccepted fences a token once a newer one has published: an expired holder that nobody has
	// superseded by a publish may still publish. The default.
	FenceAccepted FenceMode = "accepted"
	// FenceGranted fences a token as soon as a newer one is granted, so that read-modify-write work is safe too.
	FenceGranted FenceMode = "granted"
)

// The operations that can be refused, as they stand in errors, rejections, logs and metrics.
const (
	OperationAcquire = "acquire"
	OperationRenew   = "renew"
	OperationUpload  = "upload"
	OperationDelete  = "delete"
	OperationPublish = "publish"
	OperationEffect  = "effect"
	OperationPin     = "pin"
	OperationBreak   = "break-lease"
	// OperationCredential is about a credential, not about a key.
	OperationCredential = "credential"
)

// Observer is told of what happened, for metrics. Its methods are called after the fact, must not block, and
// may be called from many goroutines at once.
type Observer interface {
	Granted(Lease)
	Uploaded(UploadResult)
	Published(Receipt)
	// Refused is called for every refusal and failure that the PointerStore returned.
	Refused(*Error)
}

// RetryLoopAt is the repeat at which the same stale request counts as a retry loop.
const RetryLoopAt = 3

// DefaultMaxFileBytes is the greatest file that S3 can hold: 5 TiB.
const DefaultMaxFileBytes = 5 << 40

// Service ties the two stores together: it is what HTTP calls. It keeps no state but of what is
// arriving just now, so any number of replicas may run on the same stores. Its methods may be called from many goroutines at once.
type Service struct {
	Pointers PointerStore
	Blobs    BlobStore
	// Direct lets clients send bytes to the store themselves; nil where it can't be done.
	Direct DirectStore
	// Reads sends readers to the store itself; nil streams all files through this server.
	Reads ReadSigner
	// Verification says how what they have sent is proved where the store can't; "" means VerifyCRC64NVME.
	Verification Verification
	// CompleteWithin is how long CompleteDirect waits for a verification; 0 means 20 s. Tests set it.
	CompleteWithin time.Duration
	// Log gets one line an event; nil means slog.Default().
	Log *slog.Logger
	// Observer may be nil.
	Observer Observer
	// MaxFileBytes bounds one file; 0 means DefaultMaxFileBytes.
	MaxFileBytes int64
	// Markers writes a marker object beside the files of each generation that is sealed, for those who read only the blob store.
	Markers bool
	// Clock times what is remembered of credentials; nil means time.Now. Tests set it.
	Clock func() time.Time
	// NewUploadID draws the id of an upload; nil means 128 bits of crypto/rand. Tests set it.
	NewUploadID func() UploadID

	unnumbered  signal // raised when this process has made events
	hub         eventHub
	catchUp     chan struct{}
	catchUpOnce sync.Once

	callers     callers // of credentials
	sessions    callers
	arrivals    arrivals
	completions completions
	inFlight    inFlight
	refusals    refusalMemory
	sweeping    sync.Mutex // held by Sweep
	sweptTo     *DueUpload // where the last Sweep ended, nil for the end of all
}

// refused completes a store's error: it gives a refusal its sentence, tells the Observer, writes the one log line of a stale request,
// and returns err.
func (s *Service) refused(ctx context.Context, err error) error {
	refusal := refusalOf(err, "")
	if refusal == nil {
		return err
	}
	if refusal.Detail == "" {
		// The store's error is left as it is: it may be shared.
		explained := *refusal
		explained.Detail = explain(refusal)
		refusal = &explained
		err = refusal
	}
	s.observe().Refused(refusal)
	if refusal.Code == ErrStaleToken {
		s.unnumbered.raise()
		s.log().WarnContext(ctx, "fence_rejected",
			"key", refusal.Key, "operation", refusal.Operation, "token", refusal.Token,
			"accepted_token", refusal.AcceptedToken, "granted_token", refusal.GrantedToken,
			"holder", refusal.Worker, "superseded_by", refusal.Holder,
			"repeat", refusal.Repeat, "overrun", (time.Duration(refusal.OverrunMillis) * time.Millisecond).String())
	}
	return err
}

// refusalOf returns the *Error in err's chain if it is of the given kind, or of any kind when code is "".
func refusalOf(err error, code Code) *Error {
	var refusal *Error
	if !errors.As(err, &refusal) || code != "" && refusal.Code != code {
		return nil
	}
	return refusal
}

func (s *Service) log() *slog.Logger {
	if s.Log == nil {
		return slog.Default()
	}
	return s.Log
}

func (s *Service) observe() Observer {
	if s.Observer == nil {
		return noObserver{}
	}
	return s.Observer
}

// maxFileBytes is the lower of the server's limit and a policy's, 0 being none.
func (s *Service) maxFileBytes(policy int64) int64 {
	most := cmp.Or(s.MaxFileBytes, DefaultMaxFileBytes)
	if policy > 0 {
		return min(most, policy)
	}
	return most
}

func (s *Service) newUploadID() UploadID {
	if s.NewUploadID != nil {
		return s.NewUploadID()
	}
	var id UploadID
	_, _ = rand.Read(id[:]) // crypto/rand.Read never fails: it ends the program instead.
	return id
}

// noObserver is told and does nothing.
type noObserver struct{}

func (noObserver) Granted(Lease)         {}
func (noObserver) Uploaded(UploadResult) {}
func (noObserver) Published(Receipt)     {}
func (noObserver) Refused(*Error)        {}
