package publishtest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// credentialRow is a credential as the store keeps it.
type credentialRow struct {
	publish.Credential
	hash      publish.Digest
	request   publish.LeaseID
	lifetime  publish.Lifetime
	holdsName bool
}

func (row *credentialRow) good(now time.Time) bool {
	return row.RevokedAt == nil && (row.ExpiresAt == nil || now.Before(row.ExpiresAt.Time))
}

func (row *credentialRow) unnoted(now time.Time) bool {
	return row.LastUsedAt == nil || now.Sub(row.LastUsedAt.Time) >= publish.MinUseNoted
}

// show is what callers get of a row, in a copy of their own.
func (row *credentialRow) show(now time.Time) publish.Credential {
	shown := row.Credential
	shown.Scopes = slices.Clone(row.Scopes)
	shown.ExpiresAt, shown.LastUsedAt, shown.RevokedAt = clone(row.ExpiresAt), clone(row.LastUsedAt), clone(row.RevokedAt)
	switch {
	case row.RevokedAt != nil:
		shown.State = publish.CredentialRevoked
	case !row.good(now):
		shown.State = publish.CredentialExpired
	default:
		shown.State = publish.CredentialActive
	}
	return shown
}

// grants is what the audit says of a credential.
func (row *credentialRow) grants() map[string]any {
	said := map[string]any{"name": row.Name, "scopes": row.Scopes}
	if row.ExpiresAt != nil {
		said["expires_at"] = *row.ExpiresAt
	}
	return said
}

// AgeCredential lets time pass for one credential.
func (p *Pointers) AgeCredential(id publish.CredentialID, by time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	row, err := p.credentialOf(id)
	if err != nil {
		panic(err)
	}
	row.CreatedAt = at(row.CreatedAt.Add(-by))
	for _, moment := range []**publish.Time{&row.ExpiresAt, &row.LastUsedAt} {
		if *moment != nil {
			earlier := at((*moment).Add(-by))
			*moment = &earlier
		}
	}
}

func (p *Pointers) credential(is func(*credentialRow) bool) *credentialRow {
	if i := slices.IndexFunc(p.credentials, is); i >= 0 {
		return p.credentials[i]
	}
	return nil
}

func (p *Pointers) credentialOf(id publish.CredentialID) (*credentialRow, error) {
	if row := p.credential(func(row *credentialRow) bool { return row.ID == id }); row != nil {
		return row, nil
	}
	return nil, &publish.Error{Code: publish.ErrNotFound, Operation: publish.OperationCredential}
}

func credentialConflict(pointer, detail string) error {
	return &publish.Error{
		Code: publish.ErrCredentialConflict, Operation: publish.OperationCredential, Fields: []publish.Field{{Pointer: pointer, Detail: detail}},
	}
}

// CreateCredential keeps a credential; see publish.CredentialStore.
func (p *Pointers) CreateCredential(ctx context.Context, c publish.NewCredential) (publish.Credential, error) {
	return transact(ctx, p, "CreateCredential", "", func(now time.Time) (publish.Credential, error) {
		if row, err := p.repeatedCredential(now, c, ""); row != nil || err != nil {
			return showOr(row, now, err)
		}
		if named := p.credential(func(row *credentialRow) bool { return row.holdsName && row.Name == c.Name }); named != nil {
			if named.good(now) {
				return publish.Credential{}, credentialConflict("/name", "is that of another credential; rotate or revoke that one, or choose another name")
			}
			named.holdsName = false
		}
		row := p.addCredential(now, c, "")
		p.note(now, c.By, "create-credential", string(row.ID), nil, row.grants())
		return row.show(now), nil
	})
}

// ReplaceCredential keeps a credential in the place of another; see publish.CredentialStore.
func (p *Pointers) ReplaceCredential(ctx context.Context, r publish.Replacement) (publish.Credential, error) {
	return transact(ctx, p, "ReplaceCredential", "", func(now time.Time) (publish.Credential, error) {
		old, err := p.credentialOf(r.Of)
		if err != nil {
			return publish.Credential{}, err
		}
		c := publish.NewCredential{
			ID: r.ID, Hash: r.Hash, Name: old.Name, Scopes: old.Scopes, Lifetime: r.Lifetime, By: r.By, RequestID: r.RequestID,
		}
		if row, err := p.repeatedCredential(now, c, old.ID); row != nil || err != nil {
			return showOr(row, now, err)
		}
		switch {
		case old.RevokedAt != nil:
			return publish.Credential{}, credentialConflict("id", "is that of a revoked credential; make a new one")
		case old.ReplacedBy != "":
			return publish.Credential{}, credentialConflict("id", fmt.Sprintf("is that of a credential which was replaced already, by %s; rotate that one", old.ReplacedBy))
		case !old.good(now):
			return publish.Credential{}, credentialConflict("id", "is that of an expired credential; make a new one")
		}
		before := old.grants()
		row := p.addCredential(now, c, old.ID)
		if end := at(now.Add(r.Overlap)); old.ExpiresAt == nil || end.Before(old.ExpiresAt.Time) {
			old.ExpiresAt = &end
		}
		old.holdsName, old.ReplacedBy = false, row.ID
		after := row.grants()
		after["replaced_by"], after["overlap_until"] = row.ID, old.ExpiresAt
		p.note(now, r.By, "rotate-credential", string(old.ID), before, after)
		return row.show(now), nil
	})
}

