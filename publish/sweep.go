package publish

import (
	"context"
	"fmt"
	"time"
)

// DueUpload is an upload that doesn't count and may have left something in the blob store.
type DueUpload struct {
	Key      Key
	Token    Token
	Path     Path
	ID       UploadID
	Number   int64
	State    UploadState // failed or dropped
	LastSign time.Time   // its start, a server's word, its end or its last sweep, by the store's clock
}

// Object is the name of what it may have left.
func (d DueUpload) Object() ObjectName { return objectName(d.Key, d.Token, d.ID, d.Path) }

// SweepStore is the part of PointerStore that knows which uploads don't count. An upload's object is named by a manifest only if the
// upload is stored; failed and dropped are for ever. All times are the store's own. Each call is one transaction, waits for no other
// change, and may be made by many processes at once.
type SweepStore interface {
	// KeepUploads says that uploads are alive, whatever became of them. Those that were swept are due again later. An upload that is
	// being changed just then may be left out. Without uploads it only tells whether the store can be reached.
	KeepUploads(ctx context.Context, uploads []Upload) error
	// FailIdleUploads marks at most limit pending uploads as failed, of which there was no sign for longer than idle, or directIdle for
	// direct ones: from then on they can't be completed. It returns how many.
	FailIdleUploads(ctx context.Context, idle, directIdle time.Duration, limit int) (int, error)
	// DueUploads returns at most limit failed and dropped uploads that weren't swept and of which there was no sign for longer than grace, or directGrace
	// for direct ones; oldest first, behind after if that isn't nil. Direct ones are due twice. None of them is ever stored.
	DueUploads(ctx context.Context, grace, directGrace time.Duration, after *DueUpload, limit int) ([]DueUpload, error)
	// Swept notes that what the uploads left was removed. It changes nothing about those of which there was a sign since DueUploads
	// returned them. It returns how many are noted.
	Swept(ctx context.Context, uploads []DueUpload) (int, error)
}

// Defaults of SweepOptions, and the least that direct uploads get.
const (
	DefaultSweepGrace = 24 * time.Hour
	DefaultSweepIdle  = time.Hour
	defaultSweepLimit = 1000
	defaultSweepPause = 10 * time.Millisecond
	// leastDirectIdle is how long a direct upload may stay without asking for anything. It asks before each part, or before some that it begins within
	// signedFor: so a part may take this long.
	leastDirectIdle = 24 * time.Hour
	// leastDirectGrace is well above the validity of what was signed before the upload was over.
	leastDirectGrace = 4 * signedFor
	sweepBatch       = 100
	// sweepGivesUp is how many failures in a row end a sweep: the blob store is away then.
	sweepGivesUp = 20
)

// SweepOptions are the same for all processes on one store.
type SweepOptions struct {
	// Grace is how long what an upload left stays after the last sign of it; 0 means DefaultSweepGrace. Direct uploads get 1 h at least.
	Grace time.Duration
	// Idle is after how long without a sign a pending upload counts as failed; 0 means DefaultSweepIdle, or Grace if that
	// is less. Direct uploads get 24 h at least.
	Idle time.Duration
	// Limit is how many objects one sweep discards at most; 0 means 1000.
	Limit int
	// Pause is the time between two objects, so that a sweep doesn't crowd out uploads; 0 means 10 ms.
	Pause time.Duration
}

func (o SweepOptions) withDefaults() SweepOptions {
	if o.Grace <= 0 {
		o.Grace = DefaultSweepGrace
	}
	if o.Idle <= 0 {
		o.Idle = min(DefaultSweepIdle, o.Grace)
	}
	if o.Limit <= 0 {
		o.Limit = defaultSweepLimit
	}
	if o.Pause <= 0 {
		o.Pause = defaultSweepPause
	}
	return o
}

// KeepEvery is how often KeepUploads is to be called.
func (o SweepOptions) KeepEvery() time.Duration {
	return min(time.Minute, o.withDefaults().Idle/8)
}

