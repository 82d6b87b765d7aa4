package fence_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/fence"
	"github.com/pawlhq/pawl/publish"
)

// Who checks first and reads then loses no write of an older holder, whoever comes when: the list that each appends its token to holds
// every token that was accepted, in order.
func TestCheckThenRead(t *testing.T) {
	t.Parallel()
	db := fenced(t)
	run(t, db, `CREATE TABLE lists (tokens bigint[] NOT NULL)`)
	run(t, db, `INSERT INTO lists VALUES ('{}')`)
	var mu sync.Mutex
	var accepted []publish.Token
	var all sync.WaitGroup
	for token := publish.Token(1); token <= 40; token++ {
		all.Go(func() {
			err := pgx.BeginFunc(t.Context(), db, func(tx pgx.Tx) error { return appendToken(t.Context(), tx, token) })
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				accepted = append(accepted, token)
			case !errors.Is(err, fence.ErrStale):
				t.Error(err)
			}
		})
	}
	all.Wait()
	slices.Sort(accepted)
	if got := query[[]publish.Token](t, db, `SELECT tokens FROM lists`); !slices.Equal(got, accepted) {
		t.Errorf("accepted were %v, and the list is %v", accepted, got)
	}
}

func appendToken(ctx context.Context, tx pgx.Tx, token publish.Token) error {
	if err := fence.Check(ctx, tx, "lists", token); err != nil {
		return err
	}
	var tokens []int64
	if err := tx.QueryRow(ctx, `SELECT tokens FROM lists`).Scan(&tokens); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `UPDATE lists SET tokens = $1`, append(tokens, int64(token)))
	return err
}
