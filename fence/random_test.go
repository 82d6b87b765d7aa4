package fence_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"github.com/pawlhq/pawl/fence"
	"github.com/pawlhq/pawl/publish"
)

// attempt is one transaction of a random run.
type attempt struct {
	Resource string
	Token    publish.Token
	Commit   bool
}

// Whatever transactions run side by side, the tokens that a resource accepts never go back, and by the strict rule each is greater than
// the one before. Each refusal names a fence that was accepted, and that refuses by the rule.
func TestRandomInterleavings(t *testing.T) {
	t.Parallel()
	db := fenced(t)
	run(t, db, makeTotals)
	// A row is written under the lock of its resource, so the ids of one resource are in the order of its transactions.
	run(t, db, `CREATE TABLE accepted (id bigint GENERATED ALWAYS AS IDENTITY, resource text, token bigint)`)
	var runs atomic.Int64
	for _, f := range forms() {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(rt *rapid.T) {
				sessions := rapid.SliceOfN(rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) attempt {
					return attempt{
						Resource: rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "resource"),
						Token:    publish.Token(rapid.Int64Range(1, 6).Draw(rt, "token")),
						Commit:   rapid.IntRange(0, 3).Draw(rt, "commit") > 0,
					}
				}), 1, 5), 2, 4).Draw(rt, "sessions")
				prefix := fmt.Sprintf("%s/%d/", f.name, runs.Add(1))
				refusals := interleave(t, rt, db, f, prefix, sessions)
				for _, resource := range []string{"a", "b"} {
					verify(t, rt, db, f, prefix+resource, refusals)
				}
			})
		})
	}
}

// interleave runs each session's transactions in order, all sessions at once, and returns the refusals.
func interleave(t *testing.T, rt *rapid.T, db *pgxpool.Pool, f form, prefix string, sessions [][]attempt) []*fence.StaleError {
	var mu sync.Mutex
	var refusals []*fence.StaleError
	var failed error
	var all sync.WaitGroup
	for _, attempts := range sessions {
		all.Go(func() {
			for _, a := range attempts {
				err := transact(t, db, f, prefix+a.Resource, a)
				var stale *fence.StaleError
				mu.Lock()
				if errors.As(err, &stale) {
					refusals = append(refusals, stale)
				} else {
					failed = errors.Join(failed, err)
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if failed != nil {
		rt.Fatal(failed)
	}
	return refusals
}

var errUndone = errors.New("rolled back")

func transact(t *testing.T, db *pgxpool.Pool, f form, resource string, a attempt) error {
	err := pgx.BeginFunc(t.Context(), db, func(tx pgx.Tx) error {
		if err := f.check(t.Context(), tx, resource, a.Token); err != nil {
			return err
		}
		if _, err := tx.Exec(t.Context(), `INSERT INTO accepted (resource, token) VALUES ($1, $2)`, resource, int64(a.Token)); err != nil {
			return err
		}
		if !a.Commit {
			return errUndone
		}
		return nil
	})
	if errors.Is(err, errUndone) {
		return nil
	}
	return err
}

func verify(t *testing.T, rt *rapid.T, db *pgxpool.Pool, f form, resource string, refusals []*fence.StaleError) {
	rows, err := db.Query(t.Context(), `SELECT token FROM accepted WHERE resource = $1 ORDER BY id`, resource)
	if err != nil {
		rt.Fatal(err)
	}
	tokens, err := pgx.CollectRows(rows, pgx.RowTo[publish.Token])
	if err != nil {
		rt.Fatal(err)
	}
	accepted := map[publish.Token]bool{}
	for i, token := range tokens {
		accepted[token] = true
		if i > 0 && (token < tokens[i-1] || f.strict && token == tokens[i-1]) {
			rt.Fatalf("%s accepted %v", resource, tokens)
		}
	}
	for _, stale := range refusals {
		if stale.Resource != resource { // Updates don't know it
			continue
		}
		if !accepted[stale.Fence] || stale.Fence < stale.Token || !f.strict && stale.Fence == stale.Token {
			rt.Fatalf("%s refused %d by %d, and accepted %v", resource, stale.Token, stale.Fence, tokens)
		}
	}
}
