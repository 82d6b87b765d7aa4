package pointer_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawlhq/pawl/internal/testenv"
)

// The schema itself refuses bad rows, whatever program writes them, and names the constraint.
func TestSchemaRefusesBadRows(t *testing.T) {
	t.Parallel()
	_, dsn := newStore(t)
	conn, err := pgx.Connect(context.Background(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background()) //nolint:errcheck // The test is over.

	exec := func(sql string) error {
		_, err := conn.Exec(context.Background(), sql)
		return err
	}
	for _, sql := range []string{
		`SELECT pawl.acquire('k', sha256('A'), 'A', 60000, '{}')`,
		`SELECT pawl.begin_upload('k', 1, sha256('A'), 'f', decode(md5('1'), 'hex'), NULL, false)`,
		`SELECT pawl.complete_upload('k', 1, sha256('A'), 'f', 1, 3, sha256('abc'), 'text/plain')`,
		`SELECT pawl.publish('k', 1, sha256('A'), true, NULL, NULL, '{}', NULL, true, NULL, NULL, false, NULL, false)`, // As a server from before reuse_from calls it.
		`SELECT pawl.effect('k', 1, sha256('A'), 'charge', true, 'ch_1')`,
		`SELECT pawl.acquire('k', sha256('B'), 'B', 60000, '{}')`,
		`SELECT pawl.create_credential('0123456789abcdef', sha256('r'), sha256('s'), 'ci', '{read}', 60000, 'ops')`,
		`SELECT pawl.create_credential('1123456789abcdef', sha256('r2'), sha256('s2'), 'old', '{read}', 60000, 'ops')`,
		`SELECT pawl.create_session(sha256('z'), '1123456789abcdef', NULL, NULL, 60000, 60000, NULL)`,
		`SELECT pawl.revoke_credential('1123456789abcdef', 'ops')`,
		`SELECT pawl.end_session(sha256('z'))`,
	} {
		if err := exec(sql); err != nil {
			t.Fatal(err)
		}
	}

	for _, test := range []struct{ constraint, sql string }{
		{"keys_never_back", `UPDATE pawl.keys SET counter = counter - 1`},
		{"keys_never_back", `UPDATE pawl.keys SET fence = 0, published = false, current_token = NULL, current_revision = NULL`},
		{"keys_never_back", `UPDATE pawl.keys SET epoch = epoch - 1`},
		{"keys_fence_granted", `UPDATE pawl.keys SET fence = counter + 1`},
		{"keys_counter_range", `UPDATE pawl.keys SET counter = 9007199254740992`},
		{"keys_pointer_fenced", `UPDATE pawl.keys SET current_token = fence + 1`},
		{"keys_pointer_whole", `UPDATE pawl.keys SET current_revision = NULL`},
		{"keys_lease_whole", `UPDATE pawl.keys SET lease_expires_at = NULL`},
		{"sha256_length", `UPDATE pawl.keys SET lease_sha256 = 'short'`},
		{"keys_name", `INSERT INTO pawl.keys (name) VALUES ('k')`},
		{"key_length", `INSERT INTO pawl.keys (name) VALUES (repeat('k', 401))`},
		{"key_segments", `INSERT INTO pawl.keys (name) VALUES ('a/-/b')`},
		{"key_segments", `INSERT INTO pawl.keys (name) VALUES ('a//b')`},
		{"key_segments", `INSERT INTO pawl.keys (name) VALUES ('/a')`},
		{"key_segments", `INSERT INTO pawl.keys (name) VALUES ('a/../b')`},
		{"key_characters", `INSERT INTO pawl.keys (name) VALUES (E'a\nb')`},
		{"key_characters", `INSERT INTO pawl.keys (name) VALUES ('a\b')`},
		{"key_nfc", `INSERT INTO pawl.keys (name) VALUES (U&'cafe\0301')`},
		{"token_range", `UPDATE pawl.generations SET token = 0`},
		{"generations_lease_once", `UPDATE pawl.generations SET lease_sha256 = sha256('A')`},
		{"generations_sealed", `UPDATE pawl.generations SET sealed_at = NULL WHERE token = 1`},
		{"generations_open", `UPDATE pawl.generations SET state = 'open' WHERE token = 1`},
		{"generations_state", `UPDATE pawl.generations SET state = 'gone'`},
		{"generations_grantee", `UPDATE pawl.generations SET caller = 'somebody'`},
		{"generations_grantee", `UPDATE pawl.generations SET actor = 'somebody else'`},
		{"generations_grantee", `UPDATE pawl.generations SET client = '10.0.0.7'`},
		{"sha256_length", `UPDATE pawl.files SET sha256 = 'short'`},
		{"files_stored_whole", `UPDATE pawl.files SET sha256 = NULL`},
		{"files_stored_whole", `UPDATE pawl.files SET size = -1`},
		{"files_revisions", `UPDATE pawl.files SET until_revision = 0`},
		{"files_counting", `INSERT INTO pawl.files (key_id, token, path, upload_id, state, size, sha256, content_type, from_revision)
			SELECT key_id, token, path, upload_id, state, size, sha256, content_type, from_revision FROM pawl.files`},
		{"files_object_token", `UPDATE pawl.files SET object_token = token`},
		{"receipts_reuse_from", `UPDATE pawl.receipts SET reuse_from = token`},
		{"receipts_reused", `UPDATE pawl.receipts SET reused_files = files + 1`},
		{"path_segments", `UPDATE pawl.files SET path = '../../evil'`},
		{"receipts_pkey", `INSERT INTO pawl.receipts SELECT * FROM pawl.receipts`},
		{"epoch_range", `INSERT INTO pawl.epochs (epoch, lineage, reason) VALUES (9007199, '', '')`},
		{"installation_never_changes", `UPDATE pawl.installation SET installation_id = gen_random_uuid()`},
		{"installation_never_changes", `DELETE FROM pawl.installation`},
		{"installation_one", `INSERT INTO pawl.installation (name) VALUES ('second')`},
		{"installation_pkey", `INSERT INTO pawl.installation DEFAULT VALUES`},
		{"effect_name_characters", `UPDATE pawl.effects SET name = E'a\n'`},
		{"effect_name_characters", `UPDATE pawl.effects SET name = repeat('x', 129)`},
		{"effect_name_dots", `UPDATE pawl.effects SET name = '..'`},
		{"effects_done_whole", `UPDATE pawl.effects SET done_token = NULL`},
		{"effects_result", `UPDATE pawl.effects SET done_token = NULL, done_at = NULL`},
		{"effects_result", `UPDATE pawl.effects SET result = repeat('x', 1025)`},
		{"effects_pkey", `INSERT INTO pawl.effects SELECT * FROM pawl.effects`},
		{"credentials_never_more", `UPDATE pawl.credentials SET expires_at = expires_at + interval '1 s'`},
		{"credentials_never_more", `UPDATE pawl.credentials SET expires_at = NULL`},
		{"credentials_never_more", `UPDATE pawl.credentials SET scopes = '{admin}'`},
		{"credentials_never_more", `UPDATE pawl.credentials SET revoked_at = NULL, revoked_by = NULL WHERE revoked_at IS NOT NULL`},
		{"credentials_revoked_whole", `UPDATE pawl.credentials SET revoked_by = NULL WHERE name = 'old'`},
		{"credentials_revoked_whole", `UPDATE pawl.credentials SET holds_name = true WHERE name = 'old'`},
		{"credentials_id", `INSERT INTO pawl.credentials (id, name, hash, scopes, created_at, created_by, request_sha256) VALUES ('x', 'a', sha256('a'), '{read}', now(), 'ops', sha256('a'))`},
		{"credentials_one_name", `INSERT INTO pawl.credentials (id, name, hash, scopes, created_at, created_by, request_sha256)
			VALUES ('2123456789abcdef', 'ci', sha256('a'), '{read}', now(), 'ops', sha256('a'))`},
		{"credentials_hash", `INSERT INTO pawl.credentials (id, name, hash, scopes, created_at, created_by, request_sha256)
			VALUES ('2123456789abcdef', 'a', sha256('s'), '{read}', now(), 'ops', sha256('a'))`},
		{"credentials_name", `UPDATE pawl.credentials SET name = repeat('x', 101) WHERE name = 'ci'`},
		{"credentials_scopes", `INSERT INTO pawl.credentials (id, name, hash, scopes, created_at, created_by, request_sha256)
			VALUES ('2123456789abcdef', 'a', sha256('a'), '{}', now(), 'ops', sha256('a'))`},
		{"sessions_never_more", `UPDATE pawl.sessions SET ends_at = ends_at + interval '1 s'`},
		{"sessions_never_more", `UPDATE pawl.sessions SET revoked_at = NULL`},
		{"sessions_never_more", `UPDATE pawl.sessions SET idle = idle * 2`},
		{"sessions_never_more", `UPDATE pawl.sessions SET subject = 'a', credential = NULL, name = 'a', scopes = '{admin}'`},
		{"sessions_whose", `INSERT INTO pawl.sessions VALUES (sha256('t'), 'a', NULL, NULL, NULL, now(), now(), now(), '1 h')`},
		{"sessions_whose", `INSERT INTO pawl.sessions VALUES (sha256('t'), 'a', '0123456789abcdef', NULL, NULL, now(), now(), now(), '1 h')`},
		{"sessions_whose", `INSERT INTO pawl.sessions VALUES (sha256('t'), '0123456789abcdef', '0123456789abcdef', NULL, '{admin}', now(), now(), now(), '1 h')`},
		{"sessions_idle", `INSERT INTO pawl.sessions VALUES (sha256('t'), 'a', NULL, 'a', '{read}', now(), now(), now(), '0')`},
		{"sessions_subject", `INSERT INTO pawl.sessions VALUES (sha256('t'), '', NULL, 'a', '{read}', now(), now(), now(), '1 h')`},
		{"sessions_credential_fkey", `INSERT INTO pawl.sessions VALUES (sha256('t'), 'ffffffffffffffff', 'ffffffffffffffff', NULL, NULL, now(), now(), now(), '1 h')`},
		{"policies_prefix", `INSERT INTO pawl.policies VALUES ('ledgers/', 'granted')`},
		{"audit_append_only", `UPDATE pawl.audit SET actor = 'nobody'`},
		{"audit_append_only", `DELETE FROM pawl.audit`},
		{"audit_append_only", `TRUNCATE pawl.audit`},
		{"audit_append_only", `INSERT INTO pawl.audit (actor, action, subject) VALUES ('a', 'b', 'c'); DELETE FROM pawl.audit`},
		{"policies_fence_mode", `INSERT INTO pawl.policies VALUES ('a', 'sometimes')`},
	} {
		err := exec(test.sql)
		var refused *pgconn.PgError
		if !errors.As(err, &refused) || refused.ConstraintName != test.constraint {
			t.Errorf("%s: got %v, want a violation of %s", test.sql, err, test.constraint)
		}
	}
}

// A page of a listing seeks: in a million keys it reads as many index entries as it has rows.
func TestListSeeks(t *testing.T) {
	t.Parallel()
	store, dsn := newStore(t)
	conn, err := pgx.Connect(context.Background(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background()) //nolint:errcheck // The test is over.
	const fill = `INSERT INTO pawl.keys (name, counter, fence, published, current_token, current_revision)
		SELECT 'p' || lpad((n % 50)::text, 2, '0') || '/' || lpad(n::text, 7, '0'), 1, 1, true, 1, 1 FROM generate_series(1, 50000) n`
	if _, err := conn.Exec(context.Background(), fill); err != nil {
		t.Fatal(err)
	}
	_ = store
	for _, query := range []string{
		`SELECT * FROM pawl.list_names('{""}', '{~}', '', true, '', 51)`,
		`SELECT * FROM pawl.list_names('{p30/}', '{p300}', 'p30/', true, 'p30/0025030', 100)`,
		`SELECT * FROM pawl.list_names('{p30/}', '{p300}', 'p30/', false, 'p30/0025030', 100)`,
		`SELECT * FROM pawl.list_names('{p30/,p31/,p33/,x/}', '{p300,p310,p330,x0}', '', false, 'p30/0049980', 50)`,
		// A range that holds nothing costs two entries: the first one behind it, and that one again where it is in a range.
		`SELECT count(*) FROM (SELECT array_agg('p10/' || lpad(n::text, 7, '0') || '!' ORDER BY n) AS lower, array_agg('p10/' || lpad(n::text, 7, '0') || '"' ORDER BY n) AS upper
			FROM generate_series(1, 50000, 500) n) r, LATERAL pawl.list_names(lower, upper, '', false, '', 50)`,
	} {
		before := indexReads(t, conn)
		if _, err := conn.Exec(context.Background(), query); err != nil {
			t.Fatal(err)
		}
		if read := indexReads(t, conn) - before; read == 0 || read > 210 {
			t.Errorf("%s read %d entries of the index, want about as many as it has rows", query, read)
		}
	}
}

// indexReads counts the entries that this database's scans of the index of published keys have returned.
func indexReads(t *testing.T, conn *pgx.Conn) (entries int64) {
	t.Helper()
	var sequential int64
	const count = `SELECT coalesce(sum(idx_tup_read), 0)::bigint, (SELECT seq_tup_read FROM pg_stat_user_tables WHERE relname = 'keys')
		FROM pg_stat_user_indexes WHERE indexrelname LIKE 'keys_%'`
	testenv.Eventually(t, flushTimeout, func() error {
		if _, err := conn.Exec(context.Background(), `SELECT pg_stat_force_next_flush()`); err != nil {
			return err
		}
		return conn.QueryRow(context.Background(), count).Scan(&entries, &sequential)
	})
	return entries + sequential
}
