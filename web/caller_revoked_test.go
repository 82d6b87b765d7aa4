package web_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/publish/publishtest"
	"github.com/pawlhq/pawl/web"
)

// revokeAt revokes a credential at this server.
func (r *rig) revokeAt(id publish.CredentialID) {
	r.t.Helper()
	if _, err := r.service.RevokeCredential(r.t.Context(), id, "ops", publish.Everything); err != nil {
		r.t.Fatal(err)
	}
}

// TestRevokedLeaseOpensNothing: once the credential is revoked that was granted it, a lease id opens nothing by itself, by any method, also of a key that everybody
// may read. Whoever shows it together with a good credential is judged by that one.
func TestRevokedLeaseOpensNothing(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"k", "open"} {
		r := newSignRig(t, web.Options{PublicRead: publish.ReachOf("open")})
		made, good := r.make("worker", "publish"), bearer(r.make("other", "publish").Secret)
		w := r.grantTo(bearer(made.Secret), key)
		file, mine, header := w.generation()+"/files/f", basic("lease", w.lease), []string{"Pawl-Lease", w.lease}
		r.call("PUT", file, "one", mine...).want(201)
		r.call("GET", file, "", mine...).want(200)
		unpublished := r.call("GET", file, "").status // To everybody else.
		if key == "open" {
			r.call("GET", file, "", header...).want(200)
		}
		r.revokeAt(made.ID)
		for _, shown := range [][]string{mine, header} {
			for _, method := range []string{"GET", "HEAD"} {
				r.call(method, file, "", shown...).want(unpublished)
			}
			for _, method := range []string{"PUT", "DELETE"} {
				r.call(method, file, "two", shown...).wantProblem(publish.ErrUnauthorized)
			}
		}
		r.with(good, "GET", file, "", header...).want(200)
		r.with(good, "PUT", file, "three", header...).want(200)
		w.publish("", good...).want(200)
		r.call("GET", file, "", good...).want(200)
	}
}

// A lease id goes on when its credential was replaced and has run out: that is no revocation.
func TestRotatedLeaseGoesOn(t *testing.T) {
	t.Parallel()
	r := newSignRig(t, web.Options{})
	made := r.make("worker", "publish")
	w := r.grantTo(bearer(made.Secret), "k")
	_, err := r.service.RotateCredential(t.Context(), publish.RotateCredentialRequest{ID: made.ID, By: "ops", Admin: publish.Everything})
	if err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, time.Minute, func() error {
		if got := r.with(bearer(made.Secret), "GET", "/v1/keys/k/-/lease", ""); got.status != 401 {
			return errors.New("the old credential is good still")
		}
		return nil
	})
	file, mine := w.generation()+"/files/f", basic("lease", w.lease)
	r.call("PUT", file, "one", mine...).want(201)
	r.call("GET", file, "", mine...).want(200)
}

// A body that is being sent by a lease id ends when its credential is revoked, as one that is sent with the credential does, and leaves no file.
func TestRevokedLeaseUpload(t *testing.T) {
	t.Parallel()
	for name, goesOn := range map[string]bool{"a client that waits": false, "a client that goes on": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newSignRig(t, web.Options{Recheck: 5 * time.Millisecond})
			made, good := r.make("worker", "publish"), bearer(r.make("other", "publish").Secret)
			w := r.grantTo(bearer(made.Secret), "k")
			from, to := io.Pipe()
			defer func() { _ = to.Close() }()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, "PUT", r.server.URL+w.generation()+"/files/f", from)
			if err != nil {
				t.Fatal(err)
			}
			req.SetBasicAuth("lease", w.lease)
			go func() {
				_, err := io.WriteString(to, "x")
				for err == nil && ctx.Err() == nil && r.pointers.Faults.Calls("BeginUpload") == 0 {
					time.Sleep(time.Millisecond)
				}
				_, _ = r.service.RevokeCredential(ctx, made.ID, "ops", publish.Everything) //nolint:errcheck // The upload wouldn't end.
				for err == nil && goesOn {
					_, err = io.WriteString(to, "x")
					time.Sleep(time.Millisecond)
				}
			}()
			res, err := r.client.Do(req)
			switch cut := goesOn && (errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)); {
			case err != nil && !cut:
				t.Fatal(err)
			case err == nil:
				defer func() { _ = res.Body.Close() }()
				if res.StatusCode != http.StatusUnauthorized {
					t.Errorf("status %d", res.StatusCode)
				}
			}
			_ = to.Close()
			testenv.Eventually(t, time.Minute, func() error { // The connection may have broken before the end was noted.
				if got := w.publish("", good...); got.status != 409 || !strings.Contains(got.body, `"failed":["f"]`) {
					return errors.New(got.body)
				}
				return nil
			})
		})
	}
}

// A multi-part upload asks for a credential with each call, so it ends with that.
func TestRevokedDirectUpload(t *testing.T) {
	t.Parallel()
	r := newSignRig(t, web.Options{})
	made := r.make("worker", "publish")
	w := r.grantTo(bearer(made.Secret), "k")
	const promise = `{"path":"f","size":1,"sha256":"2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"}`
	begun := r.with(bearer(made.Secret), "POST", w.generation()+"/uploads", promise, "Pawl-Lease", w.lease).want(201)
	r.revokeAt(made.ID)
	upload := begun.header.Get("Location")
	for _, shown := range [][]string{bearer(made.Secret), basic("lease", w.lease)} {
		for _, call := range []string{"POST " + upload + "/parts", "POST " + upload + "/complete", "DELETE " + upload, "POST " + w.generation() + "/uploads"} {
			method, target, _ := strings.Cut(call, " ")
			r.call(method, target, "{}", append(shown, "Pawl-Lease", w.lease)...).wantProblem(publish.ErrUnauthorized)
		}
	}
}

// A download by a lease id is broken off, too: its length was promised, so nobody takes what came for all of it.
func TestRevokedLeaseDownload(t *testing.T) {
	t.Parallel()
	for name, header := range map[string]func(lease string) []string{
		"by Authorization":              func(lease string) []string { return basic("lease", lease) },
		"by Pawl-Lease of a public key": func(lease string) []string { return []string{"Pawl-Lease", lease} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newSignRig(t, web.Options{Recheck: 5 * time.Millisecond, PublicRead: publish.ReachOf("open")})
			made := r.make("worker", "publish")
			w := r.grantTo(bearer(made.Secret), "open")
			file := w.generation() + "/files/f"
			r.call("PUT", file, strings.Repeat("x", 1<<20), basic("lease", w.lease)...).want(201)
			var reads atomic.Int64
			r.blobs.Faults.Add(publishtest.Fault{Operation: "Read", Times: -1, Before: func(ctx context.Context) {
				if reads.Add(1) > 3 {
					<-ctx.Done()
				}
			}})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, "GET", r.server.URL+file, nil)
			if err != nil {
				t.Fatal(err)
			}
			sent := header(w.lease)
			req.Header.Set(sent[0], sent[1])
			res, err := r.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = res.Body.Close() }()
			if res.StatusCode != 200 {
				t.Fatalf("status %d", res.StatusCode)
			}
			r.revokeAt(made.ID)
			if got, err := io.ReadAll(res.Body); err == nil || ctx.Err() != nil || len(got) == 1<<20 {
				t.Errorf("%d bytes came, %v", len(got), err)
			}
		})
	}
}
