package web

import (
	"github.com/labstack/echo/v4"

	"github.com/pawlhq/pawl/publish"
)

// notCovered adds to the answer that a key doesn't exist what else may be the reason: the caller's scopes don't cover it. All callers are told so of all keys, in the
// same words, whether a key is hidden from them or isn't there: so the answer tells neither.
func notCovered(c echo.Context, refusal *publish.Error) *publish.Error {
	asked, _ := c.Get(identifiedKey).(*call) //nolint:errcheck // Where nobody is asked for a credential, nothing is hidden.
	switch {
	case asked == nil || !asked.caller.Known():
		return refusal
	case refusal.Code != publish.ErrNotFound || refusal.Key == "" || refusal.Path != "" || refusal.Revision != 0 || refusal.ReuseFrom != 0 || refusal.Operation == publish.KindRollback:
		return refusal // It's about something else than a key or a generation of it.
	}
	told := *refusal
	told.Detail += "; a key that the scopes of a credential don't cover looks the same"
	return &told
}
