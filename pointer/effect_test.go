package pointer_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/migrations"
	"github.com/pawlhq/pawl/pointer"
	"github.com/pawlhq/pawl/publish"
)

const effectCall = `SELECT pawl.effect($1, $3, sha256(convert_to($2::text, 'UTF8')), 'charge', false, NULL)`

// An effect and the publish of a newer token: whoever locks the key first is first.
func TestEffectAgainstPublish(t *testing.T) {
	t.Parallel()
	prepare := func(t *testing.T) (a, b *session) {
		a, b, _ = race(t)
		b.call(acquireCall, raceKey, "B")
		b.put("B", 2, "b")
		b.commit()
		b.begin()
		return a, b
	}
	t.Run("publish first", func(t *testing.T) {
		t.Parallel()
		a, b := prepare(t)
		wantCode(t, "publish by B", b.call(publishCall, raceKey, "B", 2), "")
		stale := a.behind(b, effectCall, raceKey, "A", 1)
		wantCode(t, "effect by A", stale, publish.ErrStaleToken)
		if e := stale.Refused; e.Operation != publish.OperationEffect || e.Path != "charge" || e.AcceptedToken != 2 || e.Holder != "B" {
			t.Errorf("the refusal is %+v", e)
		}
	})
	t.Run("effect first", func(t *testing.T) {
		t.Parallel()
		a, b := prepare(t)
		wantCode(t, "effect by A", a.call(effectCall, raceKey, "A", 1), "")
		wantCode(t, "publish by B", b.behind(a, publishCall, raceKey, "B", 2), "")
	})
}

// An effect and a newer grant: in mode granted the grant fences, in mode accepted it doesn't, and says so.
func TestEffectAgainstAcquire(t *testing.T) {
	t.Parallel()
	for _, mode := range []publish.FenceMode{publish.FenceAccepted, publish.FenceGranted} {
		t.Run(string(mode)+"/acquire first", func(t *testing.T) {
			t.Parallel()
			a, b, store := race(t)
			setMode(t, store, mode)
			wantCode(t, "acquire by B", b.call(acquireCall, raceKey, "B"), "")
			asked := a.behind(b, effectCall, raceKey, "A", 1)
			if mode == publish.FenceGranted {
				wantCode(t, "effect by A", asked, publish.ErrStaleToken)
				return
			}
			wantCode(t, "effect by A", asked, "")
			if asked.Effect.SupersededBy != 2 {
				t.Errorf("A's answer %+v doesn't say that it is superseded by 2", asked.Effect)
			}
		})
		t.Run(string(mode)+"/effect first", func(t *testing.T) {
			t.Parallel()
			a, b, store := race(t)
			setMode(t, store, mode)
			asked := a.call(effectCall, raceKey, "A", 1)
			wantCode(t, "effect by A", asked, "")
			wantCode(t, "acquire by B", b.behind(a, acquireCall, raceKey, "B"), "")
			if asked.Effect.SupersededBy != 0 {
				t.Errorf("A's answer is %+v", asked.Effect)
			}
		})
	}
}

// Two tokens that ask for one effect at the same time, which nobody has asked for before, come one after the other.
func TestEffectAgainstEffect(t *testing.T) {
	t.Parallel()
	a, b, store := race(t)
	b.call(acquireCall, raceKey, "B")
	b.commit()
	b.begin()
	first := b.call(effectCall, raceKey, "B", 2)
	second := a.behind(b, effectCall, raceKey, "A", 1)
	wantCode(t, "effect by A", second, "")
	if second.Effect.IdempotencyKey != first.Effect.IdempotencyKey || second.Effect.FirstToken != 2 || second.Effect.Token != 2 {
		t.Errorf("A got %+v after B had got %+v", second.Effect, first.Effect)
	}
	page, err := store.Effects(context.Background(), raceKey, "", 10)
	if err != nil || len(page.Effects) != 1 || len(page.Effects[0].Tokens) != 2 {
		t.Errorf("the effects are %+v, %v", page, err)
	}
}

