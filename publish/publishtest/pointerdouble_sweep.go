package publishtest

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// sweepRow is what an upload's row has for the sweep.
type sweepRow struct {
	lastSign time.Time
	state    uploadState // at lastSign
	sweeps   int
	found    bool // DueUploads has returned it
}

// noteEnds gives uploads a sign of the time at which they have begun or ended.
func (k *keyRow) noteEnds(now time.Time) {
	for _, g := range k.generations {
		for _, row := range g.uploads {
			if row.sweep.state != row.state {
				row.sweep.lastSign, row.sweep.state = now, row.state
			}
		}
	}
}

// sweepable reports whether an upload may be swept (again).
func (u *uploadRow) sweepable() bool {
	times := 1
	if u.direct != nil {
		times = 2
	}
	return (u.state == uploadFailed || u.state == uploadDropped) && u.sweep.sweeps < times
}

// idle reports whether there was no sign of an upload for longer than one of two durations.
func (u *uploadRow) idle(now time.Time, plain, direct time.Duration) bool {
	if u.direct != nil {
		plain = max(plain, direct)
	}
	return now.Sub(u.sweep.lastSign) > plain
}

// each calls do for all uploads.
func (p *Pointers) each(do func(*keyRow, *generation, *uploadRow)) {
	for _, k := range p.keys {
		for _, g := range k.generations {
			for _, row := range g.uploads {
				do(k, g, row)
			}
		}
	}
}

// KeepUploads says that uploads are alive; see publish.SweepStore.
func (p *Pointers) KeepUploads(ctx context.Context, uploads []publish.Upload) error {
	_, err := transact(ctx, p, "KeepUploads", "", func(now time.Time) (struct{}, error) {
		p.each(func(_ *keyRow, _ *generation, row *uploadRow) {
			kept := slices.ContainsFunc(uploads, func(u publish.Upload) bool { return u.Number == row.Number })
			if kept && row.state != uploadComplete {
				row.sweep.lastSign, row.sweep.sweeps = now, 0
			}
		})
		return struct{}{}, nil
	})
	return err
}

// FailIdleUploads marks pending uploads as failed; see publish.SweepStore.
func (p *Pointers) FailIdleUploads(ctx context.Context, idle, directIdle time.Duration, limit int) (int, error) {
	return transact(ctx, p, "FailIdleUploads", "", func(now time.Time) (int, error) {
		failed := 0
		p.each(func(k *keyRow, _ *generation, row *uploadRow) {
			if row.state == uploadPending && row.idle(now, idle, directIdle) && failed < limit {
				row.state, row.why = uploadFailed, "its server or client was gone"
				failed++
				k.noteEnds(now)
			}
		})
		return failed, nil
	})
}

// DueUploads returns uploads that may be swept; see publish.SweepStore.
func (p *Pointers) DueUploads(ctx context.Context, grace, directGrace time.Duration, after *publish.DueUpload, limit int) ([]publish.DueUpload, error) {
	return transact(ctx, p, "DueUploads", "", func(now time.Time) ([]publish.DueUpload, error) {
		var due []publish.DueUpload
		order := func(a, b publish.DueUpload) int {
			return cmp.Or(a.LastSign.Compare(b.LastSign), cmp.Compare(a.Number, b.Number))
		}
		p.each(func(k *keyRow, g *generation, row *uploadRow) {
			u := publish.DueUpload{
				Key: k.key, Token: g.token, Path: row.Path, ID: row.ID, Number: row.Number,
				State: publish.UploadState(row.state), LastSign: row.sweep.lastSign,
			}
			if row.sweepable() && row.idle(now, grace, directGrace) && (after == nil || order(u, *after) > 0) {
				row.sweep.found = true
				due = append(due, u)
			}
		})
		slices.SortFunc(due, order)
		due, _ = page(due, limit)
		return due, nil
	})
}

// Swept notes that what uploads left was removed; see publish.SweepStore. It panics when a file has been swept.
func (p *Pointers) Swept(ctx context.Context, uploads []publish.DueUpload) (int, error) {
	return transact(ctx, p, "Swept", "", func(now time.Time) (int, error) {
		swept := 0
		p.each(func(k *keyRow, _ *generation, row *uploadRow) {
			for _, u := range uploads {
				if u.Number != row.Number {
					continue
				}
				if row.state == uploadComplete {
					panic("publishtest: the stored file " + string(row.Object()) + " of " + string(k.key) + " was swept")
				}
				if row.sweepable() && row.sweep.lastSign.Equal(u.LastSign) {
					row.sweep.lastSign = now
					row.sweep.sweeps++
					swept++
				}
			}
		})
		return swept, nil
	})
}

// Counts reports whether an object is that of a stored upload, which must not be discarded.
func (p *Pointers) Counts(name publish.ObjectName) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	counts := false
	p.each(func(_ *keyRow, _ *generation, row *uploadRow) {
		counts = counts || row.state == uploadComplete && row.Object() == name
	})
	return counts
}

// Age lets time pass for the uploads of a key, but for nothing else of it.
func (p *Pointers) Age(key publish.Key, by time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, g := range p.keys[key].generations {
		for _, row := range g.uploads {
			row.sweep.lastSign = row.sweep.lastSign.Add(-by)
		}
	}
}
