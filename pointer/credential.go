package pointer

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/publish"
)

const createCredentialSQL = `SELECT pawl.create_credential($1, $2, $3, $4, $5, $6, $7)`

// CreateCredential keeps a credential; see migration 00020.
func (s *Store) CreateCredential(ctx context.Context, c publish.NewCredential) (publish.Credential, error) {
	answer, err := s.change(ctx, createCredentialSQL, string(c.ID), secret(c.RequestID), c.Hash[:], c.Name, scopeTexts(c.Scopes), lifetimeOrNull(c.Lifetime), string(c.By))
	if err != nil {
		return publish.Credential{}, err
	}
	return *answer.Credential, nil
}

const replaceCredentialSQL = `SELECT pawl.replace_credential($1, $2, $3, $4, $5, $6, $7)`

// ReplaceCredential keeps a credential in the place of another.
func (s *Store) ReplaceCredential(ctx context.Context, r publish.Replacement) (publish.Credential, error) {
	answer, err := s.change(ctx, replaceCredentialSQL, string(r.Of), string(r.ID), secret(r.RequestID), r.Hash[:], lifetimeOrNull(r.Lifetime),
		r.Overlap.Milliseconds(), string(r.By))
	if err != nil {
		return publish.Credential{}, err
	}
	return *answer.Credential, nil
}

const revokeCredentialSQL = `SELECT pawl.revoke_credential($1, $2)`

// RevokeCredential ends a credential.
func (s *Store) RevokeCredential(ctx context.Context, id publish.CredentialID, by publish.Operator) (publish.Credential, error) {
	answer, err := s.change(ctx, revokeCredentialSQL, string(id), string(by))
	if err != nil {
		return publish.Credential{}, err
	}
	return *answer.Credential, nil
}

const credentialSQL = `SELECT pawl.credential_json(c) FROM pawl.credentials c WHERE id = $1`

// Credential returns one.
func (s *Store) Credential(ctx context.Context, id publish.CredentialID) (c publish.Credential, err error) {
	found, err := s.read(ctx, &c, credentialSQL, string(id))
	if err == nil && !found {
		err = &publish.Error{Code: publish.ErrNotFound, Operation: publish.OperationCredential}
	}
	return c, err
}

// The first page begins at the beginning of the index, where an empty name would be.
const credentialsSQL = `
SELECT coalesce(jsonb_agg(pawl.credential_json(p) ORDER BY p.name, p.created_at, p.id), '[]')
FROM (SELECT c.* FROM pawl.credentials c
	WHERE (c.name, c.created_at, c.id) > (SELECT a.name, a.created_at, a.id FROM pawl.credentials a WHERE a.id = $1
		UNION ALL SELECT '', '-infinity', '' WHERE $1 = '')
	ORDER BY c.name, c.created_at, c.id LIMIT $2) p`

// Credentials returns one page.
func (s *Store) Credentials(ctx context.Context, after publish.CredentialID, limit int) (publish.CredentialPage, error) {
	page := publish.CredentialPage{Credentials: []publish.Credential{}}
	if _, err := s.read(ctx, &page.Credentials, credentialsSQL, string(after), limit+1); err != nil {
		return publish.CredentialPage{}, err
	}
	if len(page.Credentials) > limit {
		page.Credentials = page.Credentials[:limit]
		page.Next = page.Credentials[limit-1].ID
	}
	return page, nil
}

const findCredentialSQL = `
SELECT pawl.credential_json(c) || jsonb_strip_nulls(jsonb_build_object('left_ms', floor(extract(epoch FROM c.expires_at - t.t) * 1000)::bigint,
	'unnoted', pawl.credential_unnoted(c, t.t)))
FROM (SELECT clock_timestamp() AS t) t, pawl.credentials c WHERE c.hash = $1 AND pawl.credential_good(c, t.t)`

// FindCredential returns a good credential by its hash.
func (s *Store) FindCredential(ctx context.Context, hash publish.Digest) (publish.FoundCredential, error) {
	var row struct {
		publish.Credential
		LeftMS  *int64 `json:"left_ms"`
		Unnoted bool   `json:"unnoted"`
	}
	found, err := s.read(ctx, &row, findCredentialSQL, hash[:])
	if err == nil && !found {
		err = &publish.Error{Code: publish.ErrUnauthorized}
	}
	if err != nil {
		return publish.FoundCredential{}, err
	}
	left := time.Duration(-1)
	if row.LeftMS != nil {
		left = time.Duration(*row.LeftMS) * time.Millisecond
	}
	return publish.FoundCredential{Credential: row.Credential, Left: left, Unnoted: row.Unnoted}, nil
}

const useCredentialSQL = `SELECT pawl.use_credential($1)`

// UseCredential notes that a credential is used.
func (s *Store) UseCredential(ctx context.Context, id publish.CredentialID) error {
	_, err := s.change(ctx, useCredentialSQL, string(id))
	return err
}

// lifetimeOrNull is a lifetime in milliseconds, null for ever.
func lifetimeOrNull(lifetime publish.Lifetime) *int64 {
	if lifetime == publish.Never {
		return nil
	}
	ms := time.Duration(lifetime).Milliseconds()
	return &ms
}

// scopeTexts are scopes as the database keeps them.
func scopeTexts(scopes publish.Scopes) []string {
	texts := make([]string, len(scopes))
	for i, scope := range scopes {
		texts[i] = scope.String()
	}
	return texts
}
