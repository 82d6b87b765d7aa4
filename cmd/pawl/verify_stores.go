package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/pflag"

	"github.com/pawlhq/pawl/blobstore"
	"github.com/pawlhq/pawl/pointer"
	"github.com/pawlhq/pawl/publish"
)

// bothStores are the two stores as an operator's verb uses them, without a server.
type bothStores struct {
	pointers *pointer.Store
	blobs    blobstore.Store
	settings serverSettings
}

func (b *bothStores) close() error {
	b.pointers.Close()
	return b.blobs.Close()
}

// storesFlags are the flags of verbs that walk both stores.
type storesFlags struct {
	server serverFlags
	prefix string
}

func (f *storesFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.server.blobs, "blobs", "", "where bytes live: file:///folder or s3://bucket/prefix?endpoint=… (PAWL_BLOBS)")
	flags.StringVar(&f.prefix, "prefix", "", "a key: look at it and the keys below it alone")
}

// prefixKey reads --prefix.
func (a *app) prefixKey(f storesFlags) (publish.Key, error) {
	if f.prefix == "" {
		return "", nil
	}
	key, err := publish.ParseKey(a.nfc("prefix", f.prefix))
	if err != nil {
		return "", usageError{fmt.Errorf("--prefix: %w", err)}
	}
	return key, nil
}

// withStores opens the two stores of a server's settings, makes sure that they are each other's, and does something with them. Without that, all
// objects of another database would look lost.
func (a *app) withStores(ctx context.Context, f storesFlags, do func(context.Context, *bothStores) error) (err error) {
	s, err := a.serverSettings(f.server, slog.LevelWarn)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = s.redacted(err)
		}
	}()
	if s.databaseURL == "" || s.blobs == "" {
		return configError{errors.New("PAWL_DATABASE_URL and PAWL_BLOBS must both be set, to what the servers use")}
	}
	pointers, err := pointer.Open(ctx, s.databaseURL, s.pointerOptions())
	if err != nil {
		return configError{fmt.Errorf("PAWL_DATABASE_URL: %w", err)}
	}
	if err := prepareSchema(ctx, s.databaseURL, false); err != nil {
		pointers.Close()
		return err
	}
	blobs, err := blobstore.Open(ctx, s.blobs, s.store.options())
	if err != nil {
		pointers.Close()
		return configError{err}
	}
	both := &bothStores{pointers: pointers, blobs: blobs, settings: s}
	defer func() { err = errors.Join(err, both.close()) }()
	_, err = publish.CompareStore(ctx, pointers, blobs)
	var other *publish.OtherStoreError
	switch {
	case errors.As(err, &other):
		return configError{otherStore(other)}
	case err != nil:
		return err
	}
	return do(ctx, both)
}
