package web

import (
	"fmt"

	"github.com/labstack/echo/v4"

	"github.com/pawlhq/pawl/publish"
)

// scopesTold bounds how many scopes an answer lists.
const scopesTold = 5

// notCovered adds to the answer that a key doesn't exist what else may be the reason: the caller's scopes don't cover it. The answer says so, in the same words, of keys
// that don't exist and of those that are hidden from the caller, so it tells nothing but the scopes, which are his own. For who may read all keys there is no other reason.
func notCovered(c echo.Context, refusal *publish.Error) *publish.Error {
	asked, _ := c.Get(identifiedKey).(*call) //nolint:errcheck // Where nobody is asked for a credential, nothing is hidden.
	switch {
	case asked == nil || !asked.caller.Known() || asked.reach().All():
		return refusal
	case refusal.Code != publish.ErrNotFound || refusal.Key == "" || refusal.Path != "" || refusal.Revision != 0 || refusal.ReuseFrom != 0 || refusal.Operation == publish.KindRollback:
		return refusal // It's about something else than a key or a generation of it.
	}
	told := *refusal
	told.Detail = fmt.Sprintf("%s; a key that the scopes of this credential (%s) don't cover looks the same", refusal.Detail, scopesText(asked.caller.Scopes))
	return &told
}

// scopesText lists the first scopes, and says how many more there are.
func scopesText(scopes publish.Scopes) string {
	if more := len(scopes) - scopesTold; more > 0 {
		return fmt.Sprintf("%s and %d more", scopes[:scopesTold], more)
	}
	return scopes.String()
}
