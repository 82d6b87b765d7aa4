package client

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// everyCall makes each call of the Client that asks a server, by the names of its methods; "(…)" tells further ways of one method.
func everyCall(t *testing.T) map[string]func(context.Context, *Client) error {
	t.Helper()
	name := t.TempDir() + "/file"
	writeFile(t, name, "bytes")
	version := publish.Version{Token: 17, Revision: 1}
	upload := func() publish.UploadRequest {
		return publish.UploadRequest{Grant: grant, Path: "a", Size: 5, Body: strings.NewReader("bytes")}
	}
	file := FileUpload{
		Grant: grant, Path: "a", Source: strings.NewReader("bytes"), Size: 5,
		Digest: sha256.Sum256([]byte("bytes")), Mode: DirectAlways,
	}
	bound := func(c *Client) Lease {
		return Lease{Lease: publish.Lease{Key: grant.Key, Token: grant.Token, LeaseID: grant.LeaseID}, client: c}
	}
	acquire := publish.AcquireRequest{Key: grant.Key, Holder: "me", TTL: time.Minute}
	return map[string]func(context.Context, *Client) error{
		"Acquire": func(ctx context.Context, c *Client) error { _, err := c.Acquire(ctx, acquire); return err },
		"Renew": func(ctx context.Context, c *Client) error {
			_, err := c.Renew(ctx, grant.Key, grant.LeaseID, 0)
			return err
		},
		"Release": func(ctx context.Context, c *Client) error { return c.Release(ctx, grant.Key, grant.LeaseID) },
		"Lease":   func(ctx context.Context, c *Client) error { _, err := c.Lease(ctx, grant.Key); return err },
		"Run": func(ctx context.Context, c *Client) error {
			return c.Run(ctx, grant.Key, func(context.Context, *Lease) error { panic("it runs without a lease") })
		},
		"Upload":           func(ctx context.Context, c *Client) error { _, err := c.Upload(ctx, upload()); return err },
		"UploadAndPublish": func(ctx context.Context, c *Client) error { _, err := c.UploadAndPublish(ctx, upload()); return err },
		"Upload (a stream)": func(ctx context.Context, c *Client) error {
			_, err := c.Upload(ctx, publish.UploadRequest{Grant: grant, Path: "a", Size: -1, Body: bytes.NewBufferString("bytes")})
			return err
		},
		"UploadFile":  func(ctx context.Context, c *Client) error { _, err := c.UploadFile(ctx, file); return err },
		"AbortUpload": func(ctx context.Context, c *Client) error { return c.AbortUpload(ctx, file) },
		"DeleteFile":  func(ctx context.Context, c *Client) error { return c.DeleteFile(ctx, grant, "a") },
		"Publish": func(ctx context.Context, c *Client) error {
			_, err := c.Publish(ctx, publish.PublishRequest{Grant: grant, Final: true})
			return err
		},
		"Rollback": func(ctx context.Context, c *Client) error {
			_, err := c.Rollback(ctx, publish.RollbackRequest{Key: grant.Key, To: version, Reason: "bad"})
			return err
		},
		"Retire": func(ctx context.Context, c *Client) error {
			_, err := c.Retire(ctx, publish.RetireRequest{Key: grant.Key})
			return err
		},
		"Pin": func(ctx context.Context, c *Client) error {
			_, err := c.Pin(ctx, publish.PinRequest{Key: grant.Key, Reason: "good"})
			return err
		},
		"BreakLease": func(ctx context.Context, c *Client) error {
			_, err := c.BreakLease(ctx, publish.BreakLeaseRequest{Key: grant.Key, Token: 1, Reason: "gone"})
			return err
		},
		"Unpin": func(ctx context.Context, c *Client) error {
			return c.Unpin(ctx, publish.UnpinRequest{Key: grant.Key, By: "me"})
		},
		"Policies": func(ctx context.Context, c *Client) error { _, err := c.Policies(ctx, nil, 0); return err },
		"SetPolicy": func(ctx context.Context, c *Client) error {
			return c.SetPolicy(ctx, publish.Policy{Prefix: "thumbs"}, "me")
		},
		"UnsetPolicy":          func(ctx context.Context, c *Client) error { return c.UnsetPolicy(ctx, "thumbs", "me") },
		"Audit":                func(ctx context.Context, c *Client) error { _, err := c.Audit(ctx, publish.AuditRequest{}); return err },
		"Publish (of a Lease)": func(ctx context.Context, c *Client) error { _, err := bound(c).Publish(ctx); return err },
		"Upload (of a Lease)": func(ctx context.Context, c *Client) error {
			_, err := bound(c).Upload(ctx, "a", strings.NewReader("bytes"))
			return err
		},
		"UploadFile (of a Lease)": func(ctx context.Context, c *Client) error { _, err := bound(c).UploadFile(ctx, "a", name); return err },
		"Pointer":                 func(ctx context.Context, c *Client) error { _, err := c.Pointer(ctx, grant.Key); return err },
		"WaitPointer": func(ctx context.Context, c *Client) error {
			_, _, err := c.WaitPointer(ctx, grant.Key, &version, time.Minute)
			return err
		},
		"List": func(ctx context.Context, c *Client) error { _, err := c.List(ctx, publish.ListRequest{}); return err },
		"ListAll": func(ctx context.Context, c *Client) (err error) {
			for _, err = range c.ListAll(ctx, publish.ListRequest{}) {
			}
			return err
		},
		"History":    func(ctx context.Context, c *Client) error { _, err := c.History(ctx, grant.Key, 0, 0); return err },
		"Generation": func(ctx context.Context, c *Client) error { _, err := c.Generation(ctx, grant.Key, 17); return err },
		"Files":      func(ctx context.Context, c *Client) error { _, err := c.Files(ctx, grant.Key, 17, "", 0); return err },
		"FilesAt": func(ctx context.Context, c *Client) error {
			_, err := c.FilesAt(ctx, grant.Key, version, "", 0)
			return err
		},
		"AllFiles": func(ctx context.Context, c *Client) (err error) {
			for _, err = range c.AllFiles(ctx, grant.Key, version) {
			}
			return err
		},
		"Open": func(ctx context.Context, c *Client) error {
			_, err := c.Open(ctx, grant.Key, 17, "a", publish.LeaseID{})
			return err
		},
		"OpenFile": func(ctx context.Context, c *Client) error {
			_, err := c.OpenFile(ctx, grant.Key, version, publish.File{Path: "a", Size: 5}, 0, nil)
			return err
		},
		"Effect": func(ctx context.Context, c *Client) error { _, err := c.Effect(ctx, grant, "invoice-52"); return err },
		"EffectDone": func(ctx context.Context, c *Client) error {
			_, err := c.EffectDone(ctx, grant, "invoice-52", "ok")
			return err
		},
		"Effect (of a Lease)": func(ctx context.Context, c *Client) error { _, err := bound(c).Effect(ctx, "invoice-52"); return err },
		"EffectDone (of a Lease)": func(ctx context.Context, c *Client) error {
			_, err := bound(c).EffectDone(ctx, "invoice-52", "ok")
			return err
		},
		"Effects": func(ctx context.Context, c *Client) error { _, err := c.Effects(ctx, grant.Key, "", 0); return err },
		"AllEffects": func(ctx context.Context, c *Client) (err error) {
			for _, err = range c.AllEffects(ctx, grant.Key) {
			}
			return err
		},
		"Events": func(ctx context.Context, c *Client) error {
			_, err := c.Events(ctx, publish.EventsRequest{})
			return err
		},
		"Watch": func(ctx context.Context, c *Client) (err error) {
			for _, err = range c.Watch(ctx, "", nil) {
			}
			return err
		},
		"Rejections": func(ctx context.Context, c *Client) error {
			_, err := c.Rejections(ctx, publish.RejectionsRequest{})
			return err
		},
		"Leases": func(ctx context.Context, c *Client) error {
			_, err := c.Leases(ctx, publish.LeasesRequest{})
			return err
		},
		"Credentials": func(ctx context.Context, c *Client) error { _, err := c.Credentials(ctx, "", 0); return err },
		"CreateCredential": func(ctx context.Context, c *Client) error {
			_, err := c.CreateCredential(ctx, publish.CreateCredentialRequest{Name: "ci", Scopes: publish.Scopes{{Verb: publish.VerbRead}}})
			return err
		},
		"RotateCredential": func(ctx context.Context, c *Client) error {
			_, err := c.RotateCredential(ctx, publish.RotateCredentialRequest{ID: publish.NewCredentialID()})
			return err
		},
		"RevokeCredential": func(ctx context.Context, c *Client) error {
			_, err := c.RevokeCredential(ctx, publish.NewCredentialID())
			return err
		},
		"Resolve": func(ctx context.Context, c *Client) error {
			_, err := c.Resolve(ctx, []publish.Key{grant.Key})
			return err
		},
	}
}

