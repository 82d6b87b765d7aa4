package publish_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/publish/publishtest"
)

// rig is a Service on the doubles, with one grant to start with.
type rig struct {
	*testing.T
	*publish.Service
	pointers *publishtest.Pointers
	blobs    *publishtest.Blobs
	seen     *observed
	log      *lines
	grant    publish.Grant
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{T: t, pointers: publishtest.NewPointers(), blobs: publishtest.NewBlobs(), seen: &observed{}, log: &lines{}}
	r.Service = &publish.Service{Pointers: r.pointers, Blobs: r.blobs, Observer: r.seen, Log: slog.New(slog.NewJSONHandler(r.log, nil))}
	r.grant = r.acquire("a")
	return r
}

// acquire is granted the rig's key, after the lease that runs has expired.
func (r *rig) acquire(holder string) publish.Grant {
	r.Helper()
	r.pointers.Expire("k")
	lease, err := r.Acquire(r.Context(), publish.AcquireRequest{Key: "k", Holder: holder, TTL: time.Hour})
	if err != nil {
		r.Fatal(err)
	}
	return publish.Grant{Key: "k", Token: lease.Token, LeaseID: lease.LeaseID}
}

// upload is a request to store content at the path "f" under the rig's grant.
func (r *rig) upload(content string) publish.UploadRequest {
	return publish.UploadRequest{Grant: r.grant, Path: "f", Size: int64(len(content)), Body: strings.NewReader(content)}
}

func (r *rig) final() publish.PublishRequest {
	return publish.PublishRequest{Grant: r.grant, Final: true}
}

// uploads counts the uploads of the rig's generation that no revision names.
func (r *rig) uploads() publish.UploadCounts {
	r.Helper()
	g, err := r.Generation(r.Context(), r.grant.Key, r.grant.Token)
	if err != nil {
		r.Fatal(err)
	}
	return g.Uploads
}

// served checks what readers of the key get; "" is nothing.
func (r *rig) served(want string) {
	r.Helper()
	file, err := r.CurrentFile(r.Context(), "k", "f")
	if want == "" {
		if !errors.Is(err, publish.ErrNotFound) {
			r.Fatalf("readers get %+v, %v", file, err)
		}
		return
	}
	if err != nil {
		r.Fatal(err)
	}
	body, err := r.OpenFile(r.Context(), file, 0, -1)
	if err != nil {
		r.Fatal(err)
	}
	content, err := io.ReadAll(body)
	if err := errors.Join(err, body.Close()); err != nil || string(content) != want {
		r.Fatalf("readers get %q, %v, want %q", content, err, want)
	}
}

func is(t *testing.T, what string, err error, want publish.Code) {
	t.Helper()
	if want == "" && err != nil || want != "" && !errors.Is(err, want) {
		t.Errorf("%s: got %v, want %q", what, err, want)
	}
}

// observed is an Observer that counts.
type observed struct {
	mu                           sync.Mutex
	granted, uploaded, published int
	refused                      []publish.Code
}

func (o *observed) Granted(publish.Lease)         { o.count(&o.granted) }
func (o *observed) Uploaded(publish.UploadResult) { o.count(&o.uploaded) }
func (o *observed) Published(publish.Receipt)     { o.count(&o.published) }
func (o *observed) count(n *int)                  { o.mu.Lock(); defer o.mu.Unlock(); *n++ }
func (o *observed) Refused(refusal *publish.Error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.refused = append(o.refused, refusal.Code)
}

// lines is a log in memory.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.FieldsFunc(l.text.String(), func(r rune) bool { return r == '\n' })
}

// TestRejectionIsLogged: a stale request is one line in the log, with who came late and who was first, and without secrets.
func TestRejectionIsLogged(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	late := r.final()
	r.grant = r.acquire("b")
	if _, err := r.UploadAndPublish(t.Context(), r.upload("b"), r.final()); err != nil {
		t.Fatal(err)
	}
	_, err := r.Publish(t.Context(), late)
	is(t, "late publish", err, publish.ErrStaleToken)
	var refusal *publish.Error
	if errors.As(err, &refusal) && (refusal.Detail == "" || !strings.Contains(refusal.Detail, "1") || !strings.Contains(refusal.Detail, "2")) {
		t.Errorf("the refusal says %q", refusal.Detail)
	}

	found := r.log.all()
	if len(found) != 1 {
		t.Fatalf("the log has %q", found)
	}
	var line map[string]any
	if err := json.Unmarshal([]byte(found[0]), &line); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]any{
		"msg": "fence_rejected", "level": "WARN", "key": "k", "operation": "publish", "token": 1.0, "accepted_token": 2.0, "granted_token": 2.0,
		"holder": "a", "superseded_by": "b", "repeat": 1.0,
	} {
		if line[key] != want {
			t.Errorf("%s is %v in the log, want %v", key, line[key], want)
		}
	}
	for _, id := range []publish.LeaseID{late.Grant.LeaseID, r.grant.LeaseID} {
		if strings.Contains(found[0], id.Hex()) {
			t.Error("the log shows a lease_id")
		}
	}
}

// TestObserver is told once of each thing that happened.
func TestObserver(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if _, err := r.UploadAndPublish(t.Context(), r.upload("a"), r.final()); err != nil {
		t.Fatal(err)
	}
	_, err := r.Upload(t.Context(), r.upload("b"))
	is(t, "upload into a sealed generation", err, publish.ErrGenerationSealed)
	_, err = r.Acquire(t.Context(), publish.AcquireRequest{Key: "k", Holder: "b", TTL: time.Second})
	is(t, "acquire", err, publish.ErrLeaseHeld)
	is(t, "release", r.Release(t.Context(), "k", publish.NewLeaseID()), publish.ErrLeaseLost)
	r.seen.mu.Lock()
	defer r.seen.mu.Unlock()
	want := []publish.Code{publish.ErrGenerationSealed, publish.ErrLeaseHeld, publish.ErrLeaseLost}
	if r.seen.granted != 1 || r.seen.uploaded != 1 || r.seen.published != 1 || len(r.seen.refused) != len(want) {
		t.Errorf("observed %+v", r.seen)
	}
}
