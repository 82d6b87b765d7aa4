package pointer

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// A session is found, used and ended by one seek, and a sign-in reads few rows, whatever the table holds and while the statistics know nothing of it.
func TestSessionsSeek(t *testing.T) {
	t.Parallel()
	conn, err := pgx.Connect(t.Context(), testenv.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context()) //nolint:errcheck // The test is over.
	for _, fill := range []string{
		`INSERT INTO pawl.credentials (id, name, hash, scopes, created_at, created_by, request_sha256)
			SELECT left(md5(n::text), 16), 'c' || n, sha256(convert_to('secret ' || n, 'UTF8')), '{read}', now(), 'ops', sha256(convert_to('request ' || n, 'UTF8'))
			FROM generate_series(0, 4999) n`,
		`INSERT INTO pawl.sessions (hash, subject, credential, created_at, seen_at, ends_at, idle)
			SELECT sha256(convert_to('session ' || n, 'UTF8')), left(md5((n / 4)::text), 16), left(md5((n / 4)::text), 16), now(), now() - interval '2 min', now() + interval '1 h', '1 h'
			FROM generate_series(0, 19999) n`,
	} {
		if _, err := conn.Exec(t.Context(), fill); err != nil {
			t.Fatal(err)
		}
	}
	var hash []byte
	var subject string
	if err := conn.QueryRow(t.Context(), `SELECT hash::bytea, subject FROM pawl.sessions OFFSET 7000 LIMIT 1`).Scan(&hash, &subject); err != nil {
		t.Fatal(err)
	}
	next := publish.NewSessionID().Hash()
	for _, test := range []struct {
		what, sql string
		args      []any
		most      int64 // rows or entries of indexes
	}{
		{"find", findSessionSQL, []any{hash}, 10},
		{"find none", findSessionSQL, []any{next[:]}, 10},
		{"use", useSessionSQL, []any{hash}, 10},
		{"create", createSessionSQL, []any{next[:], subject, nil, nil, 1000, 1000, hash}, 50},
		{"end", endSessionSQL, []any{hash}, 10},
		{"end all", endSessionsSQL, []any{subject}, 50},
	} {
		before := testenv.TableReads(t, conn, "credentials", "sessions")
		var answer []byte
		if err := conn.QueryRow(t.Context(), test.sql, test.args...).Scan(&answer); err != nil && test.what != "find none" {
			t.Fatalf("%s: %v", test.what, err)
		}
		read := testenv.TableReads(t, conn, "credentials", "sessions") - before
		t.Logf("%s read %d: %.100s", test.what, read, answer)
		if read > test.most || read == 0 && test.what != "find none" {
			t.Errorf("%s read %d rows or entries of indexes, want at most %d", test.what, read, test.most)
		}
	}
}
