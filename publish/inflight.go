package publish

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// inFlight are the uploads that this process has a part in, so that it can tell the store that they are alive. It also knows for how long
// it has been telling without a gap. The zero value is ready.
type inFlight struct {
	mu      sync.Mutex
	running map[UploadID]Upload
	once    map[UploadID]Upload // a sign of life that is told once
	since   time.Time           // of the first time in a row that telling went well
	last    time.Time           // of the last one
}

// enter counts an upload in until leave is called. One that doesn't end as a stored file is told once more: what it has left in the
// blob store is younger than the last sign.
func (f *inFlight) enter(upload Upload) (leave func(stored bool)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.running == nil {
		f.running = map[UploadID]Upload{}
	}
	f.running[upload.ID] = upload
	return func(stored bool) {
		f.mu.Lock()
		delete(f.running, upload.ID)
		f.mu.Unlock()
		if !stored {
			f.sign(upload)
		}
	}
}

// sign notes one sign of life.
func (f *inFlight) sign(upload Upload) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.once == nil {
		f.once = map[UploadID]Upload{}
	}
	f.once[upload.ID] = upload
}

// take returns all that is to be told now, and forgets what is told once.
func (f *inFlight) take() []Upload {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := f.once
	f.once = nil
	if all == nil {
		all = make(map[UploadID]Upload, len(f.running))
	}
	maps.Copy(all, f.running)
	return slices.Collect(maps.Values(all))
}

// told notes that telling went well.
func (f *inFlight) told(gap time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if f.last.IsZero() || now.Sub(f.last) > gap {
		f.since = now
	}
	f.last = now
}

// steady reports whether telling has gone well for at least idle, with no gap in it longer than the given one.
func (f *inFlight) steady(idle, gap time.Duration) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.last.IsZero() && time.Since(f.last) <= gap && time.Since(f.since) >= idle
}

// keptAtOnce is how many uploads one call to the store tells of.
const keptAtOnce = 500

// KeepUploads tells the store which uploads this process has a part in, so that no sweep takes them for dead. Every process that
// takes uploads calls it every opts.KeepEvery, from its start to its end; opts must be those of every Sweep on the same store.
func (s *Service) KeepUploads(ctx context.Context, opts SweepOptions) error {
	uploads := s.inFlight.take()
	for batch := range slices.Chunk(uploads, keptAtOnce) {
		if err := s.Pointers.KeepUploads(ctx, batch); err != nil {
			for _, upload := range uploads {
				s.inFlight.sign(upload) // Told late is better than never.
			}
			return err
		}
	}
	if len(uploads) == 0 {
		// Only to learn that the store can be reached: other processes may have something to tell.
		if err := s.Pointers.KeepUploads(ctx, nil); err != nil {
			return err
		}
	}
	s.inFlight.told(opts.withDefaults().gap())
	return nil
}
