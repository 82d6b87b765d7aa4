package fence

import (
	"context"
	_ "embed" // for fence.sql
	"fmt"

	"github.com/jackc/pgx/v5"
)

//go:embed fence.sql
var installSQL string

// Database is what Install needs: a *pgxpool.Pool, a *pgx.Conn, or a pgx.Tx.
type Database interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

// Install makes the table pawl_fences and the functions pawl_fence and pawl_fence_once in the current schema of the connection. Where
// its search_path finds a fence already, in whichever of its schemas, that one is kept, and none is made before it: a second one would
// know none of the tokens that have passed. Workers whose search_paths have no schema in common must name it (Schema).
//
// It may be called by any number of processes at once, at each of their starts: what is there already, or newer, is left alone, and needs no
// rights. An older one is replaced by its owner; others leave it, with a warning of Postgres. fence.sql is the same for psql, and for
// tools that apply migrations.
func Install(ctx context.Context, db Database) error { return Schema("").Install(ctx, db) }

// Install makes table and functions in this schema, which must exist.
func (s Schema) Install(ctx context.Context, db Database) error {
	err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT set_config('pawl.fence_schema', $1, true)`, string(s)); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, installSQL)
		return err
	})
	if err != nil {
		return fmt.Errorf("installing the fence: %w", err)
	}
	return nil
}