// gap is how late KeepUploads may be. It leaves the uploads of others the rest of Idle.
func (o SweepOptions) gap() time.Duration { return o.Idle / 2 }

// SweepReport tells what a sweep did.
type SweepReport struct {
	// Failed is how many pending uploads were marked as failed.
	Failed int
	// Discarded is how many uploads' objects and parts were removed, where there were any.
	Discarded int
	// Errors is how many could not be removed. They stay due.
	Errors int
	// More reports that there may be more that is due now.
	More bool
}

// Sweep removes what uploads left in the blob store that don't count: failed ones, those that a later one of the same path has
// replaced before a publish, and those whose client or server was killed. The last are condemned first: marked as failed, after which nobody can
// complete them. Nothing that a manifest names or may come to name is touched, and no upload that a server has a part in.
//
// What can't be removed is logged, stays due, and is tried again by the next sweep, of any process. Several may sweep at once: that is
// needless, but harmless. It works only where KeepUploads is called, too: pending uploads are condemned only when this process has reached the store without
// a gap for as long as Idle. After an outage of the database all servers so have the time to say what is alive.
func (s *Service) Sweep(ctx context.Context, opts SweepOptions) (report SweepReport, err error) {
	opts = opts.withDefaults()
	defer func() {
		if report.Failed+report.Discarded+report.Errors > 0 {
			s.log().InfoContext(ctx, "swept", "failed", report.Failed, "discarded", report.Discarded, "errors", report.Errors, "more", report.More)
		}
	}()
	if s.inFlight.steady(opts.Idle, opts.gap()) {
		report.Failed, err = s.Pointers.FailIdleUploads(ctx, opts.Idle, max(opts.Idle, leastDirectIdle), opts.Limit)
		if err != nil {
			return report, fmt.Errorf("failing idle uploads: %w", err)
		}
	}
	// A sweep goes on where the last one of this process ended, so that what can't be removed doesn't stand before the rest.
	s.sweeping.Lock()
	defer s.sweeping.Unlock()
	for report.Discarded+report.Errors < opts.Limit {
		limit := min(sweepBatch, opts.Limit-report.Discarded-report.Errors)
		due, err := s.Pointers.DueUploads(ctx, opts.Grace, max(opts.Grace, leastDirectGrace), s.sweptTo, limit)
		if err != nil {
			return report, fmt.Errorf("looking for what is due: %w", err)
		}
		stopped, err := s.discard(ctx, due, opts.Pause, &report)
		switch {
		case err != nil || stopped:
			return report, err
		case len(due) < limit:
			s.sweptTo = nil
			return report, nil
		}
	}
	report.More = true
	return report, nil
}

// discard removes what some uploads left. It stops when the blob store seems to be away.
func (s *Service) discard(ctx context.Context, due []DueUpload, pause time.Duration, report *SweepReport) (stopped bool, err error) {
	gone := make([]DueUpload, 0, len(due))
	inRow := 0
	for _, upload := range due {
		if err = s.Blobs.Discard(ctx, upload.Object()); ctx.Err() != nil {
			break
		}
		s.sweptTo = &upload
		if err == nil {
			gone = append(gone, upload)
			inRow = 0
		} else {
			s.log().WarnContext(ctx, "sweep_failed", "object", upload.Object(), "state", upload.State, "error", err)
			report.Errors++
			if inRow++; inRow == sweepGivesUp {
				stopped = true
				break
			}
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
	if len(gone) == 0 {
		return stopped, ctx.Err()
	}
	// A crash before this leaves them due, and discarding what is gone is harmless. So does a server that is being stopped: it is worth a moment.
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), failTimeout)
	defer cancel()
	if _, err := s.Pointers.Swept(late, gone); err != nil {
		return stopped, fmt.Errorf("noting what was swept: %w", err)
	}
	report.Discarded += len(gone)
	return stopped, ctx.Err()
}
