package pointer_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
)

// checkSums holds the sums of what generations have uploaded against their files, whatever was done to them. Generations that were
// recovered are never uploaded to.
func checkSums(t *testing.T, dsn string) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx) //nolint:errcheck // It was only read.
	const differ = `WITH counted AS (
			SELECT key_id, token, count(*) FILTER (WHERE counts) AS files, coalesce(sum(size) FILTER (WHERE counts), 0)::bigint AS bytes
			FROM (SELECT f.*, g.state = 'open' AND f.state = 'stored' AND until_revision IS NULL AND object_token IS NULL AS counts
				FROM pawl.generations g JOIN pawl.files f USING (key_id, token) WHERE NOT g.labels ? 'recovered') f
			GROUP BY key_id, token),
		summed AS (SELECT key_id, token, sum(files)::bigint AS files, sum(bytes)::bigint AS bytes FROM pawl.generation_sums GROUP BY key_id, token)
		SELECT (SELECT count(*) FROM counted WHERE files > 0), count(*), coalesce(min((SELECT name FROM pawl.keys WHERE id = key_id)), '')
		FROM counted FULL JOIN summed USING (key_id, token)
		WHERE coalesce(counted.files, 0) <> coalesce(summed.files, 0) OR coalesce(counted.bytes, 0) <> coalesce(summed.bytes, 0)`
	var open, wrong int
	var example string
	if err := conn.QueryRow(ctx, differ).Scan(&open, &wrong, &example); err != nil {
		t.Fatal(err)
	}
	if wrong != 0 {
		t.Errorf("the sums of %d generations are wrong, one of them of %q; %d open ones have files", wrong, example, open)
	}
}
