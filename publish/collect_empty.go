package publish

import (
	"context"
	"encoding/hex"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// found is an object, or what is left of one that was never finished.
type found struct {
	ObjectInfo
	unfinished bool
}

// empty deletes the objects of a condemned generation that no kept one references, and what unfinished uploads have left. The store is
// asked what there is, so that nothing is left of which no row tells. Unfinished uploads go first, so that none of them can become an object
// behind its back.
//
// It reports whether all of that went well. The error is about the pointer store or the context; what the blob store fails at is counted.
func (c *collection) empty(ctx context.Context, name GenerationName) (whole bool, err error) {
	e := &emptying{collection: c, name: name}
	for object, err := range c.Blobs.Unfinished(ctx, name.objects()) {
		if err := e.add(ctx, found{ObjectInfo{Name: object}, true}, err); err != nil {
			return false, err
		}
	}
	if err := e.flush(ctx); err != nil {
		return false, err
	}
	for info, err := range c.Blobs.List(ctx, name.objects()) {
		if err := e.add(ctx, found{info, false}, err); err != nil {
			return false, err
		}
	}
	err = e.flush(ctx)
	return !e.failed.Load(), err
}

// emptying is the deletion of one generation's objects.
type emptying struct {
	*collection
	name   GenerationName
	page   []found
	failed atomic.Bool
}

// fail counts what the blob store failed at, unless it is because the context has ended: that is returned.
func (e *emptying) fail(ctx context.Context, object ObjectName, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	e.failed.Store(true)
	e.collection.failed(ctx, e.name, object, err)
	return nil
}

// add takes what a list has yielded.
func (e *emptying) add(ctx context.Context, f found, err error) error {
	if err != nil {
		return e.fail(ctx, "", err)
	}
	e.page = append(e.page, f)
	if len(e.page) < collectPage {
		return nil
	}
	return e.flush(ctx)
}

// flush deletes those of the page that aren't referenced. That answer may be old when it is acted on: what isn't referenced never is again.
func (e *emptying) flush(ctx context.Context) error {
	gone, err := e.unreferenced(ctx, e.name, e.page)
	e.page = e.page[:0]
	if err != nil {
		return err
	}
	return inParallel(gone, func(f found) error {
		if err := e.pace.wait(ctx); err != nil {
			return err
		}
		var err error
		switch {
		case e.opts.DryRun:
		case f.unfinished:
			err = e.Blobs.Discard(ctx, f.Name)
		default:
			err = e.Blobs.Delete(ctx, f.Name)
		}
		if errors.Is(err, ErrObjectNotFound) {
			return nil // Another one has deleted it.
		}
		if err != nil {
			return e.fail(ctx, f.Name, err)
		}
		e.count(func(r *CollectReport) {
			if f.unfinished {
				r.Aborted++
				return
			}
			r.Objects++
			r.Bytes += f.Size
		})
		return nil
	})
}

// unreferenced leaves out what kept generations reference. What isn't named as an upload is, such as a marker, is referenced by none.
func (c *collection) unreferenced(ctx context.Context, name GenerationName, objects []found) ([]found, error) {
	var gone, uploads []found
	var asked []StoredUpload
	for _, f := range objects {
		if upload, ok := parseStored(name, f.Name); ok {
			uploads, asked = append(uploads, f), append(asked, upload)
		} else {
			gone = append(gone, f)
		}
	}
	if len(asked) == 0 {
		return gone, nil
	}
	referenced, err := c.Pointers.Referenced(ctx, name, asked)
	if err != nil {
		return nil, err
	}
	for i, f := range uploads {
		if !referenced[i] {
			gone = append(gone, f)
		}
	}
	return gone, nil
}

// parseStored takes the name of an upload's object apart.
func parseStored(name GenerationName, object ObjectName) (upload StoredUpload, ok bool) {
	const digits = 2 * len(upload.ID)
	rest := string(object[len(name.objects()):])
	if len(rest) < digits+2 || rest[digits] != '/' {
		return upload, false
	}
	if _, err := hex.Decode(upload.ID[:], []byte(rest[:digits])); err != nil {
		return upload, false
	}
	upload.Path = Path(rest[digits+1:])
	return upload, true
}

// inParallel calls do for all items, collectParallel at a time, until one of them fails. It returns after the last call has.
func inParallel[T any](items []T, do func(T) error) error {
	var (
		group sync.WaitGroup
		mu    sync.Mutex
		next  int
		first error
	)
	take := func() (item T, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		if first != nil || next == len(items) {
			return item, false
		}
		next++
		return items[next-1], true
	}
	for range min(collectParallel, len(items)) {
		group.Go(func() {
			for item, ok := take(); ok; item, ok = take() {
				if err := do(item); err != nil {
					mu.Lock()
					first = errors.Join(first, err)
					mu.Unlock()
				}
			}
		})
	}
	group.Wait()
	return first
}

// pace lets so many pass in a second, evenly.
type pace struct {
	every time.Duration // 0 lets all pass

	mu   sync.Mutex
	next time.Time
}

func newPace(rate int) *pace {
	if rate <= 0 {
		return &pace{}
	}
	return &pace{every: time.Second / time.Duration(rate)}
}

// wait returns when the caller may go on, or with the context's error.
func (p *pace) wait(ctx context.Context) error {
	if p.every == 0 {
		return ctx.Err()
	}
	p.mu.Lock()
	now := time.Now()
	if p.next.Before(now) {
		p.next = now
	}
	pause := p.next.Sub(now)
	p.next = p.next.Add(p.every)
	p.mu.Unlock()
	select {
	case <-time.After(pause):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
