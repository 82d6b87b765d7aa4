// Package pointer keeps leases, generations, pointers, receipts and rejections in Postgres: it is the adapter that
// implements publish.PointerStore with pgx.
//
// The rules of the fence stand in the functions of package migrations, one transaction and one round trip
// each; the methods here call them and translate what they answer.
package pointer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/publish"
)

// Store is a publish.PointerStore on one Postgres database. Its methods may be called from many goroutines, and
// any number of Stores, in any number of processes, may share the database.
type Store struct {
	pool    *pgxpool.Pool
	timeout time.Duration
	// lockTimeout, in milliseconds, and lockSQL, which sets it, bound how long a call waits for a lock, below timeout: a server that is still waiting for one doesn't notice that its
	// client has left, and would carry the call out when nobody expects it any more.
	lockTimeout, lockSQL string

	limits publish.GenerationLimits

	synchronous synchronousGuard
}

var _ publish.PointerStore = (*Store)(nil)

// DefaultTimeout bounds one call to Postgres.
const DefaultTimeout = 15 * time.Second

// Options are settings of a Store beyond those in its address.
type Options struct {
	// Timeout bounds one call; 0 means DefaultTimeout.
	Timeout time.Duration
	// MaxConns bounds the pool; 0 leaves it to pool_max_conns in the address, or pgx's default.
	MaxConns int32
	// Address is asked before each new connection, if it is set: what it returns is an address as Open takes it, of which the user and the password are
	// used, so that these may change while the Store is open. When it fails, the connection does. Calls may be concurrent.
	Address func() (dsn string, err error)
	// Limits bound every generation whose uploads and publishes come by this Store.
	Limits publish.GenerationLimits
	// RequireSynchronous refuses grants, as unavailable, while the database may lose commits that it has answered; see Diagnosis.MayLoseCommits.
	RequireSynchronous bool
}

// Open makes a Store for the database at dsn, a URL or key=value string as libpq takes it. It doesn't wait for
// the database to answer; Check tells whether it does. The schema must be there: see package migrations.
func Open(ctx context.Context, dsn string, opts Options) (*Store, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("reading the database's address: %w", err)
	}
	if opts.MaxConns > 0 {
		config.MaxConns = opts.MaxConns
	}
	if _, set := config.ConnConfig.RuntimeParams["application_name"]; !set {
		config.ConnConfig.RuntimeParams["application_name"] = "pawl"
	}
	if opts.Address != nil {
		config.BeforeConnect = func(_ context.Context, conn *pgx.ConnConfig) error { return readdress(conn, opts.Address) }
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("opening the pool of connections: %w", err)
	}
	if opts.Timeout == 0 {
		opts.Timeout = DefaultTimeout
	}
	lockTimeout := strconv.FormatInt((opts.Timeout * 2 / 3).Milliseconds(), 10)
	return &Store{
		pool: pool, timeout: opts.Timeout, lockTimeout: lockTimeout, lockSQL: "SET LOCAL lock_timeout = " + lockTimeout,
		limits: opts.Limits, synchronous: synchronousGuard{required: opts.RequireSynchronous},
	}, nil
}

// readdress gives a connection that is about to be made the user and password of now.
func readdress(conn *pgx.ConnConfig, address func() (string, error)) error {
	dsn, err := address()
	if err != nil {
		return fmt.Errorf("reading the database's address again: %w", err)
	}
	// With the settings of a pool in it, which pgx alone doesn't know.
	now, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return fmt.Errorf("reading the database's address again: %w", err)
	}
	conn.User, conn.Password = now.ConnConfig.User, now.ConnConfig.Password
	return nil
}

// Close waits for running calls and closes all connections.
func (s *Store) Close() { s.pool.Close() }

// checkSQL fails on a standby and on a database without the schema.
const checkSQL = `SELECT pg_is_in_recovery(), (SELECT count(*) FROM pawl.epochs)`

// Check tells whether the database answers, is no standby, and has the schema.
func (s *Store) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var standby bool
	var epochs int64
	if err := s.pool.QueryRow(ctx, checkSQL).Scan(&standby, &epochs); err != nil {
		return translate(err, false)
	}
	if standby {
		return publish.Unavailable("Postgres (this one is a standby)", nil)
	}
	return s.checkSynchronous(ctx)
}

