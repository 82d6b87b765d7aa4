package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/pawlhq/pawl/blobstore"
	"github.com/pawlhq/pawl/publish"
)

const (
	// matchTimeout bounds one comparison of store and database, and how long a start waits for a store.
	matchTimeout = 10 * time.Second
	// saidEvery is how often a store that is still down is logged again.
	saidEvery = time.Minute
	// retryPause is the first pause before a store that was down is asked again. It doubles up to retryAtMost, and, once the store
	// is in use and only the check is incomplete, up to recheckAtMost.
	retryPause    = time.Second
	retryAtMost   = 15 * time.Second
	recheckAtMost = 10 * time.Minute
)

// storeStart makes a blob store ready for use: it compares it with the database, opens its gate, and tries out what it can do.
type storeStart struct {
	gate *storeGate
	ids  publish.IdentityStore
	// own says that the store is a folder that belongs to this program alone.
	own     bool
	origins []string
	log     *slog.Logger
	said    time.Time // when a failure was logged last
	matched bool
}

// open compares the store with the database, unless that was done, and opens the gate. An error says that this store must not be used;
// one that doesn't answer leaves the gate closed.
func (s *storeStart) open(ctx context.Context) error {
	if s.matched {
		return nil
	}
	err := s.match(ctx)
	var other *publish.OtherStoreError
	switch {
	case errors.As(err, &other):
		return configError{otherStore(other)}
	case err == nil:
		s.matched = true
		s.gate.open.Store(true)
		return nil
	}
	s.gate.keepClosed(err)
	if time.Since(s.said) > saidEvery && ctx.Err() == nil {
		s.said = time.Now()
		s.log.WarnContext(ctx, "store_not_ready", "error", err)
		s.diagnose(ctx) // It names the setting, if it is one.
	}
	return nil
}

func (s *storeStart) match(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, matchTimeout)
	defer cancel()
	id, err := publish.MatchStore(ctx, s.ids, s.gate)
	var other *publish.OtherStoreError
	if s.own && errors.As(err, &other) && other.Found != "" && !other.Recorded.Confirmed {
		// The private database is new, as when it was lost, and nobody else uses its folder.
		if id, err = publish.AdoptStore(ctx, s.ids, s.gate); err == nil {
			s.log.WarnContext(ctx, "store_adopted", "store_id", id)
		}
	}
	if err == nil {
		s.log.InfoContext(ctx, "store_matched", "store_id", id)
	}
	return err
}

// diagnose tries the store out, logs what was found and tells the store what it can do.
func (s *storeStart) diagnose(ctx context.Context) blobstore.Report {
	report := s.gate.Diagnose(ctx, blobstore.DiagnoseOptions{Origins: s.origins})
	if ctx.Err() != nil {
		return report // What was found says nothing about the store.
	}
	var failed, warned []string
	for _, f := range report.Findings {
		level := slog.LevelDebug
		switch f.Level {
		case blobstore.LevelFail:
			failed, level = append(failed, f.Name), slog.LevelError
		case blobstore.LevelWarn:
			warned = append(warned, f.Name)
		}
		s.log.Log(ctx, level, "store_check", "check", f.Name, "level", string(f.Level), "seen", f.Seen, "cure", f.Cure)
	}
	if s3, ok := s.gate.Store.(*blobstore.S3); ok {
		s3.SetCapable(report.Capable)
	}
	s.log.InfoContext(ctx, "store_checked", "checks", len(report.Findings), "failed", failed, "warned", warned, "capable", fmt.Sprintf("%+v", report.Capable))
	return report
}

// run tries out what the store can do, as soon as it answers. It ends when that is known, or when the store is found to be another's.
func (s *storeStart) run(ctx context.Context) error {
	for wait := retryPause; ; wait *= 2 {
		if s.matched {
			report := s.diagnose(ctx)
			s.gate.tried.Store(true)
			if !report.Down {
				return nil
			}
		}
		if !pause(ctx, wait) {
			return nil
		}
		if err := s.open(ctx); err != nil {
			return err
		}
		if s.matched {
			wait = min(wait, recheckAtMost/2)
		} else {
			wait = min(wait, retryAtMost/2)
		}
	}
}

// otherStore says what can be done about a store that isn't the database's own.
func otherStore(err *publish.OtherStoreError) error {
	switch {
	case err.Found != "" && !err.Recorded.Confirmed:
		return fmt.Errorf("%w: give this database an empty bucket, prefix or folder in PAWL_BLOBS, or correct PAWL_DATABASE_URL. "+
			"If no other database uses that store any more, run: pawl doctor --adopt-bucket", err)
	case err.Found == "":
		return fmt.Errorf("%w: correct PAWL_BLOBS. If all objects were moved there, copy %s along; if the old store is lost, run: pawl doctor --adopt-bucket", err, blobstore.MarkName)
	}
	return fmt.Errorf("%w: correct PAWL_BLOBS or PAWL_DATABASE_URL. If all objects were moved there on purpose, run: pawl doctor --adopt-bucket", err)
}

// startStore opens the store's gate, now if it answers, and else in the background: then refused tells when it turns out to be another's. What
// it can do is tried out in the background, too, so that a slow store doesn't keep the server from answering.
func (srv *server) startStore(ctx context.Context, start *storeStart) error {
	// The first look is bounded in all: a store that swallows requests is looked into in the background.
	first, cancel := context.WithTimeout(ctx, matchTimeout)
	defer cancel()
	if err := start.open(first); err != nil {
		return err
	}
	background, end := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := start.run(background); err != nil {
			srv.refused <- err
		}
	}()
	srv.close = append(srv.close, func() error {
		end()
		<-ended
		return nil
	})
	return nil
}