// The idempotency key is made of the installation's id, the key and the name. It follows the data into a restored database, and
// another installation has another one.
func TestEffectKeyFollowsTheData(t *testing.T) {
	t.Parallel()
	const key = publish.Key("invoices/é 52")
	ask := func(store publish.PointerStore, w worker) publish.Effect {
		t.Helper()
		effect, err := store.Effect(context.Background(), publish.EffectRequest{Grant: w.grant(), Name: "charge", State: publish.EffectPending})
		if err != nil {
			t.Fatal(err)
		}
		return effect
	}
	store, dsn := newStore(t)
	a := grant(t, store, key, "W1")
	before := ask(store, a)
	var installation string
	query(t, dsn, &installation, `SELECT installation_id FROM pawl.installation`)
	sum := sha256.Sum256([]byte("pawl-effect-1\n" + installation + "\n" + string(key) + "\n"))
	want := fmt.Sprintf("pawl-%x-charge", sum[:16])
	if before.IdempotencyKey != want || a.lease.EffectPrefix+"charge" != want {
		t.Errorf("the idempotency key is %s, the prefix %s, want %s", before.IdempotencyKey, a.lease.EffectPrefix, want)
	}

	dump := command(t, nil, "pg_dump", "-Fc", "-d", dsn)
	lost := grant(t, store, "elsewhere", "W2")
	ask(store, lost)
	other := testenv.Postgres(t)
	exec1(t, other, `DROP SCHEMA pawl CASCADE`) // It was copied from a template.
	if err := migrations.Up(context.Background(), other); err != nil {
		t.Fatal(err)
	}
	if fresh := grant(t, openStore(t, other), key, "W1"); fresh.lease.EffectPrefix == a.lease.EffectPrefix {
		t.Error("two installations have the same idempotency keys")
	}
	command(t, dump, "pg_restore", "--clean", "--if-exists", "-d", other)
	restored := openStore(t, other)
	exec1(t, other, expireCall, string(key))
	next := grant(t, restored, key, "W3")
	if after := ask(restored, next); after.IdempotencyKey != before.IdempotencyKey || after.FirstToken != a.lease.Token {
		t.Errorf("after a restore the effect is %+v, before %+v", after, before)
	}
	if again := grant(t, restored, "elsewhere", "W4"); ask(restored, again).IdempotencyKey != lost.lease.EffectPrefix+"charge" {
		t.Error("a key whose grants were lost has another idempotency key")
	}
}

// Without the installation's id no idempotency key is made up, and grants go on.
func TestEffectWithoutInstallation(t *testing.T) {
	t.Parallel()
	store, dsn := newStore(t)
	exec1(t, dsn, `TRUNCATE pawl.installation`)
	a := grant(t, store, "k", "W1")
	if a.lease.EffectPrefix != "" {
		t.Errorf("the prefix is %q", a.lease.EffectPrefix)
	}
	_, err := store.Effect(context.Background(), publish.EffectRequest{Grant: a.grant(), Name: "charge", State: publish.EffectPending})
	if err == nil || !strings.Contains(err.Error(), "pawl.installation") {
		t.Errorf("got %v", err)
	}
}

// A page of effects seeks, and so does the record of a token, however many effects there are.
func TestEffectsSeek(t *testing.T) {
	t.Parallel()
	_, dsn := newStore(t)
	store, err := pointer.Open(context.Background(), dsn, pointer.Options{MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	a := grant(t, store, "k", "W1")
	conn, err := pgx.Connect(context.Background(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background()) //nolint:errcheck // The test is over.
	for _, sql := range []string{
		`INSERT INTO pawl.effects (key_id, name, first_token, first_at, token, asked_at)
			SELECT 1, 'n' || lpad(n::text, 6, '0'), 1, now(), 1, now() FROM generate_series(1, 20000) n`,
		`INSERT INTO pawl.effect_tokens (key_id, name, token, asked_at) SELECT key_id, name, 1, now() FROM pawl.effects`,
		`SELECT pg_stat_force_next_flush()`, // What these have read is counted before the reset, not when the session ends.
		`SELECT pg_stat_reset()`,
	} {
		if _, err := conn.Exec(context.Background(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	page, err := store.Effects(context.Background(), "k", "n010000", 10)
	if err != nil || len(page.Effects) != 10 || page.Effects[0].Name != "n010001" || page.Next != "n010010" {
		t.Fatalf("%+v, %v", page, err)
	}
	if _, err := store.Effect(context.Background(), publish.EffectRequest{Grant: a.grant(), Name: "n010005", State: publish.EffectDone}); err != nil {
		t.Fatal(err)
	}
	store.Close() // Its session shows its statistics when it ends.
	var read int64
	testenv.Eventually(t, flushTimeout, func() error {
		query(t, dsn, &read, `SELECT coalesce(sum(seq_tup_read + coalesce(idx_tup_fetch, 0)), 0)::bigint
			FROM pg_stat_user_tables WHERE relname IN ('effects', 'effect_tokens')`)
		if read == 0 {
			return errNotYet
		}
		return nil
	})
	if read > 60 {
		t.Errorf("a page of 10 and one effect read %d rows", read)
	}
}

// query reads one value on a connection of its own.
func query(t *testing.T, dsn string, into any, sql string) {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background()) //nolint:errcheck // It was only read.
	if err := conn.QueryRow(context.Background(), sql).Scan(into); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}
