package pointer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawlhq/pawl/publish"
)

// translate turns an error of the driver into one of ours. changing says that the call may have changed
// something: when its connection breaks after the request was sent, nobody knows whether it did.
func translate(err error, changing bool) error {
	var refused *pgconn.PgError
	var dial *pgconn.ConnectError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &dial), pgconn.SafeToRetry(err):
		return publish.Unavailable("Postgres", err)
	case errors.As(err, &refused):
		return translateRefused(refused, err, changing)
	case errors.Is(err, context.Canceled):
		return err // The caller went away; nobody waits for an answer.
	case changing:
		return outcomeUnknown(err)
	default:
		return publish.Unavailable("Postgres", err)
	}
}

// translateRefused sorts what Postgres says itself. An error of the statement means that nothing was changed. The end of a connection
// doesn't: a pooler in between says so in Postgres's name when it has lost the server, which may have committed by then.
func translateRefused(refused *pgconn.PgError, err error, changing bool) error {
	if refused.Code == undoneState {
		return undone(refused, err)
	}
	class := refused.Code[:min(2, len(refused.Code))]
	switch {
	case changing && (class == "08" || refused.SeverityUnlocalized == "FATAL" || refused.SeverityUnlocalized == "PANIC"):
		return outcomeUnknown(err)
	case class == "08", class == "53", class == "57", class == "58", class == "40",
		refused.Code == "55P03", // lock_not_available
		refused.Code == "3D000": // invalid_catalog_name: the database is gone
		return publish.Unavailable("Postgres", err)
	case refused.Code == "25006", // read_only_sql_transaction: a standby
		refused.Code == "55000" && strings.Contains(refused.Message, "recovery"): // a standby, before the first write
		return &publish.Error{
			Code: publish.ErrUnavailable, Cause: err,
			Detail: "Postgres takes no changes just now, as a standby doesn't; nothing was changed. If it stays so, name the primary in PAWL_DATABASE_URL",
		}
	case refused.Code == "42P01", refused.Code == "42883", refused.Code == "3F000": // undefined table, function, schema
		return publish.Unavailable("Postgres (its schema is missing or older than this program: run pawl migrate)", err)
	default:
		return &publish.Error{Code: publish.ErrInternal, Detail: "Postgres refused the request", Cause: fmt.Errorf("calling Postgres: %w", err)}
	}
}

// undoneState is the state of refusals that undo what their transaction has done: the functions raise it, with the refusal as detail.
const undoneState = "PW413"

func undone(refused *pgconn.PgError, cause error) error {
	var facts publish.Error
	if err := json.Unmarshal([]byte(refused.Detail), &facts); err != nil || facts.Code == "" {
		return &publish.Error{Code: publish.ErrInternal, Detail: "Postgres refused the request", Cause: fmt.Errorf("reading its refusal: %w", errors.Join(err, cause))}
	}
	return &facts
}

func outcomeUnknown(cause error) error {
	return &publish.Error{
		Code: publish.ErrOutcomeUnknown, Cause: cause,
		Detail: "the connection to Postgres broke before the answer; repeat the request to learn the outcome",
	}
}
