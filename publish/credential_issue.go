package publish

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode"
)

// CreateCredentialRequest asks for a credential.
type CreateCredentialRequest struct {
	Name     string
	Scopes   Scopes
	Lifetime Lifetime
	By       Operator
	// Admin is the keys on which whoever asks has the verb admin: more can't be handed on. The zero Reach hands on nothing.
	Admin Reach
	// RequestID names this request, so that one whose answer was lost can be repeated; another request needs another one. If it is zero the
	// Service draws one.
	RequestID LeaseID
}

// RotateCredentialRequest asks for a credential of the name and the scopes of another.
type RotateCredentialRequest struct {
	ID       CredentialID // of the other one
	Lifetime Lifetime
	// Overlap is how long the other one stays good; 0 ends it now.
	Overlap time.Duration
	By      Operator
	// Admin and RequestID are as those of CreateCredentialRequest.
	Admin     Reach
	RequestID LeaseID
}

// IssuedCredential is a credential with its text, which nobody can be told again.
type IssuedCredential struct {
	Credential
	Secret Secret `json:"-"`
	// Repeated tells that the request had been answered before: the text of that answer opens nothing now.
	Repeated bool `json:"-"`
}

// CreateCredential makes a credential. Scopes beyond Admin are forbidden. Repeating a request whose answer was lost, with its RequestID, gives the same
// credential with another text, as long as it wasn't used; see CredentialStore for this and other refusals.
func (s *Service) CreateCredential(ctx context.Context, req CreateCredentialRequest) (IssuedCredential, error) {
	if err := validateCredential(req.Name, req.Scopes, req.Lifetime); err != nil {
		return IssuedCredential{}, err
	}
	if err := req.By.validate(); err != nil {
		return IssuedCredential{}, err
	}
	for _, scope := range req.Scopes {
		if !(Scopes{scope}).Within(req.Admin) {
			needed := Scope{Verb: VerbAdmin, Prefix: scope.Prefix}
			return IssuedCredential{}, s.refused(ctx, &Error{
				Code: ErrForbidden, Scope: needed.String(),
				Detail: fmt.Sprintf("the scope %q can be given only by who has the scope %q, or a wider one", scope, needed),
			})
		}
	}
	secret, id := NewSecret(), NewCredentialID()
	made, err := s.Pointers.CreateCredential(ctx, NewCredential{
		ID: id, Hash: secret.Hash(), Name: req.Name, Scopes: req.Scopes, Lifetime: lifetimeOr(req.Lifetime), By: req.By, RequestID: requestID(req.RequestID),
	})
	return s.issued(ctx, made, id, secret, err)
}

// RotateCredential makes a credential in the place of another, which ends after the overlap. One with scopes beyond Admin reads as not found.
func (s *Service) RotateCredential(ctx context.Context, req RotateCredentialRequest) (IssuedCredential, error) {
	switch {
	case !req.Lifetime.valid():
		return IssuedCredential{}, errLifetime()
	case req.Overlap < 0 || req.Overlap > MaxOverlap:
		return IssuedCredential{}, invalid("/overlap", "must be from 0s to %s", MaxOverlap)
	}
	if err := req.By.validate(); err != nil {
		return IssuedCredential{}, err
	}
	if err := s.administered(ctx, req.ID, req.Admin); err != nil {
		return IssuedCredential{}, err
	}
	secret, id := NewSecret(), NewCredentialID()
	defer s.sessions.forget(req.ID)
	defer s.callers.forget(req.ID)
	made, err := s.Pointers.ReplaceCredential(ctx, Replacement{
		Of: req.ID, ID: id, Hash: secret.Hash(), Lifetime: lifetimeOr(req.Lifetime), Overlap: req.Overlap, By: req.By, RequestID: requestID(req.RequestID),
	})
	return s.issued(ctx, made, id, secret, err)
}

// issued gives a credential out. If the request was a repetition, the credential isn't the one that was drawn for it, and the text that it had before is worth nothing now.
func (s *Service) issued(ctx context.Context, made Credential, drawn CredentialID, secret Secret, err error) (IssuedCredential, error) {
	if err != nil {
		return IssuedCredential{}, s.refused(ctx, err)
	}
	s.callers.forget(made.ID)
	return IssuedCredential{Credential: made, Secret: secret, Repeated: made.ID != drawn}, nil
}

