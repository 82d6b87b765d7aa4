package publishtest

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// Audit returns one page of changes; see publish.AuditStore.
func (p *Pointers) Audit(ctx context.Context, req publish.AuditRequest) (publish.AuditPage, error) {
	return transact(ctx, p, "Audit", "", func(time.Time) (publish.AuditPage, error) {
		entries := slices.Clone(p.audit)
		slices.Reverse(entries)
		entries = slices.DeleteFunc(entries, func(entry publish.AuditEntry) bool {
			return req.Before != 0 && entry.ID >= req.Before || !req.Chosen(entry)
		})
		entries, more := page(entries, limitOr(req.Limit))
		result := publish.AuditPage{Entries: entries}
		if more {
			result.Next = entries[len(entries)-1].ID
		}
		return result, nil
	})
}

// RecordRefusal makes an entry of a refused request; see publish.AuditStore.
func (p *Pointers) RecordRefusal(ctx context.Context, refused publish.RefusedAction) error {
	_, err := transact(ctx, p, "RecordRefusal", "", func(now time.Time) (struct{}, error) {
		for _, entry := range p.audit {
			if entry.Refused != "" && entry.By == refused.By && entry.Action == refused.Action && entry.Subject == refused.Subject &&
				entry.At.Truncate(time.Minute).Equal(now.Truncate(time.Minute)) {
				return struct{}{}, nil
			}
		}
		p.audit = append(p.audit, publish.AuditEntry{
			ID: int64(len(p.audit) + 1), At: at(now), By: refused.By, From: p.from(), Action: refused.Action, Subject: refused.Subject, Refused: refused.Code,
		})
		return struct{}{}, nil
	})
	return err
}

// from is the address of the client whose call runs.
func (p *Pointers) from() string {
	if !p.client.IsValid() {
		return ""
	}
	return p.client.String()
}

// actor is the caller whose call runs.
func (p *Pointers) actor() publish.Actor {
	if !p.caller.Known() {
		return publish.Actor{}
	}
	return publish.Actor{Credential: p.caller.Name, From: p.from()}
}

// note records a change. Changes that have a token set it in the entry, which is theirs until the transaction ends.
func (p *Pointers) note(now time.Time, by publish.Operator, action, subject string, before, after any) *publish.AuditEntry {
	text := func(v any) json.RawMessage {
		if v == nil {
			return nil
		}
		raw, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		return raw
	}
	entry := publish.AuditEntry{
		ID: int64(len(p.audit) + 1), At: at(now), By: by, From: p.from(), Action: action, Subject: subject, Before: text(before), After: text(after),
	}
	p.audit = append(p.audit, entry)
	return &p.audit[len(p.audit)-1]
}
