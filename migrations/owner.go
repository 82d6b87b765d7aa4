package migrations

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// ErrOwner reports that the database was reached as a role that lacks the rights of the schema's owner.
var ErrOwner = errors.New("this takes the owner of the schema pawl")

// insufficientPrivilege is the code of Postgres for what a role may not do.
const insufficientPrivilege = "42501"

// orOwner is err, or ErrOwner where Postgres has refused something that the schema's owner may do. It is asked afterwards: a role without those rights has
// nothing to be refused while the schema is up to date.
func orOwner(ctx context.Context, conn *pgx.Conn, err error) error {
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || refused.Code != insufficientPrivilege {
		return err
	}
	if not := checkOwner(ctx, conn); errors.Is(not, ErrOwner) {
		return not
	}
	return err
}

// checkOwner is ErrOwner for a connection whose role lacks the rights of the schema's owner.
func checkOwner(ctx context.Context, conn *pgx.Conn) error {
	const ownerSQL = `
SELECT current_user::text, pg_get_userbyid(nspowner)::text, pg_has_role(nspowner, 'USAGE') FROM pg_namespace WHERE nspname = 'pawl'`
	var role, owner string
	var owns bool
	err := conn.QueryRow(ctx, ownerSQL).Scan(&role, &owner, &owns)
	switch {
	case err != nil:
		return fmt.Errorf("looking for the schema's owner: %w", err)
	case !owns:
		return fmt.Errorf("%w: it belongs to %q, and this is %q; use the address with which %q logs in", ErrOwner, owner, role, owner)
	}
	return nil
}
