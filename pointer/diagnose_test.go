package pointer_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/pointer"
	"github.com/pawlhq/pawl/publish"
)

// What may lose commits is seen in a server's own settings, in those of its database, and in a standby that nobody waits for. While it is so, a store that
// requires synchronous commits grants nothing.
func TestDiagnose(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	primary := testenv.PrivatePostgres(t, "fsync", "on", "full_page_writes", "on")
	dsn := primary.DSN()
	diagnose := func(want string) pointer.Diagnosis {
		t.Helper()
		store, err := pointer.Open(ctx, dsn, pointer.Options{RequireSynchronous: true})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		d, err := store.Diagnose(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if risk := d.MayLoseCommits(); (risk == nil) != (want == "") || risk != nil && !strings.Contains(risk.Error(), want) {
			t.Errorf("commits may be lost: %v, want %q", risk, want)
		}
		_, err = store.Acquire(ctx, publish.AcquireRequest{Key: publish.Key("k/" + time.Now().String()), Holder: "W", TTL: time.Minute, LeaseID: publish.NewLeaseID()})
		if want == "" && err != nil {
			t.Errorf("a grant: %v", err)
		} else if want != "" && (!errors.Is(err, publish.ErrUnavailable) || !strings.Contains(err.Error(), want) || !errors.Is(store.Check(ctx), publish.ErrUnavailable)) {
			t.Errorf("a grant: %v, and a check: %v; want both unavailable, with %q", err, store.Check(ctx), want)
		}
		_, rollback := store.Rollback(ctx, publish.RollbackRequest{Key: "k", To: publish.Version{Token: 1}, Reason: "bad", RequestID: publish.NewLeaseID()})
		_, retire := store.Retire(ctx, publish.RetireRequest{Key: "k", RequestID: publish.NewLeaseID()})
		for what, err := range map[string]error{"a rollback": rollback, "a retirement": retire} {
			if errors.Is(err, publish.ErrUnavailable) != (want != "") {
				t.Errorf("%s, which grants a token too: %v; commits may be lost: %q", what, err, want)
			}
		}
		return d
	}
	d := diagnose("")
	if d.Version < pointer.OldestVersion || d.Standby || d.ReadOnly || d.Encoding != "UTF8" || d.Standbys != 0 || !d.Lineage || d.Pooling != pointer.PoolingNone {
		t.Errorf("a primary in order is %+v", d)
	}
	if d.ClockAhead.Abs() > time.Second+d.RoundTrip {
		t.Errorf("one clock is %s ahead of itself", d.ClockAhead)
	}
	database := strings.TrimPrefix(strings.Split(dsn, "?")[0], "postgres:///")
	exec1(t, dsn, `ALTER DATABASE `+database+` SET synchronous_commit = off`)
	diagnose("synchronous_commit is off")
	exec1(t, dsn, `ALTER DATABASE `+database+` RESET synchronous_commit`)
	standby := primary.Standby(t)
	standby.CatchUp(t)
	if d := diagnose("stream asynchronously"); d.Standbys != 1 {
		t.Errorf("%d standbys, want 1", d.Standbys)
	}
	if d, err := openStore(t, standby.DSN()).Diagnose(ctx); err != nil || !d.Standby {
		t.Errorf("a standby is %+v, %v", d, err)
	}
	exec1(t, dsn, `ALTER SYSTEM SET synchronous_standby_names = '*'`)
	exec1(t, dsn, `SELECT pg_reload_conf()`)
	awaitSetting(t, dsn, "synchronous_standby_names", "*")
	diagnose("")
}

// awaitSetting waits until new sessions have a setting.
func awaitSetting(t *testing.T, dsn, name, want string) {
	t.Helper()
	testenv.Eventually(t, 30*time.Second, func() error {
		if got := strings.TrimSpace(string(command(t, nil, "psql", "-At", "-d", dsn, "-c", "SHOW "+name))); got != want {
			return errors.New(name + " is " + got)
		}
		return nil
	})
}

func TestMayLoseCommits(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*pointer.Diagnosis){
		"": func(*pointer.Diagnosis) {},
		"fsync is off, full_page_writes is off, synchronous_commit is off, 1 standby(s) stream": func(d *pointer.Diagnosis) {
			d.Fsync, d.FullPageWrites, d.SynchronousCommit, d.Standbys = false, false, "off", 1
		},
		"fsync is off":              func(d *pointer.Diagnosis) { d.Fsync = false },
		"full_page_writes is off":   func(d *pointer.Diagnosis) { d.FullPageWrites = false },
		"synchronous_commit is off": func(d *pointer.Diagnosis) { d.SynchronousCommit = "off" },
		"synchronous_commit is local": func(d *pointer.Diagnosis) {
			d.SynchronousCommit, d.Standbys, d.SynchronousStandbyNames = "local", 1, "*"
		},
		"2 standby(s) stream asynchronously": func(d *pointer.Diagnosis) { d.Standbys = 2 },
	} {
		d := pointer.Diagnosis{Fsync: true, FullPageWrites: true, SynchronousCommit: "on"}
		change(&d)
		risks, all := d.CommitRisks(), strings.Split(want, ", ")
		if want == "" {
			all = nil
		}
		if len(risks) != len(all) || (d.MayLoseCommits() == nil) != (all == nil) {
			t.Errorf("%+v: %q, want %q", d, risks, all)
			continue
		}
		for i, risk := range risks {
			if !strings.HasPrefix(risk.Why, all[i]) || risk.Cure == "" || !strings.Contains(d.MayLoseCommits().Error(), risk.Why+"; "+risk.Cure) {
				t.Errorf("%+v: %q, want %q", d, risk, all[i])
			}
		}
	}
}
