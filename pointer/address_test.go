package pointer_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/pointer"
	"github.com/pawlhq/pawl/publish"
)

// An address that changes counts for every connection from then on, that which listens included; one that can't be read is no way to Postgres.
func TestAddressIsReadAgain(t *testing.T) {
	t.Parallel()
	ctx, dsn := context.Background(), testenv.Postgres(t)
	role, roleDSN := testenv.Role(t, dsn)
	exec1(t, dsn, `GRANT USAGE ON SCHEMA pawl TO `+role)
	exec1(t, dsn, `GRANT SELECT ON pawl.epochs TO `+role)
	type answer struct {
		dsn string
		err error
	}
	var now atomic.Pointer[answer]
	now.Store(&answer{dsn: dsn})
	store, err := pointer.Open(ctx, dsn, pointer.Options{MaxConns: 4, Address: func() (string, error) { return now.Load().dsn, now.Load().err }})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := store.Check(ctx); err != nil {
		t.Fatal(err)
	}
	now.Store(&answer{dsn: roleDSN})
	listening, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	woken := make(chan struct{}, 1)
	go func() {
		ended <- store.ListenEvents(listening, func() {
			select {
			case woken <- struct{}{}:
			default:
			}
		})
	}()
	select {
	case <-woken:
	case err := <-ended:
		t.Fatal(err)
	}
	if n := sessions(t, dsn, role); n != 1 {
		t.Errorf("the role has %d sessions while its connection listens", n)
	}
	stop()
	if err := <-ended; err == nil {
		t.Error("listening ended without a word")
	}
	// The connection of before is cut, so that the pool makes a new one.
	exec1(t, dsn, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`)
	testenv.Eventually(t, flushTimeout, func() error { return store.Check(ctx) })
	if n := sessions(t, dsn, role); n == 0 {
		t.Error("the pool connects as before")
	}

	now.Store(&answer{err: errors.New("no such file")})
	other, err := pointer.Open(ctx, dsn, pointer.Options{Address: func() (string, error) { return now.Load().dsn, now.Load().err }})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for _, err := range []error{other.Check(ctx), other.ListenEvents(ctx, func() {})} {
		var refused *publish.Error
		if !errors.As(err, &refused) || refused.Code != publish.ErrUnavailable {
			t.Errorf("without an address: %v", err)
		}
	}
}

// sessions counts those of a role.
func sessions(t *testing.T, dsn, role string) (n int) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx) //nolint:errcheck // It has only read.
	if err := conn.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE usename = $1`, role).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
