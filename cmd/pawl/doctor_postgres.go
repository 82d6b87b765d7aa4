package main

import (
	"context"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/blobstore"
	"github.com/pawlhq/pawl/pointer"
)

// clockTolerance is how far the clocks of the database and of this machine may be apart without a word. Nothing rests on it: leases are timed by
// the database's clock alone. But logs and signed addresses are read by both.
const clockTolerance = 5 * time.Second

// databaseFindings looks at Postgres itself.
func databaseFindings(ctx context.Context, pointers *pointer.Store, synchronous bool) ([]blobstore.Finding, error) {
	d, err := pointers.Diagnose(ctx)
	if err != nil {
		return nil, err
	}
	return judge(d, synchronous), nil
}

// judge says of each thing whether it is in order, and else what to change.
func judge(d pointer.Diagnosis, synchronous bool) []blobstore.Finding {
	var all []blobstore.Finding
	check := func(name string, bad bool, level blobstore.Level, cure, seen string) {
		if !bad {
			level, cure = blobstore.LevelOK, ""
		}
		all = append(all, blobstore.Finding{Name: "postgres " + name, Level: level, Seen: seen, Cure: cure})
	}
	check("version", d.Version < pointer.OldestVersion, blobstore.LevelFail, fmt.Sprintf("update it to %d or newer", pointer.OldestVersion/10000),
		fmt.Sprintf("%d.%d", d.Version/10000, d.Version%10000))
	switch {
	case d.Standby:
		check("role", true, blobstore.LevelFail, "name the primary in PAWL_DATABASE_URL, as with target_session_attrs=read-write", "a standby; nothing is granted on it")
	case d.ReadOnly:
		check("role", true, blobstore.LevelFail, "reset default_transaction_read_only for Pawl's role and database", "transactions are read-only")
	default:
		check("role", false, "", "", "a primary")
	}
	check("encoding", d.Encoding != "UTF8", blobstore.LevelFail, "make the database with ENCODING 'UTF8'", d.Encoding)
	risky := blobstore.LevelWarn
	if synchronous {
		risky = blobstore.LevelFail
	}
	risks := d.CommitRisks()
	for _, risk := range risks {
		check("commits", true, risky, risk.Cure, risk.Why)
	}
	if risks == nil {
		check("commits", false, "", "", fmt.Sprintf("they last: fsync and full_page_writes are on, synchronous_commit is %s, %d standby(s) attached", d.SynchronousCommit, d.Standbys))
	}
	check("lineage", !d.Lineage, blobstore.LevelFail, "GRANT EXECUTE ON FUNCTION pg_control_system() to Pawl's role",
		fmt.Sprintf("the system identifier can be read: %t; restores and promotions are known by it", d.Lineage))
	switch {
	case d.OwnsAudit:
		check("audit", true, blobstore.LevelNote, "serve with a role of its own, to which pawl migrate --grant gives what it needs",
			"Pawl's role has the rights of the table's owner, so whoever has its password can change what stands there")
	case d.Audit:
		check("audit", false, "", "", "Pawl's role can add to it, and doesn't own it")
	}
	switch d.Pooling {
	case pointer.PoolingTransaction:
		check("pooler", true, blobstore.LevelWarn, "connect to Postgres itself, or to a pool in mode session",
			"a pooler shares sessions between transactions; statements that are prepared need max_prepared_statements there")
	case pointer.PoolingSession:
		check("pooler", false, "", "", "a pooler that keeps sessions")
	case pointer.PoolingNone:
		check("pooler", false, "", "", "none")
	}
	check("extensions", false, "", "", "none are needed")
	apart := d.ClockAhead.Abs()
	check("clock", apart > clockTolerance+d.RoundTrip, blobstore.LevelNote, "keep the clocks of both machines by NTP",
		fmt.Sprintf("%s apart from this machine's, give or take %s; leases are timed by the database's", apart.Round(time.Millisecond), d.RoundTrip.Round(time.Millisecond)))
	return all
}

// requireSynchronous refuses to start on a database that may lose commits, when that is wished.
func requireSynchronous(ctx context.Context, pointers *pointer.Store, required bool) error {
	if !required {
		return nil
	}
	d, err := pointers.Diagnose(ctx)
	if err != nil {
		return err
	}
	if err := d.MayLoseCommits(); err != nil {
		return configError{fmt.Errorf("PAWL_REQUIRE_SYNCHRONOUS (or --require-synchronous): %w", err)}
	}
	return nil
}
