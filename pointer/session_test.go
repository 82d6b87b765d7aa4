package pointer_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// session is one connection that a test holds at a dangerous point: inside its transaction, after a call and before
// its commit.
type session struct {
	t    *testing.T
	conn *pgx.Conn
	tx   pgx.Tx
	// beforeCommit, if set, runs when behind lets this session commit.
	beforeCommit func()
}

// answer is what one of the schema's functions returned.
type answer struct {
	Refused *publish.Error   `json:"refused"`
	Lease   *publish.Lease   `json:"lease"`
	Receipt *publish.Receipt `json:"receipt"`
	Effect  *publish.Effect  `json:"effect"`
	Number  int64            `json:"upload_no"`
	Done    bool             `json:"done"`
}

// code is the refusal's code, or "" for a success.
func (a answer) code() publish.Code {
	if a.Refused == nil {
		return ""
	}
	return a.Refused.Code
}

// open begins a transaction on a connection of its own.
func open(t *testing.T, dsn string) *session {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(ctx) })
	s := &session{t: t, conn: conn}
	s.begin()
	return s
}

func (s *session) begin() {
	s.t.Helper()
	var err error
	if s.tx, err = s.conn.BeginTx(context.Background(), pgx.TxOptions{IsoLevel: pgx.ReadCommitted}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *session) call(sql string, args ...any) answer {
	s.t.Helper()
	a, err := s.try(sql, args...)
	if err != nil {
		s.t.Fatalf("%s: %v", sql, err)
	}
	return a
}

func (s *session) try(sql string, args ...any) (answer, error) {
	var text []byte
	if err := s.tx.QueryRow(context.Background(), sql, args...).Scan(&text); err != nil {
		return answer{}, err
	}
	var a answer
	return a, json.Unmarshal(text, &a)
}

func (s *session) exec(sql string, args ...any) int64 {
	s.t.Helper()
	tag, err := s.tx.Exec(context.Background(), sql, args...)
	if err != nil {
		s.t.Fatalf("%s: %v", sql, err)
	}
	return tag.RowsAffected()
}

func (s *session) commit() {
	s.t.Helper()
	if err := s.tx.Commit(context.Background()); err != nil {
		s.t.Fatal(err)
	}
}

// behind starts the call in this session, waits until it is blocked by the other session's locks, lets the other commit, and returns
// what the call came to. It fails when the call doesn't wait: the schedule would not be the dangerous one.
func (s *session) behind(other *session, sql string, args ...any) answer {
	s.t.Helper()
	type result struct {
		answer answer
		err    error
	}
	done := make(chan result, 1)
	go func() {
		a, err := s.try(sql, args...)
		done <- result{a, err}
	}()
	testenv.Eventually(s.t, 10*time.Second, func() error {
		select {
		case r := <-done:
			s.t.Fatalf("the call did not wait for the other session: %+v, %v", r.answer, r.err)
		default:
		}
		var blocked bool
		err := other.tx.QueryRow(context.Background(), "SELECT $1::int IN "+
			"(SELECT pid FROM pg_stat_activity WHERE pg_backend_pid() = ANY (pg_blocking_pids(pid)))",
			int32(s.conn.PgConn().PID())).Scan(&blocked)
		if err == nil && !blocked {
			err = errNotYet
		}
		return err
	})
	if other.beforeCommit != nil {
		other.beforeCommit()
	}
	other.commit()
	r := <-done
	if r.err != nil {
		s.t.Fatalf("%s: %v", sql, r.err)
	}
	s.commit()
	return r.answer
}

type notYet struct{}

func (notYet) Error() string { return "not yet" }

var errNotYet error = notYet{}
