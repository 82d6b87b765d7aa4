package pointer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Pooling says what stands between this program and Postgres.
type Pooling string

// The kinds of pooling that can be told apart.
const (
	PoolingNone        Pooling = ""            // nothing: a connection is a session of the server
	PoolingSession     Pooling = "session"     // a pooler that keeps a session to its client, as far as could be seen
	PoolingTransaction Pooling = "transaction" // a pooler that gives a session away between two transactions
)

// Diagnosis is what a database was found to be, as far as it matters for the fence.
type Diagnosis struct {
	// Version is server_version_num, such as 150004.
	Version int
	// Standby says that it only replays what another server writes.
	Standby bool
	// ReadOnly says that transactions are read-only unless they ask for more.
	ReadOnly bool
	// Encoding is the database's encoding.
	Encoding string
	// Fsync, FullPageWrites, SynchronousCommit and SynchronousStandbyNames are the settings of these names, as a session of this program has them.
	Fsync, FullPageWrites                      bool
	SynchronousCommit, SynchronousStandbyNames string
	// Standbys counts the servers that stream from this one physically.
	Standbys int
	// Lineage says that the system identifier can be read, on which the detection of a restore rests.
	Lineage bool
	// Audit says that the schema's audit is there, OwnsAudit that the role of the connection has the rights of the audit's owner, so that nothing but a trigger keeps it from changing entries.
	Audit, OwnsAudit bool
	// ClockAhead is how far the database's clock is ahead of this machine's, give or take RoundTrip.
	ClockAhead, RoundTrip time.Duration
	Pooling               Pooling
}

// OldestVersion is the oldest server_version_num that Pawl works with.
const OldestVersion = 140000

// Subscribers of logical replication stream too, but nobody promotes them in place of their publisher.
const diagnoseSQL = `
SELECT current_setting('server_version_num')::int, pg_is_in_recovery(), current_setting('default_transaction_read_only') = 'on',
	current_setting('server_encoding'), current_setting('fsync') = 'on', current_setting('full_page_writes') = 'on',
	current_setting('synchronous_commit'), current_setting('synchronous_standby_names'),
	(SELECT count(*) FROM pg_stat_replication r WHERE r.application_name NOT LIKE 'pg_basebackup%'
		AND NOT EXISTS (SELECT FROM pg_replication_slots s WHERE s.active_pid = r.pid AND s.slot_type = 'logical')),
	coalesce(has_function_privilege(to_regprocedure('pg_catalog.pg_control_system()'), 'EXECUTE'), false),
	a.owner IS NOT NULL, coalesce(pg_has_role(a.owner, 'USAGE'), false), clock_timestamp()
FROM (SELECT (SELECT c.relowner FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'pawl' AND c.relname = 'audit') AS owner) a`

// Diagnose looks at the server and its settings. It changes nothing, and also works on a standby and without the schema.
func (s *Store) Diagnose(ctx context.Context) (d Diagnosis, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return d, translate(err, false)
	}
	defer conn.Release()
	var now time.Time
	began := time.Now()
	// The simple protocol prepares nothing, which an old pooler would lose.
	err = conn.QueryRow(ctx, diagnoseSQL, pgx.QueryExecModeSimpleProtocol).Scan(&d.Version, &d.Standby, &d.ReadOnly, &d.Encoding, &d.Fsync,
		&d.FullPageWrites, &d.SynchronousCommit, &d.SynchronousStandbyNames, &d.Standbys, &d.Lineage, &d.Audit, &d.OwnsAudit, &now)
	if err != nil {
		return d, translate(err, false)
	}
	d.RoundTrip = time.Since(began)
	d.ClockAhead = now.Sub(began.Add(d.RoundTrip / 2))
	d.Pooling, err = s.pooling(ctx, conn)
	return d, translate(err, false)
}

// pooling compares the process that the connection was told of with the one that answers: a pooler makes the first up. One that shares sessions
// between transactions gives that of an idle client to the next one that asks.
func (s *Store) pooling(ctx context.Context, conn *pgxpool.Conn) (Pooling, error) {
	first, err := backend(ctx, conn)
	if err != nil || uint32(first) == conn.Conn().PgConn().PID() {
		return PoolingNone, err
	}
	other, err := s.pool.Acquire(ctx)
	if err != nil {
		return PoolingNone, err
	}
	defer other.Release()
	for range 3 {
		second, err := backend(ctx, other)
		if err != nil {
			return PoolingNone, err
		}
		if second == first {
			return PoolingTransaction, nil
		}
		if first, err = backend(ctx, conn); err != nil {
			return PoolingNone, err
		}
		if second == first {
			return PoolingTransaction, nil
		}
	}
	return PoolingSession, nil
}

func backend(ctx context.Context, conn *pgxpool.Conn) (pid int64, err error) {
	err = conn.QueryRow(ctx, `SELECT pg_backend_pid()`, pgx.QueryExecModeSimpleProtocol).Scan(&pid)
	return pid, err
}

// CommitRisk is why a commit that was answered may be lost, by a crash or by a failover, and what to set instead.
type CommitRisk struct{ Why, Cure string }

// CommitRisks are what the settings risk, none when they lose no commit. Of what a standby behind the primary loses, the fence knows that it is lost;
// the receipt of a publish is worth nothing then.
func (d Diagnosis) CommitRisks() (risks []CommitRisk) {
	const synchronous = "set synchronous_commit = on for the database and for Pawl's role"
	add := func(risk bool, why, cure string) {
		if risk {
			risks = append(risks, CommitRisk{why, cure})
		}
	}
	add(!d.Fsync, "fsync is off: a crash of the machine loses commits or the whole database, and counters go back unseen", "set fsync = on")
	add(!d.FullPageWrites, "full_page_writes is off: a crash in the middle of a write leaves torn pages", "set full_page_writes = on")
	add(d.SynchronousCommit == "off", "synchronous_commit is off: a crash loses the last commits, and counters go back unseen", synchronous)
	add(d.Standbys > 0 && d.SynchronousStandbyNames == "",
		fmt.Sprintf("%d standby(s) stream asynchronously: promoting one loses the last commits", d.Standbys), "name them in synchronous_standby_names")
	add(d.SynchronousStandbyNames != "" && d.SynchronousCommit == "local",
		"synchronous_commit is local: commits don't wait for the standbys in synchronous_standby_names", synchronous)
	return risks
}

// MayLoseCommits returns an error that names all risks with their cures, nil if there are none.
func (d Diagnosis) MayLoseCommits() error {
	var all []string
	for _, risk := range d.CommitRisks() {
		all = append(all, risk.Why+"; "+risk.Cure)
	}
	if all == nil {
		return nil
	}
	return errors.New(strings.Join(all, ". "))
}
