package pointer_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/internal/testenv"
)

// Counters are never dropped, so what a key costs that nobody works on any more is what a database pays for years: its row and its entries in
// the indexes. README gives these figures.
func TestIdleKeyIsSmall(t *testing.T) {
	t.Parallel()
	const keys = 20_000
	const (
		short = "'thumbs/i-' || lpad(n::text, 6, '0')" // 15 bytes, as thumbs/image-52 has
		long  = "'shots/seq' || lpad((n % 100)::text, 4, '0') || '/comp/v2/b-' || lpad(n::text, 6, '0')"
	)
	for _, test := range []struct {
		name, key, columns, values string
		most                       int64 // bytes a key
	}{
		{"retired", short, "counter, fence", "7, 7", 200},
		{"retired, 30 bytes", long, "counter, fence", "7, 7", 250},
		{"published, 30 bytes", long, "counter, fence, published, current_token, current_revision", "7, 7, true, 7, 1", 350},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			conn, err := pgx.Connect(ctx, testenv.Postgres(t))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(ctx) //nolint:errcheck // The test is over.
			if _, err := conn.Exec(ctx, `INSERT INTO pawl.keys (name, lease_ttl_ms, `+test.columns+`)
				SELECT `+test.key+`, 30000, `+test.values+` FROM generate_series(1, $1) n`, keys); err != nil {
				t.Fatal(err)
			}
			var table, indexes int64
			if err := conn.QueryRow(ctx, `SELECT pg_table_size('pawl.keys') / $1, pg_indexes_size('pawl.keys') / $1`, keys).Scan(&table, &indexes); err != nil {
				t.Fatal(err)
			}
			t.Logf("a key costs %d bytes: %d in the table, %d in its indexes", table+indexes, table, indexes)
			if table+indexes > test.most {
				t.Errorf("a key costs %d bytes, more than %d", table+indexes, test.most)
			}
		})
	}
}
