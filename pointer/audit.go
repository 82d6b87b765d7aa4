package pointer

import (
	"context"

	"github.com/pawlhq/pawl/publish"
)

const auditSQL = `
SELECT coalesce(jsonb_agg(pawl.audit_json(e) ORDER BY (e).id DESC), '[]')
FROM (SELECT a FROM pawl.audit a WHERE $1 = 0 OR id < $1 ORDER BY id DESC LIMIT $2) found (e)`

// Audit returns one page of entries, newest first.
func (s *Store) Audit(ctx context.Context, before int64, limit int) (publish.AuditPage, error) {
	page := publish.AuditPage{Entries: []publish.AuditEntry{}}
	if _, err := s.read(ctx, &page.Entries, auditSQL, before, limit+1); err != nil {
		return publish.AuditPage{}, err
	}
	if len(page.Entries) > limit {
		page.Entries = page.Entries[:limit]
		page.Next = page.Entries[limit-1].ID
	}
	return page, nil
}

const recordRefusalSQL = `SELECT pawl.audit_refusal($1, $2, $3, $4)`

// RecordRefusal makes an entry of a refused request; see migration 00023.
func (s *Store) RecordRefusal(ctx context.Context, refused publish.RefusedAction) error {
	_, err := s.change(ctx, recordRefusalSQL, string(refused.By), refused.Action, refused.Subject, string(refused.Code))
	return err
}

// clientSQL is lockSQL for a call whose client is known, which the audit's entries tell.
const clientSQL = `SELECT set_config('lock_timeout', $1, true), set_config('pawl.client_address', $2, true)`