// RevokeCredential ends a credential for good: in this process at once, in others as soon as they forget it, within 5 s. Repeating it is no error. admin is
// the keys on which whoever asks has the verb admin; a credential with scopes beyond them reads as not found.
func (s *Service) RevokeCredential(ctx context.Context, id CredentialID, by Operator, admin Reach) (Credential, error) {
	if err := by.validate(); err != nil {
		return Credential{}, err
	}
	if err := s.administered(ctx, id, admin); err != nil {
		return Credential{}, err
	}
	defer s.sessions.forget(id) // Also after a lost answer.
	defer s.callers.forget(id)
	revoked, err := s.Pointers.RevokeCredential(ctx, id, by)
	return revoked, s.refused(ctx, err)
}

// Credentials returns one page of the credentials whose scopes all lie within admin. It names no other one, not even as the Next.
func (s *Service) Credentials(ctx context.Context, after CredentialID, limit int, admin Reach) (CredentialPage, error) {
	limit, err := pageLimit(limit)
	if err != nil {
		return CredentialPage{}, err
	}
	read := limit
	if !admin.All() {
		read = MaxPageSize // However few are asked for: those between them may be many.
	}
	for shown := []Credential{}; ; {
		page, err := s.Pointers.Credentials(ctx, after, read)
		if err != nil {
			return CredentialPage{}, s.refused(ctx, err)
		}
		for _, c := range page.Credentials {
			switch {
			case !c.Scopes.Within(admin):
			case len(shown) == limit:
				return CredentialPage{Credentials: shown, Next: shown[limit-1].ID}, nil
			default:
				shown = append(shown, c)
			}
		}
		if after = page.Next; after == "" || len(shown) == limit {
			return CredentialPage{Credentials: shown, Next: after}, nil
		}
	}
}

// Credential returns one. A credential with scopes beyond admin reads as not found.
func (s *Service) Credential(ctx context.Context, id CredentialID, admin Reach) (Credential, error) {
	c, err := s.Pointers.Credential(ctx, id)
	if err == nil && !c.Scopes.Within(admin) {
		err = &Error{Code: ErrNotFound, Operation: OperationCredential}
	}
	if err != nil {
		return Credential{}, s.refused(ctx, err)
	}
	return c, nil
}

// administered checks that a credential opens nothing beyond admin. Its scopes never change, so what is found here holds later.
func (s *Service) administered(ctx context.Context, id CredentialID, admin Reach) error {
	if admin.All() {
		return nil
	}
	_, err := s.Credential(ctx, id, admin)
	return err
}

func validateCredential(name string, scopes Scopes, lifetime Lifetime) error {
	switch {
	case name == "" || len(name) > MaxCredentialNameBytes:
		return invalid("/name", "must have 1 to %d bytes", MaxCredentialNameBytes)
	case textFault(name) != "":
		return invalid("/name", "%s", textFault(name))
	case strings.ContainsFunc(name, Unseen) || strings.TrimSpace(name) != name:
		return invalid("/name", "has a character that isn't seen, or a space at an end; remove it: the name says who has done something")
	case len(scopes) == 0 || len(scopes) > MaxScopes:
		return invalid("/scopes", "must be 1 to %d scopes, such as publish:renders/", MaxScopes)
	case !lifetime.valid():
		return errLifetime()
	}
	for i, scope := range scopes {
		if scope.Verb <= VerbNone || scope.Verb > VerbAdmin {
			return invalid(fmt.Sprintf("/scopes/%d", i), "has no verb")
		}
		if _, err := ParseScope(scope.String()); err != nil {
			return err
		}
	}
	return nil
}

// Unseen reports whether a character shows as nothing, or as a space that is none: two names that differ by it look the same.
func Unseen(r rune) bool {
	return unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) || r != ' ' && unicode.IsSpace(r)
}

func errLifetime() error {
	_, err := ParseLifetime("/expires_in", "")
	return err
}

func lifetimeOr(lifetime Lifetime) Lifetime {
	if lifetime == 0 {
		return DefaultLifetime
	}
	return lifetime
}

func requestID(id LeaseID) LeaseID {
	if id.IsZero() {
		return NewLeaseID()
	}
	return id
}
