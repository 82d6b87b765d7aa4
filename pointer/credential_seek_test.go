package pointer

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// A credential is found by one seek, and a page of credentials is read from where it begins, whatever the table holds and while the
// statistics know nothing of it.
func TestCredentialsSeek(t *testing.T) {
	t.Parallel()
	conn, err := pgx.Connect(t.Context(), testenv.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context()) //nolint:errcheck // The test is over.
	const fill = `INSERT INTO pawl.credentials (id, name, hash, scopes, created_at, created_by, expires_at, request_sha256, holds_name, replaces)
		SELECT left(md5(n::text), 16), 'c' || n / 4, sha256(convert_to('secret ' || n, 'UTF8')), '{read}', now(), 'ops', now() + interval '1 day',
			sha256(convert_to('request ' || n, 'UTF8')), n % 4 = 3, CASE WHEN n % 4 > 0 THEN left(md5((n - 1)::text), 16) END
		FROM generate_series(0, 19999) n`
	if _, err := conn.Exec(t.Context(), fill); err != nil {
		t.Fatal(err)
	}
	var after string
	var hash []byte
	if err := conn.QueryRow(t.Context(), `SELECT id, hash::bytea FROM pawl.credentials WHERE name = 'c3000' AND holds_name`).Scan(&after, &hash); err != nil {
		t.Fatal(err)
	}
	request, next := publish.NewLeaseID(), publish.NewSecret().Hash()
	for _, test := range []struct {
		what, sql string
		args      []any
		most      int64 // rows or entries of indexes
	}{
		{"find", findCredentialSQL, []any{hash}, 10},
		{"find none", findCredentialSQL, []any{next[:]}, 10},
		{"one", credentialSQL, []any{after}, 10},
		{"first page", credentialsSQL, []any{"", 20}, 100},
		{"next page", credentialsSQL, []any{after, 20}, 100},
		{"use", useCredentialSQL, []any{after}, 10},
		{"replace", replaceCredentialSQL, []any{after, "0123456789abcdef", secret(request), next[:], nil, 1000, "ops"}, 50},
		{"repeat", replaceCredentialSQL, []any{after, "1123456789abcdef", secret(request), next[:], nil, 1000, "ops"}, 50},
		{"create", createCredentialSQL, []any{"0000000000000000", secret(publish.NewLeaseID()), make([]byte, 32), "new", []string{"read"}, nil, "ops"}, 50},
		{"revoke", revokeCredentialSQL, []any{after, "ops"}, 50},
	} {
		before := testenv.TableReads(t, conn, "credentials")
		var answer []byte
		if err := conn.QueryRow(t.Context(), test.sql, test.args...).Scan(&answer); err != nil && test.what != "find none" {
			t.Fatalf("%s: %v", test.what, err)
		}
		read := testenv.TableReads(t, conn, "credentials") - before
		t.Logf("%s read %d: %.100s", test.what, read, answer)
		if read > test.most || read == 0 && test.what != "find none" && test.what != "create" {
			t.Errorf("%s read %d rows or entries of indexes, want at most %d", test.what, read, test.most)
		}
	}
}
