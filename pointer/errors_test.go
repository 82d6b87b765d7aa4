package pointer

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawlhq/pawl/publish"
)

// What the server says of a statement tells that nothing was changed; what ends the connection doesn't, since a pooler says it too
// when it has lost a server that may have committed.
func TestTranslate(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		code, severity string
		changing       bool
		want           publish.Code
	}{
		{"08P01", "FATAL", true, publish.ErrOutcomeUnknown},
		{"08P01", "FATAL", false, publish.ErrUnavailable},
		{"57P01", "FATAL", true, publish.ErrOutcomeUnknown},
		{"57014", "ERROR", true, publish.ErrUnavailable},
		{"55P03", "ERROR", true, publish.ErrUnavailable},
		{"40P01", "ERROR", true, publish.ErrUnavailable},
		{"25006", "ERROR", true, publish.ErrUnavailable},
		{"42883", "ERROR", true, publish.ErrUnavailable},
		{"23514", "ERROR", true, publish.ErrInternal},
	} {
		err := translate(&pgconn.PgError{Code: test.code, SeverityUnlocalized: test.severity}, test.changing)
		if !errors.Is(err, test.want) {
			t.Errorf("%s %s, changing %v: %v, want %s", test.severity, test.code, test.changing, err, test.want)
		}
	}
}