// The transaction around every changing function. READ COMMITTED is set here, whatever the database's default:
// the functions lock in one statement and decide in later ones, which must see what was committed meanwhile.
const (
	beginSQL  = `BEGIN ISOLATION LEVEL READ COMMITTED`
	commitSQL = `COMMIT`
)

// outcome is what the functions answer: a result under its name, or a refusal with its facts.
type outcome struct {
	Refused *refusal              `json:"refused"`
	Lease   *publish.Lease        `json:"lease"`
	Receipt *publish.Receipt      `json:"receipt"`
	Upload  *publish.UploadResult `json:"upload"`
	Effect  *publish.Effect       `json:"effect"`
	Witness *publish.Witness      `json:"witness"`

	Credential *publish.Credential `json:"credential"`

	Retired *publish.Retirement  `json:"retired"`
	Pin     *publish.PinnedKey   `json:"pin"`
	Broken  *publish.BrokenLease `json:"broken"`

	Numbered publish.NumberedEvents `json:"numbered"`

	MaxFileBytes int64          `json:"max_file_bytes"`
	UploadNo     int64          `json:"upload_no"`
	Existing     *publish.File  `json:"existing"`
	Sealed       bool           `json:"sealed"`
	Direct       *directRow     `json:"direct"`
	Resumed      bool           `json:"resumed"`
	SupersededBy *publish.Token `json:"superseded_by"`
	Uploads      int            `json:"uploads"`
	Trimmed      int            `json:"trimmed"`
	Done         bool           `json:"done"`
}

type refusal struct {
	publish.Error
	Worker string `json:"worker"`
}

// change calls one function in a transaction of its own, as one round trip: begin, call and commit travel together.
func (s *Store) change(ctx context.Context, sql string, args ...any) (outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return outcome{}, publish.Unavailable("Postgres", err)
	}
	defer conn.Release()

	var batch pgx.Batch
	batch.Queue(beginSQL)
	s.queueSettings(ctx, &batch)
	batch.Queue(sql, args...)
	batch.Queue(commitSQL)
	results := conn.SendBatch(ctx, &batch)
	answer, err := readChange(results)
	_ = results.Close() //nolint:errcheck // The commit was answered, or err tells; a connection that broke since leaves the pool.
	if status := conn.Conn().PgConn().TxStatus(); err != nil && status != 'I' && !conn.Conn().IsClosed() {
		// The function failed: the transaction is over, but for the word.
		_, _ = conn.Exec(ctx, `ROLLBACK`) //nolint:errcheck // A connection that isn't idle is not given back to the pool.
	}
	if err != nil {
		return outcome{}, err
	}
	if answer.Refused != nil {
		answer.Refused.Error.Worker = answer.Refused.Worker
		return outcome{}, &answer.Refused.Error
	}
	return answer, nil
}

// readChange reads the answers. A statement that failed was not committed; once the function's answer is there, an error leaves
// the commit unknown.
func readChange(results pgx.BatchResults) (outcome, error) {
	for range 2 { // beginSQL and lockSQL
		if _, err := results.Exec(); err != nil {
			return outcome{}, translate(err, true)
		}
	}
	var text []byte
	if err := results.QueryRow().Scan(&text); err != nil {
		return outcome{}, translate(err, true)
	}
	if tag, err := results.Exec(); err != nil {
		return outcome{}, outcomeUnknown(err)
	} else if tag.String() != commitSQL {
		return outcome{}, publish.Unavailable("Postgres", fmt.Errorf("the commit was answered with %s", tag))
	}
	var answer outcome
	if err := json.Unmarshal(text, &answer); err != nil {
		return outcome{}, fmt.Errorf("reading the database's answer: %w", err)
	}
	return answer, nil
}

// read runs one statement that yields one JSON document, or null for "not found".
func (s *Store) read(ctx context.Context, into any, sql string, args ...any) (found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var text []byte
	err = s.pool.QueryRow(ctx, sql, args...).Scan(&text)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && text == nil {
		return false, nil
	}
	if err != nil {
		return false, translate(err, false)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return false, fmt.Errorf("reading the database's answer: %w", err)
	}
	return true, nil
}
