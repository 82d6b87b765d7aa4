package client_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/publish/publishtest"
	"github.com/pawlhq/pawl/web"
)

// serveAuth is a server that asks for credentials, and the text of the first admin's.
func serveAuth(t *testing.T) (pointers *publishtest.Pointers, url, admin string) {
	t.Helper()
	pointers = publishtest.NewPointers()
	log := slog.New(slog.DiscardHandler)
	service := &publish.Service{Pointers: pointers, Blobs: publishtest.NewBlobs(), Log: log}
	t.Cleanup(service.Close)
	handler, err := web.New(service, web.Options{Log: log, Authenticate: service.Authenticate})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	root, err := service.CreateCredential(context.Background(), publish.CreateCredentialRequest{
		Name: "root", Scopes: publish.Scopes{{Verb: publish.VerbAdmin}}, By: "ops", Admin: publish.Everything,
	})
	if err != nil {
		t.Fatal(err)
	}
	return pointers, server.URL, root.Secret.Reveal()
}

// What the client makes lets its holder in, also when the answer that brought it was lost and the request was repeated.
func TestCredentials(t *testing.T) {
	t.Parallel()
	pointers, url, admin := serveAuth(t)
	c := connect(t, url, client.Options{Credential: admin, RetryPause: time.Millisecond})
	ctx := t.Context()
	opens := func(made publish.IssuedCredential, want publish.Code) {
		t.Helper()
		_, err := connect(t, url, client.Options{Credential: made.Secret.Reveal()}).Pointer(ctx, "renders/none")
		if !errors.Is(err, want) {
			t.Errorf("with the credential %s a key that doesn't exist is %v, want %s", made.ID, err, want)
		}
	}
	pointers.Faults.Add(publishtest.Fault{Operation: "CreateCredential", Applied: true})
	made, err := c.CreateCredential(ctx, publish.CreateCredentialRequest{
		Name: "ci", Scopes: publish.Scopes{{Verb: publish.VerbPublish, Prefix: "renders/"}}, Lifetime: publish.Never,
	})
	if err != nil || made.Name != "ci" || made.ExpiresAt != nil || made.CreatedBy != "root" {
		t.Fatalf("%+v, %v", made, err)
	}
	opens(made, publish.ErrNotFound)

	pointers.Faults.Add(publishtest.Fault{Operation: "ReplaceCredential", Applied: true})
	next, err := c.RotateCredential(ctx, publish.RotateCredentialRequest{ID: made.ID, Overlap: time.Hour})
	if err != nil || next.Replaces != made.ID || next.ExpiresAt == nil {
		t.Fatalf("%+v, %v", next, err)
	}
	opens(made, publish.ErrNotFound)
	opens(next, publish.ErrNotFound)

	pointers.Faults.Add(publishtest.Fault{Operation: "RevokeCredential", Applied: true})
	revoked, err := c.RevokeCredential(ctx, made.ID)
	if err != nil || revoked.State != publish.CredentialRevoked || revoked.RevokedBy != "root" {
		t.Fatalf("%+v, %v", revoked, err)
	}
	opens(made, publish.ErrUnauthorized)
	opens(next, publish.ErrNotFound)

	var names []string
	for after := publish.CredentialID(""); ; {
		page, err := c.Credentials(ctx, after, 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, credential := range page.Credentials {
			names = append(names, credential.Name+" "+string(credential.State))
		}
		if after = page.Next; after == "" {
			break
		}
	}
	if len(names) != 3 || names[0] != "ci revoked" || names[1] != "ci active" || names[2] != "root active" {
		t.Errorf("the credentials are %q", names)
	}
	if _, err := c.CreateCredential(ctx, publish.CreateCredentialRequest{Name: "ci", Scopes: next.Scopes}); !errors.Is(err, publish.ErrCredentialConflict) {
		t.Errorf("a name that is taken: %v", err)
	}
	if _, err := connect(t, url, client.Options{}).Credentials(ctx, "", 0); !errors.Is(err, publish.ErrUnauthorized) {
		t.Errorf("without a credential: %v", err)
	}
}
