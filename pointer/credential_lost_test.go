package pointer_test

import (
	"errors"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/pointer"
	"github.com/pawlhq/pawl/publish"
)

// A request whose answer was lost, carried out or not, is repeated with another text: one credential is made, that text opens it, and the lost one nothing.
func TestCredentialLostAnswers(t *testing.T) {
	t.Parallel()
	for _, fault := range []struct {
		name string
		set  func(*testenv.FaultProxy, string) <-chan struct{}
	}{
		{"not applied", (*testenv.FaultProxy).CutRequest},
		{"applied, answer lost", (*testenv.FaultProxy).LoseAnswer},
	} {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			proxy, through := testenv.PostgresProxy(t, testenv.Postgres(t))
			store := openStore(t, through)
			lost := func(text string, call func() error) {
				t.Helper()
				sprung := fault.set(proxy, text)
				if err := call(); !errors.Is(err, publish.ErrOutcomeUnknown) {
					t.Fatalf("%v, want outcome-unknown", err)
				}
				<-sprung
				testenv.Eventually(t, 10*time.Second, call)
			}
			good := func(hash publish.Digest, want bool) {
				t.Helper()
				if _, err := store.FindCredential(ctx, hash); (err == nil) != want || err != nil && !errors.Is(err, publish.ErrUnauthorized) {
					t.Errorf("a text opens: %v, want %t", err, want)
				}
			}
			req := publish.NewCredential{Name: "ready", Scopes: publish.Scopes{{Verb: publish.VerbRead}}, Lifetime: publish.DefaultLifetime, By: "ops"}
			makeReady(t, store, req) // It prepares the statements on the connection.

			req.Name, req.RequestID = "lost-name", publish.NewLeaseID()
			var texts []publish.Digest
			var made publish.Credential
			lost("lost-name", func() (err error) {
				req.ID, req.Hash = publish.NewCredentialID(), publish.NewSecret().Hash()
				texts = append(texts, req.Hash)
				made, err = store.CreateCredential(ctx, req)
				return err
			})
			good(texts[0], false)
			good(req.Hash, true)

			next := publish.Replacement{Of: made.ID, Lifetime: publish.Never, Overlap: time.Hour, By: "ops", RequestID: publish.NewLeaseID()}
			var replaced publish.Credential
			lost(string(made.ID), func() (err error) {
				next.ID, next.Hash = publish.NewCredentialID(), publish.NewSecret().Hash()
				texts = append(texts, next.Hash)
				replaced, err = store.ReplaceCredential(ctx, next)
				return err
			})
			good(req.Hash, true)
			good(next.Hash, true)
			good(texts[len(texts)-2], false)

			lost(string(made.ID), func() error { _, err := store.RevokeCredential(ctx, made.ID, "ops"); return err })
			good(req.Hash, false)
			good(next.Hash, true)
			page, err := store.Credentials(ctx, "", 10)
			if err != nil || len(page.Credentials) != 4 || page.Credentials[1].ID != replaced.ID {
				t.Errorf("the credentials are %+v, %v", page, err)
			}
			audit, err := store.Audit(ctx, publish.AuditRequest{Reach: publish.Everything, Limit: 10})
			if err != nil || len(audit.Entries) != 6 {
				t.Errorf("the audit is %+v, %v", audit, err)
			}
		})
	}
}

// makeReady makes, replaces and revokes a credential.
func makeReady(t *testing.T, store *pointer.Store, req publish.NewCredential) {
	t.Helper()
	req.ID, req.Hash, req.RequestID = publish.NewCredentialID(), publish.NewSecret().Hash(), publish.NewLeaseID()
	made, err := store.CreateCredential(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	next := publish.Replacement{
		Of: made.ID, ID: publish.NewCredentialID(), Hash: publish.NewSecret().Hash(), Lifetime: publish.Never, By: "ops", RequestID: publish.NewLeaseID(),
	}
	if _, err := store.ReplaceCredential(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	if _, err := store.RevokeCredential(t.Context(), made.ID, "ops"); err != nil {
		t.Fatal(err)
	}
}
