package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/pointer"
	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

const (
	// witnessEvery is the time between two witnesses: what is lost of less may go unseen.
	witnessEvery = time.Minute
	// witnessRetry is the pause before the first look is tried again. Nothing is granted meanwhile.
	witnessRetry = time.Second
)

// historyKeeper holds the database against the witnesses in the blob store, at the start and every minute, and tells of the epoch in force.
type historyKeeper struct {
	publish.PointerStore // of the service: grants wait for the first look
	store                *pointer.Store
	blobs                publish.BlobStore
	metrics              *web.Metrics
	handler              *web.Handler
	log                  *slog.Logger
	looked               atomic.Bool
	told                 publish.Epoch // what was told last
	cancel               context.CancelFunc
	running              sync.WaitGroup
}

// notLooked is the answer until the first look: by then an earlier state of the database may have been put back.
func notLooked() error {
	return publish.Unavailable("the witness of the database's history (in the blob store)", nil)
}

// Acquire is the store's.
func (k *historyKeeper) Acquire(ctx context.Context, req publish.AcquireRequest) (publish.Lease, error) {
	if !k.looked.Load() {
		return publish.Lease{}, notLooked()
	}
	return k.PointerStore.Acquire(ctx, req)
}

// Rollback is the store's. It grants a token, too.
func (k *historyKeeper) Rollback(ctx context.Context, req publish.RollbackRequest) (publish.Receipt, error) {
	if !k.looked.Load() {
		return publish.Receipt{}, notLooked()
	}
	return k.PointerStore.Rollback(ctx, req)
}

// Retire is the store's. It grants a token, too.
func (k *historyKeeper) Retire(ctx context.Context, req publish.RetireRequest) (publish.Retirement, error) {
	if !k.looked.Load() {
		return publish.Retirement{}, notLooked()
	}
	return k.PointerStore.Retire(ctx, req)
}

// NumberEvents is the store's. A number that an earlier state of the database gives was given before, and readers have passed it.
func (k *historyKeeper) NumberEvents(ctx context.Context, limit int) (publish.NumberedEvents, error) {
	if !k.looked.Load() {
		return publish.NumberedEvents{}, notLooked()
	}
	return k.PointerStore.NumberEvents(ctx, limit)
}

// Check makes a replica unready until the first look.
func (k *historyKeeper) Check(ctx context.Context) error {
	if err := k.PointerStore.Check(ctx); err != nil {
		return err
	}
	if !k.looked.Load() {
		return notLooked()
	}
	return nil
}

// start looks once, and goes on in the background.
func (k *historyKeeper) start(ctx context.Context) {
	first, cancelFirst := context.WithTimeout(ctx, matchTimeout)
	defer cancelFirst()
	failed := k.look(first)
	if failed != nil {
		k.log.WarnContext(ctx, "witness_failed", "error", failed)
	}
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	k.cancel = cancel
	k.running.Go(func() {
		for {
			wait := witnessEvery
			if !k.looked.Load() {
				wait = witnessRetry
			}
			if !pause(background, wait) {
				return
			}
			bounded, cancel := context.WithTimeout(background, witnessEvery)
			err := k.look(bounded)
			cancel()
			if err != nil && failed == nil && background.Err() == nil {
				k.log.WarnContext(background, "witness_failed", "error", err)
			}
			failed = err
		}
	})
}

// stop ends it and waits for it.
func (k *historyKeeper) stop() error {
	k.cancel()
	k.running.Wait()
	return nil
}

func (k *historyKeeper) look(ctx context.Context) error {
	_, err := publish.CheckWitnesses(ctx, k.store, k.blobs)
	if err == nil {
		k.looked.Store(true)
	}
	epoch, errEpoch := k.store.CurrentEpoch(ctx)
	if errEpoch != nil {
		return errors.Join(err, errEpoch)
	}
	k.tell(ctx, epoch)
	return err
}

// tell says which epoch is in force. One that was raised is worth a word at each start, and when it happens.
func (k *historyKeeper) tell(ctx context.Context, epoch publish.Epoch) {
	k.metrics.Epoch(epoch)
	k.handler.SetEpoch(epoch)
	if epoch.Epoch != k.told.Epoch {
		k.log.WarnContext(ctx, "epoch_raised", "epoch", epoch.Epoch, "raised_at", stamp(&epoch.RaisedAt), "reason", epoch.Reason)
	}
	k.told = epoch
}
