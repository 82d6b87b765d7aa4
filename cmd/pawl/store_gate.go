package main

import (
	"context"
	"errors"
	"io"
	"iter"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/blobstore"
	"github.com/pawlhq/pawl/publish"
)

// storeGate stands before a blob store until that was found to be the database's own. Until then nothing is put into it and,
// above all, nothing taken out. Reading is allowed: no name of an object fits another database's.
type storeGate struct {
	blobstore.Store
	open  atomic.Bool
	tried atomic.Bool           // what the store can do was tried out once, however that went
	why   atomic.Pointer[error] // what keeps it closed
}

func newStoreGate(store blobstore.Store) *storeGate {
	g := &storeGate{Store: store}
	g.keepClosed(errors.New("it wasn't compared with the database yet"))
	return g
}

func (g *storeGate) keepClosed(why error) {
	g.why.Store(&why)
}

// check returns an error of kind unavailable while the gate is closed. It may be the database that didn't answer.
func (g *storeGate) check() error {
	if g.open.Load() {
		return nil
	}
	why := *g.why.Load()
	if errors.Is(why, publish.ErrUnavailable) {
		return why
	}
	return publish.Unavailable("the blob store", why)
}

// Put is the store's.
func (g *storeGate) Put(ctx context.Context, name publish.ObjectName, body io.Reader, size int64, contentType string) error {
	if err := g.check(); err != nil {
		return err
	}
	return g.Store.Put(ctx, name, body, size, contentType)
}

// Delete is the store's.
func (g *storeGate) Delete(ctx context.Context, name publish.ObjectName) error {
	if err := g.check(); err != nil {
		return err
	}
	return g.Store.Delete(ctx, name)
}

// Discard is the store's.
func (g *storeGate) Discard(ctx context.Context, name publish.ObjectName) error {
	if err := g.check(); err != nil {
		return err
	}
	return g.Store.Discard(ctx, name)
}

// List is the store's: who lists wants to know what can be removed.
func (g *storeGate) List(ctx context.Context, prefix string) iter.Seq2[publish.ObjectInfo, error] {
	if err := g.check(); err != nil {
		return func(yield func(publish.ObjectInfo, error) bool) { yield(publish.ObjectInfo{}, err) }
	}
	return g.Store.List(ctx, prefix)
}

// Unfinished is the store's, for the same reason.
func (g *storeGate) Unfinished(ctx context.Context, prefix string) iter.Seq2[publish.ObjectName, error] {
	if err := g.check(); err != nil {
		return func(yield func(publish.ObjectName, error) bool) { yield("", err) }
	}
	return g.Store.Unfinished(ctx, prefix)
}

// Check makes a replica unready as long as the gate is closed, and until it has tried the store out: other replicas may offer
// direct uploads already.
func (g *storeGate) Check(ctx context.Context) error {
	if err := g.check(); err != nil {
		return err
	}
	if !g.tried.Load() {
		return publish.Unavailable("the blob store", errors.New("it is being tried out"))
	}
	return g.Store.Check(ctx)
}

// direct is the gate's side for direct uploads; nil where the store takes none.
func (g *storeGate) direct() publish.DirectStore {
	store, ok := g.Store.(publish.DirectStore)
	if !ok {
		return nil
	}
	return &directGate{DirectStore: store, gate: g}
}

type directGate struct {
	publish.DirectStore
	gate *storeGate
}

// PlanDirect offers nothing while the gate is closed: then clients send through this server, which says why not.
func (d *directGate) PlanDirect(size int64) (publish.DirectPlan, bool) {
	if d.gate.check() != nil {
		return publish.DirectPlan{}, false
	}
	return d.DirectStore.PlanDirect(size)
}

// StartParts is the store's.
func (d *directGate) StartParts(ctx context.Context, name publish.ObjectName, contentType string) (publish.PartsID, error) {
	if err := d.gate.check(); err != nil {
		return "", err
	}
	return d.DirectStore.StartParts(ctx, name, contentType)
}

// FinishParts is the store's.
func (d *directGate) FinishParts(ctx context.Context, name publish.ObjectName, id publish.PartsID, parts []publish.Part) error {
	if err := d.gate.check(); err != nil {
		return err
	}
	return d.DirectStore.FinishParts(ctx, name, id, parts)
}

// reads sends readers to the store, at its origin, as soon as that was seen to take signed requests; nil where it can't.
func (g *storeGate) reads() (signer publish.ReadSigner, origin string) {
	store, ok := g.Store.(*blobstore.S3)
	if !ok {
		return nil, ""
	}
	return &readGate{store}, store.ReadOrigin()
}

type readGate struct{ store *blobstore.S3 }

// SignGet is the store's.
func (r *readGate) SignGet(ctx context.Context, name publish.ObjectName, answer publish.AnswerHeaders, validFor time.Duration) (publish.SignedRequest, error) {
	if !r.store.Capable().Presign {
		return publish.SignedRequest{}, errors.ErrUnsupported
	}
	return r.store.SignGet(ctx, name, answer, validFor)
}
