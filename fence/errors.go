package fence

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawlhq/pawl/publish"
)

// SQLState is the SQLSTATE by which the SQL functions refuse a stale token, for callers that don't come through this package.
const SQLState = "PWF01"

// ErrStale is the kind of StaleError. It is the kind by which Pawl itself refuses stale tokens, since it means the same to a worker:
// this output is out of date and must not be retried.
const ErrStale = publish.ErrStaleToken

// StaleError is a refused transaction: a newer token has passed before. It is an expected outcome for a worker that was paused.
type StaleError struct {
	// Resource is what was checked; "" from Update, which doesn't know it.
	Resource string `json:"resource"`
	// Token is the one that was refused.
	Token publish.Token `json:"token"`
	// Fence is the greatest token that has passed; 0 from Update, which doesn't know it.
	Fence publish.Token `json:"fence"`

	cause error // Postgres's refusal; nil from Update
}

// Repeated tells that CheckOnce met its own token: what was to be written once was committed before, under this token.
func (e *StaleError) Repeated() bool { return e.Token == e.Fence }

// Error names both tokens.
func (e *StaleError) Error() string {
	switch {
	case e.Fence == 0:
		return fmt.Sprintf("%s: no row was changed under token %d: a newer token has written it, or it doesn't exist", ErrStale, e.Token)
	case e.Repeated():
		return fmt.Sprintf("%s: token %d of %s was used before, and may be used once", ErrStale, e.Token, e.Resource)
	}
	return fmt.Sprintf("%s: token %d of %s is stale: token %d has passed", ErrStale, e.Token, e.Resource, e.Fence)
}

// Unwrap joins the error to its kind and, where there is one, to the *pgconn.PgError that it came as.
func (e *StaleError) Unwrap() []error {
	if e.cause == nil {
		return []error{ErrStale}
	}
	return []error{ErrStale, e.cause}
}

// translate turns what Postgres says about a call of the SQL functions into errors of this package.
func translate(err error) error {
	if err == nil {
		return nil
	}
	var refused *pgconn.PgError
	if !errors.As(err, &refused) {
		return fmt.Errorf("checking the fence: %w", err)
	}
	switch refused.Code {
	case SQLState:
		stale := &StaleError{cause: err}
		if err := json.Unmarshal([]byte(refused.Detail), stale); err != nil {
			return fmt.Errorf("checking the fence: %w (its detail can't be read: %w)", stale, err)
		}
		return stale
	case "22023": // invalid_parameter_value, of our functions
		code := publish.ErrInvalidRequest
		if refused.ColumnName == "token" {
			code = publish.ErrInvalidToken
		}
		return publish.InvalidField(code, refused.ColumnName, refused.Detail)
	case "22021": // character_not_in_repertoire
		return publish.InvalidField(publish.ErrInvalidRequest, "resource", "must be valid text of the database's encoding, without NUL")
	case "42883", "42P01", "3F000": // undefined function, table, schema
		return fmt.Errorf("checking the fence: it isn't installed in this schema or search_path; call fence.Install, or run fence.sql: %w", err)
	}
	return fmt.Errorf("checking the fence: %w", err)
}
