package pointer

import (
	"cmp"
	"context"
	"math"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/publish"
)

const auditSQL = `SELECT pawl.audit_page($1, $2, $3, $4, $5, $6, $7, $8, $9)`

// Audit returns one page of the entries that are asked for, newest first; see migration 00028.
func (s *Store) Audit(ctx context.Context, req publish.AuditRequest) (publish.AuditPage, error) {
	before, limit := cmp.Or(req.Before, math.MaxInt64), req.Limit
	search := limit + 1
	if req.Selective() {
		search = max(search, publish.MaxAuditSearched)
	}
	var refused *bool // null for both kinds
	if req.Only != "" {
		is := req.Only == publish.AuditRefusals
		refused = &is
	}
	from, to := ranges(req.Reach, "")
	var found struct {
		Entries []publish.AuditEntry `json:"entries"`
		Last    int64                `json:"last"` // the oldest one that was looked at
		Looked  int                  `json:"looked"`
	}
	if _, err := s.read(ctx, &found, auditSQL, from, to, req.Reach.All(), publish.NamedAuditActions(), req.Prefix, refused, before, limit+1, search); err != nil {
		return publish.AuditPage{}, err
	}
	page := publish.AuditPage{Entries: found.Entries}
	if len(page.Entries) > limit {
		page.Entries = page.Entries[:limit]
		page.Next = page.Entries[limit-1].ID
	} else if found.Looked == search {
		page.Next = found.Last
	}
	return page, nil
}

const recordRefusalSQL = `SELECT pawl.audit_refusal($1, $2, $3, $4)`

// RecordRefusal makes an entry of a refused request; see migration 00023.
func (s *Store) RecordRefusal(ctx context.Context, refused publish.RefusedAction) error {
	_, err := s.change(ctx, recordRefusalSQL, string(refused.By), refused.Action, refused.Subject, string(refused.Code))
	return err
}

// actingSQL is lockSQL for a call that works for somebody, which the audit's entries tell, and all that a caller makes who is known; see migration 00027.
const actingSQL = `SELECT set_config('lock_timeout', $1, true), set_config('pawl.client_address', $2, true),
	set_config('pawl.caller', $3, true), set_config('pawl.caller_name', $4, true)`

// queueSettings puts what holds for one transaction behind its beginning.
func (s *Store) queueSettings(ctx context.Context, batch *pgx.Batch) {
	client, caller := publish.ClientOf(ctx), publish.CallerOf(ctx)
	if !client.IsValid() && !caller.Known() {
		batch.Queue(s.lockSQL)
		return
	}
	address := ""
	if client.IsValid() {
		address = client.WithZone("").String()
	}
	batch.Queue(actingSQL, s.lockTimeout, address, string(caller.Credential), caller.Name)
}