// repeatedCredential is what an earlier request of the same id has made, with the new hash; nil if there was none.
func (p *Pointers) repeatedCredential(now time.Time, c publish.NewCredential, replaces publish.CredentialID) (*credentialRow, error) {
	row := p.credential(func(row *credentialRow) bool { return row.request == c.RequestID })
	if row == nil {
		return nil, nil
	}
	why := ""
	switch {
	case row.Name != c.Name || !slices.Equal(row.Scopes, c.Scopes) || row.lifetime != c.Lifetime || row.Replaces != replaces:
		why = "which was another request; send a new one, and the same one only to repeat the same request"
	case !row.good(now) || row.LastUsedAt != nil || row.ReplacedBy != "":
		why = "which was used or has ended since; send a new one"
	}
	if why != "" {
		return nil, &publish.Error{Code: publish.ErrInvalidRequest, Fields: []publish.Field{
			{Pointer: "Idempotency-Key", Detail: "is that of a credential that was made before, " + why},
		}}
	}
	row.hash = c.Hash
	return row, nil
}

func showOr(row *credentialRow, now time.Time, err error) (publish.Credential, error) {
	if err != nil {
		return publish.Credential{}, err
	}
	return row.show(now), nil
}

func (p *Pointers) addCredential(now time.Time, c publish.NewCredential, replaces publish.CredentialID) *credentialRow {
	for _, row := range p.credentials {
		if row.ID == c.ID || row.hash == c.Hash {
			panic("publishtest: a credential's id or text was drawn twice")
		}
	}
	row := &credentialRow{
		Credential: publish.Credential{
			ID: c.ID, Name: c.Name, Scopes: slices.Clone(c.Scopes), CreatedAt: at(now), CreatedBy: c.By, Replaces: replaces,
		},
		hash: c.Hash, request: c.RequestID, lifetime: c.Lifetime, holdsName: true,
	}
	if c.Lifetime != publish.Never {
		end := at(now.Add(time.Duration(c.Lifetime)))
		row.ExpiresAt = &end
	}
	p.credentials = append(p.credentials, row)
	return row
}

// RevokeCredential ends a credential; see publish.CredentialStore.
func (p *Pointers) RevokeCredential(ctx context.Context, id publish.CredentialID, by publish.Operator) (publish.Credential, error) {
	return transact(ctx, p, "RevokeCredential", "", func(now time.Time) (publish.Credential, error) {
		row, err := p.credentialOf(id)
		if err != nil {
			return publish.Credential{}, err
		}
		if row.RevokedAt == nil {
			p.note(now, by, "revoke-credential", string(id), row.grants(), nil)
			moment := at(now)
			row.RevokedAt, row.RevokedBy, row.holdsName = &moment, by, false
		}
		return row.show(now), nil
	})
}

// revoked reports whether a caller is a credential that was revoked.
func (p *Pointers) revoked(caller publish.CredentialID) bool {
	row, err := p.credentialOf(caller)
	return err == nil && row.RevokedAt != nil
}

// Credential returns one; see publish.CredentialStore.
func (p *Pointers) Credential(ctx context.Context, id publish.CredentialID) (publish.Credential, error) {
	return transact(ctx, p, "Credential", "", func(now time.Time) (publish.Credential, error) {
		row, err := p.credentialOf(id)
		return showOr(row, now, err)
	})
}

// Credentials returns one page; see publish.CredentialStore.
func (p *Pointers) Credentials(ctx context.Context, after publish.CredentialID, limit int) (publish.CredentialPage, error) {
	return transact(ctx, p, "Credentials", "", func(now time.Time) (publish.CredentialPage, error) {
		rows := slices.SortedFunc(slices.Values(p.credentials), func(a, b *credentialRow) int {
			return cmp.Or(cmp.Compare(a.Name, b.Name), a.CreatedAt.Compare(b.CreatedAt.Time), cmp.Compare(a.ID, b.ID))
		})
		if after != "" {
			i := slices.IndexFunc(rows, func(row *credentialRow) bool { return row.ID == after })
			if i < 0 {
				return publish.CredentialPage{Credentials: []publish.Credential{}}, nil
			}
			rows = rows[i+1:]
		}
		rows, more := page(rows, limitOr(limit))
		result := publish.CredentialPage{Credentials: []publish.Credential{}}
		for _, row := range rows {
			result.Credentials = append(result.Credentials, row.show(now))
		}
		if more {
			result.Next = rows[len(rows)-1].ID
		}
		return result, nil
	})
}

// FindCredential returns a good credential by its hash; see publish.CredentialStore.
func (p *Pointers) FindCredential(ctx context.Context, hash publish.Digest) (publish.FoundCredential, error) {
	return transact(ctx, p, "FindCredential", "", func(now time.Time) (publish.FoundCredential, error) {
		row := p.credential(func(row *credentialRow) bool { return row.hash == hash && row.good(now) })
		if row == nil {
			return publish.FoundCredential{}, &publish.Error{Code: publish.ErrUnauthorized}
		}
		found := publish.FoundCredential{Credential: row.show(now), Left: -1, Unnoted: row.unnoted(now)}
		if row.ExpiresAt != nil {
			found.Left = row.ExpiresAt.Sub(now)
		}
		return found, nil
	})
}

// UseCredential notes the use of a credential; see publish.CredentialStore.
func (p *Pointers) UseCredential(ctx context.Context, id publish.CredentialID) error {
	_, err := transact(ctx, p, "UseCredential", "", func(now time.Time) (struct{}, error) {
		if row, err := p.credentialOf(id); err == nil && row.unnoted(now) {
			moment := at(now)
			row.LastUsedAt = &moment
		}
		return struct{}{}, nil
	})
	return err
}