// A call that is added to the Client is added to the table: each method that takes a context, but KeepLease, which asks nothing by itself.
func TestEveryCallIsThere(t *testing.T) {
	t.Parallel()
	calls := everyCall(t)
	of := reflect.TypeFor[*Client]()
	for i := range of.NumMethod() {
		method := of.Method(i)
		asks := method.Type.NumIn() > 1 && method.Type.In(1) == reflect.TypeFor[context.Context]()
		if _, there := calls[method.Name]; asks && !there && method.Name != "KeepLease" {
			t.Errorf("everyCall lacks %s", method.Name)
		}
	}
}

// What was answered as stale is never repeated, whatever the call and whatever else the answer says.
func TestNoCallRepeatsAStaleAnswer(t *testing.T) {
	t.Parallel()
	for name, call := range everyCall(t) {
		f := newFake(t, refuse(stale(), "Retry-After", "0"))
		err := call(testContext(t), f.client(t, Options{}))
		refusal, ok := errors.AsType[*publish.Error](err)
		if !errors.Is(err, publish.ErrStaleToken) || !ok || refusal.Token != 17 || refusal.AcceptedToken != 18 {
			t.Errorf("%s: got %v", name, err)
		}
		if f.count() != 1 {
			t.Errorf("%s: %d requests", name, f.count())
		}
	}
}

// Every call ends soon with its context: while it waits for an answer, and while it waits before a repetition.
func TestEveryCallEndsWithItsContext(t *testing.T) {
	t.Parallel()
	silent := func(asked func()) http.HandlerFunc {
		return func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			asked()
			<-r.Context().Done()
		}
	}
	busy := func(asked func()) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			refuse(publish.Unavailable("Postgres", nil), "Retry-After", "60")(w, r)
			asked()
		}
	}
	for waits, answers := range map[string]func(func()) http.HandlerFunc{"for an answer": silent, "to repeat": busy} {
		for name, call := range everyCall(t) {
			t.Run(name+" "+waits, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithCancel(testContext(t))
				defer cancel()
				f := newFake(t, answers(cancel))
				start := time.Now()
				err := call(ctx, f.client(t, Options{RetryFor: time.Hour}))
				// An acquire that is given up takes a moment to release what it may have been granted.
				if took := time.Since(start); took > abandonTimeout+time.Minute/2 {
					t.Errorf("it took %s", took)
				}
				// One whose answer came in the same moment may tell that.
				if !errors.Is(err, context.Canceled) && !errors.Is(err, publish.ErrUnavailable) {
					t.Errorf("got %v", err)
				}
			})
		}
	}
}
