package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/pointer"
	"github.com/pawlhq/pawl/publish"
)

// credentialKeeper is where credentials are made: a server, or the database itself.
type credentialKeeper interface {
	CreateCredential(context.Context, publish.CreateCredentialRequest) (publish.IssuedCredential, error)
	RotateCredential(context.Context, publish.RotateCredentialRequest) (publish.IssuedCredential, error)
	RevokeCredential(context.Context, publish.CredentialID) (publish.Credential, error)
	Credentials(ctx context.Context, after publish.CredentialID) (publish.CredentialPage, error)
}

// withCredentials calls do with the database, if there is a setting for it and no flag names a server, or else with a server.
func (a *app) withCredentials(ctx context.Context, do func(credentialKeeper) error) error {
	var settings serverSettings
	var err error
	if settings.databaseURL, settings.database, err = a.databaseURL(); err != nil {
		return err
	}
	if settings.databaseURL == "" || a.flagGiven("url") {
		c, err := a.newClient(quickRetry)
		if err != nil {
			return err
		}
		defer c.Close()
		return do(servedCredentials{c})
	}
	if err := a.withDatabase(ctx, settings, do); err != nil {
		return settings.redacted(err)
	}
	return nil
}

func (a *app) withDatabase(ctx context.Context, settings serverSettings, do func(credentialKeeper) error) error {
	pointers, err := pointer.Open(ctx, settings.databaseURL, pointer.Options{})
	if err != nil {
		return configError{fmt.Errorf("PAWL_DATABASE_URL: %w", err)}
	}
	defer pointers.Close()
	if err := prepareSchema(ctx, settings.databaseURL, false); err != nil {
		return err
	}
	service := &publish.Service{Pointers: pointers}
	defer service.Close()
	return do(keptCredentials{service, publish.Operator(userAtHost())})
}

// servedCredentials are those of a server.
type servedCredentials struct{ *client.Client }

func (s servedCredentials) Credentials(ctx context.Context, after publish.CredentialID) (publish.CredentialPage, error) {
	return s.Client.Credentials(ctx, after, publish.MaxPageSize)
}

// keptCredentials are those of the database. Whoever has its password may do everything.
type keptCredentials struct {
	service *publish.Service
	by      publish.Operator
}

func (k keptCredentials) CreateCredential(ctx context.Context, req publish.CreateCredentialRequest) (publish.IssuedCredential, error) {
	req.By, req.Admin, req.RequestID = k.by, publish.Everything, publish.NewLeaseID()
	return untilKnown(ctx, func() (publish.IssuedCredential, error) { return k.service.CreateCredential(ctx, req) })
}

func (k keptCredentials) RotateCredential(ctx context.Context, req publish.RotateCredentialRequest) (publish.IssuedCredential, error) {
	req.By, req.Admin, req.RequestID = k.by, publish.Everything, publish.NewLeaseID()
	return untilKnown(ctx, func() (publish.IssuedCredential, error) { return k.service.RotateCredential(ctx, req) })
}

func (k keptCredentials) RevokeCredential(ctx context.Context, id publish.CredentialID) (publish.Credential, error) {
	return untilKnown(ctx, func() (publish.Credential, error) {
		return k.service.RevokeCredential(ctx, id, k.by, publish.Everything)
	})
}

func (k keptCredentials) Credentials(ctx context.Context, after publish.CredentialID) (publish.CredentialPage, error) {
	return k.service.Credentials(ctx, after, publish.MaxPageSize, publish.Everything)
}

// lostAnswerPause is how long to wait before a change of the database is repeated whose outcome is unknown.
const lostAnswerPause = 500 * time.Millisecond

// untilKnown repeats a change whose answer was lost, a few times.
func untilKnown[T any](ctx context.Context, change func() (T, error)) (result T, err error) {
	var unknown error
	for range 5 {
		if result, err = change(); errors.Is(err, publish.ErrOutcomeUnknown) {
			unknown = err
		}
		if err == nil || unknown == nil || !errors.Is(err, publish.ErrOutcomeUnknown) && !errors.Is(err, publish.ErrUnavailable) {
			return result, err
		}
		select {
		case <-time.After(lostAnswerPause):
		case <-ctx.Done():
			return result, unknown
		}
	}
	return result, unknown
}
