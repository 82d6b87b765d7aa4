package publish_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/publish/publishtest"
)

// TestUploadFaults: every step of an upload fails once, before it was carried out and after it with the answer lost. Nothing becomes
// current that isn't whole, and the same request sent again succeeds under the same token (case 15).
func TestUploadFaults(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"BeginUpload", "Put", "CompleteUpload", "Publish"} {
		for _, applied := range []bool{false, true} {
			for _, digest := range []publish.Digest{{}, sha256.Sum256([]byte("content"))} {
				name := step + map[bool]string{false: " not applied", true: " applied, answer lost"}[applied]
				r := newRig(t)
				fault := publishtest.Fault{Operation: step, Applied: applied}
				if step == "Put" {
					r.blobs.Faults.Add(fault)
				} else {
					r.pointers.Faults.Add(fault)
				}
				send := func() (publish.Receipt, error) {
					req := r.upload("content")
					req.Digest = digest
					return r.UploadAndPublish(t.Context(), req, r.final())
				}
				_, err := send()
				is(t, name, err, map[bool]publish.Code{false: publish.ErrUnavailable, true: publish.ErrOutcomeUnknown}[applied])
				if step != "Publish" || !applied {
					r.served("")
				}
				receipt, err := send()
				is(t, name+", sent again", err, "")
				if replayed := step == "Publish" && applied; receipt.Replayed != replayed || receipt.Revision != 1 || receipt.Files != 1 {
					t.Errorf("%s, sent again: %+v", name, receipt)
				}
				r.served("content")
			}
		}
	}
}

// TestUploadLeftPending: when a failed upload can't even be marked so, its row stays pending, which stops the final publish just as well.
func TestUploadLeftPending(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.blobs.Faults.Add(publishtest.Fault{Operation: "Put"})
	r.pointers.Faults.Add(publishtest.Fault{Operation: "FailUpload"})
	_, err := r.Upload(t.Context(), r.upload("content"))
	is(t, "upload", err, publish.ErrUnavailable)
	if got, want := r.uploads(), (publish.UploadCounts{Pending: 1}); got != want {
		t.Errorf("uploads: %+v, want %+v", got, want)
	}
	if found := r.log.all(); len(found) != 1 || !strings.Contains(found[0], "upload_left_pending") || strings.Contains(found[0], r.grant.LeaseID.Hex()) {
		t.Errorf("the log has %q", found)
	}
	_, err = r.Publish(t.Context(), r.final())
	is(t, "publish", err, publish.ErrGenerationIncomplete)
}

// TestUploadRefusedUnread: a request that is refused is refused before its body is read.
func TestUploadRefusedUnread(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	stale := r.grant
	r.grant = r.acquire("b")
	if _, err := r.UploadAndPublish(t.Context(), r.upload("b"), r.final()); err != nil {
		t.Fatal(err)
	}
	for want, grant := range map[publish.Code]publish.Grant{
		publish.ErrStaleToken:       stale,
		publish.ErrGenerationSealed: r.grant,
		publish.ErrLeaseLost:        {Key: "k", Token: r.grant.Token, LeaseID: publish.NewLeaseID()},
		publish.ErrUnknownToken:     {Key: "k", Token: 99, LeaseID: r.grant.LeaseID},
		publish.ErrNotFound:         {Key: "unknown", Token: 1, LeaseID: r.grant.LeaseID},
	} {
		req := publish.UploadRequest{Grant: grant, Path: "f", Size: -1, Body: iotest.ErrReader(errors.New("the body was read"))}
		_, err := r.Upload(t.Context(), req)
		is(t, string(want), err, want)
	}
	if names := r.blobs.Names(); len(names) != 1 {
		t.Errorf("objects: %q", names)
	}
}

// TestUploadBadBody: a body that isn't what was promised leaves no object and marks the path failed (case 26).
func TestUploadBadBody(t *testing.T) {
	t.Parallel()
	for want, change := range map[publish.Code]func(*publish.UploadRequest){
		publish.ErrLengthMismatch: func(r *publish.UploadRequest) { r.Size++ },
		publish.ErrDigestMismatch: func(r *publish.UploadRequest) { r.Digest = publish.Digest{1} },
		publish.ErrTooLarge:       func(r *publish.UploadRequest) { r.Size, r.Body = -1, strings.NewReader(strings.Repeat("x", 101)) },
		"too large by its length": func(r *publish.UploadRequest) { r.Size = 101 },
	} {
		r := newRig(t)
		r.MaxFileBytes = 100
		req := r.upload("content")
		change(&req)
		_, err := r.Upload(t.Context(), req)
		if want == "too large by its length" {
			want = publish.ErrTooLarge
		}
		is(t, string(want), err, want)
		if got := r.uploads(); got != (publish.UploadCounts{Failed: 1}) || len(r.blobs.Names()) != 0 {
			t.Errorf("%s: uploads %+v, objects %q", want, got, r.blobs.Names())
		}
		_, err = r.Publish(t.Context(), r.final())
		is(t, "publish", err, publish.ErrGenerationIncomplete)
		_, err = r.UploadAndPublish(t.Context(), r.upload("content"), r.final())
		is(t, "sent again", err, "")
	}
}

// TestRefuseUpload: a refusal from before the body marks the path too, also when the client has left; but a request that isn't from a grant in order
// marks nothing.
func TestRefuseUpload(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	left, cancel := context.WithCancel(t.Context())
	cancel()
	why := &publish.Error{Code: publish.ErrInvalidRequest}
	is(t, "refuse", r.RefuseUpload(left, r.grant, "f", why), publish.ErrInvalidRequest)
	if got := r.uploads(); got != (publish.UploadCounts{Failed: 1}) {
		t.Errorf("uploads: %+v", got)
	}
	_, err := r.Publish(t.Context(), r.final())
	is(t, "publish", err, publish.ErrGenerationIncomplete)

	other := publish.Grant{Key: "k", Token: r.grant.Token, LeaseID: publish.NewLeaseID()}
	is(t, "refuse another's", r.RefuseUpload(t.Context(), other, "g", why), publish.ErrInvalidRequest)
	for _, applied := range []bool{false, true} {
		r.pointers.Faults.Add(publishtest.Fault{Operation: "BeginUpload", Applied: applied})
		want := map[bool]publish.Code{false: publish.ErrUnavailable, true: publish.ErrOutcomeUnknown}[applied]
		is(t, "refuse without Postgres", r.RefuseUpload(t.Context(), r.grant, "f", why), want)
	}
	_, err = r.UploadAndPublish(t.Context(), r.upload("content"), r.final())
	is(t, "sent again", err, "")
	both := r.final()
	both.IfMatch, both.IfNoneMatch = &publish.Version{Token: 1, Revision: 1}, true
	_, err = r.UploadAndPublish(t.Context(), r.upload("content"), both)
	is(t, "a condition that can't be", err, publish.ErrInvalidRequest)
}

// TestUploadClientGone: the failed upload of a client that went away is marked as such after its context has ended.
func TestUploadClientGone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	req := r.upload("content")
	req.Body = readerFunc(func([]byte) (int, error) { cancel(); return 0, context.Canceled })
	_, err := r.Upload(ctx, req)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("upload: %v", err)
	}
	if got := r.uploads(); got != (publish.UploadCounts{Failed: 1}) {
		t.Errorf("uploads: %+v", got)
	}
}

// TestUploadOutlivesItsClient: what has come whole is stored and counts, though its client hasn't waited for the answer.
func TestUploadOutlivesItsClient(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx, leave := context.WithCancel(t.Context())
	r.Blobs = blobsFunc{r.blobs, func(ctx context.Context) error { leave(); return ctx.Err() }}
	_, err := r.Upload(ctx, r.upload("content"))
	is(t, "upload", err, "")
	_, err = r.Publish(t.Context(), r.final())
	is(t, "publish", err, "")
	r.served("content")

	r.grant = r.acquire("b")
	r.Blobs = r.blobs
	_, err = r.Upload(t.Context(), r.upload("content"))
	is(t, "upload", err, "")
	ctx, leave = context.WithCancel(t.Context())
	r.pointers.Faults.Add(publishtest.Fault{Operation: "DeleteFile", Before: func(context.Context) { leave() }})
	is(t, "delete", r.DeleteFile(ctx, r.grant, "f"), "")
	_, err = r.Publish(t.Context(), r.final())
	is(t, "publish of nothing", err, publish.ErrGenerationIncomplete)
}

// TestUploadOfNobodyEnds: a store that hangs is not waited for without end when its client has left.
func TestUploadOfNobodyEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		ctx, leave := context.WithCancel(t.Context())
		r.Blobs = blobsFunc{r.blobs, func(ctx context.Context) error { leave(); <-ctx.Done(); return ctx.Err() }}
		began := time.Now()
		if _, err := r.Upload(ctx, r.upload("content")); !errors.Is(err, context.Canceled) {
			t.Errorf("upload: %v", err)
		}
		if took := time.Since(began); took < 10*time.Second || took > 5*time.Minute {
			t.Errorf("given up after %s", took)
		}
		if got := r.uploads(); got != (publish.UploadCounts{Failed: 1}) {
			t.Errorf("uploads: %+v", got)
		}
	})
}

// blobsFunc calls a function after each Put.
type blobsFunc struct {
	publish.BlobStore
	after func(context.Context) error
}

func (b blobsFunc) Put(ctx context.Context, name publish.ObjectName, body io.Reader, size int64, contentType string) error {
	if err := b.BlobStore.Put(ctx, name, body, size, contentType); err != nil {
		return err
	}
	return b.after(ctx)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// TestUploadLyingStore: a store that reports success without having read the whole body isn't believed.
func TestUploadLyingStore(t *testing.T) {
	t.Parallel()
	for _, read := range []int64{0, 3} {
		r := newRig(t)
		r.Blobs = lyingBlobs{r.blobs, read}
		_, err := r.Upload(t.Context(), r.upload("content"))
		is(t, "upload", err, publish.ErrInternal)
		if got := r.uploads(); got != (publish.UploadCounts{Failed: 1}) {
			t.Errorf("uploads: %+v", got)
		}
	}
}

// TestUploadEmpty: a store need not read a body that it knows to be empty. It is judged all the same.
func TestUploadEmpty(t *testing.T) {
	t.Parallel()
	for want, change := range map[publish.Code]func(*publish.UploadRequest){
		"":                        func(r *publish.UploadRequest) { r.Digest = sha256.Sum256(nil) },
		publish.ErrDigestMismatch: func(r *publish.UploadRequest) { r.Digest = publish.Digest{1} },
		publish.ErrLengthMismatch: func(r *publish.UploadRequest) { r.Body = strings.NewReader("more") },
	} {
		r := newRig(t)
		r.Blobs = lyingBlobs{r.blobs, 0}
		req := r.upload("")
		change(&req)
		_, err := r.Upload(t.Context(), req)
		is(t, "upload", err, want)
	}
}

type lyingBlobs struct {
	publish.BlobStore
	read int64
}

func (b lyingBlobs) Put(_ context.Context, _ publish.ObjectName, body io.Reader, _ int64, _ string) error {
	_, err := io.CopyN(io.Discard, body, b.read)
	return err
}

// TestUploadStoreError: a store's own error is internal and keeps its cause for the log.
func TestUploadStoreError(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		want error
	}{
		{errors.New("disk on fire"), publish.ErrInternal},
		{publish.ErrObjectExists, publish.ErrInternal},
		{&publish.Error{Code: publish.ErrQuotaExceeded}, publish.ErrQuotaExceeded},
		{context.DeadlineExceeded, context.DeadlineExceeded},
	} {
		r := newRig(t)
		r.blobs.Faults.Add(publishtest.Fault{Operation: "Put", Err: test.err})
		_, err := r.Upload(t.Context(), r.upload("content"))
		if !errors.Is(err, test.want) || !errors.Is(err, errors.Unwrap(test.err)) && errors.Unwrap(test.err) != nil {
			t.Errorf("%v became %v", test.err, err)
		}
	}
}

// TestUploadFencedMeanwhile is case 5 for the domain: the store takes so long that another has published. The bytes are stored and count
// for nothing.
func TestUploadFencedMeanwhile(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.blobs.Faults.Add(publishtest.Fault{Operation: "Put", Before: func(context.Context) {
		other := *r
		other.grant = other.acquire("b")
		if _, err := other.UploadAndPublish(t.Context(), other.upload("of b"), other.final()); err != nil {
			t.Error(err)
		}
	}})
	_, err := r.Upload(t.Context(), r.upload("of a"))
	is(t, "upload", err, publish.ErrStaleToken)
	r.served("of b")
	if got := r.uploads(); got != (publish.UploadCounts{Failed: 1}) || len(r.blobs.Names()) != 2 {
		t.Errorf("uploads %+v, objects %q", got, r.blobs.Names())
	}
}

// TestUploadAndPublishAgain: the repeat of a one-file output is a replay when its bytes are the same, whether or not they are promised, also once it was
// superseded (case 16); other bytes are refused.
func TestUploadAndPublishAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first, err := r.UploadAndPublish(t.Context(), r.upload("content"), r.final())
	is(t, "first", err, "")
	for _, superseded := range []bool{false, true} {
		if superseded {
			other := *r
			other.grant = other.acquire("b")
			if _, err := other.UploadAndPublish(t.Context(), other.upload("of b"), other.final()); err != nil {
				t.Fatal(err)
			}
		}
		promised := r.upload("content")
		promised.Digest, promised.Body = sha256.Sum256([]byte("content")), iotest.ErrReader(errors.New("the body was read"))
		unknown := r.upload("content")
		unknown.Size = -1
		for _, req := range []publish.UploadRequest{r.upload("content"), promised, unknown} {
			receipt, err := r.UploadAndPublish(t.Context(), req, r.final())
			is(t, "repeat", err, "")
			if !receipt.Replayed || receipt.Version() != first.Version() || (receipt.SupersededBy != 0) != superseded {
				t.Errorf("superseded %t: %+v", superseded, receipt)
			}
		}
		want := publish.ErrGenerationSealed
		if superseded {
			want = publish.ErrStaleToken
		}
		wrong := r.upload("content")
		wrong.Digest = publish.Digest{1}
		for _, req := range []publish.UploadRequest{r.upload("CONTENT"), r.upload("longer content"), wrong} {
			_, err = r.UploadAndPublish(t.Context(), req, r.final())
			is(t, "other bytes", err, want)
		}
	}
	cut := r.upload("content")
	cut.Size, cut.Body = -1, iotest.ErrReader(io.ErrUnexpectedEOF)
	_, err = r.UploadAndPublish(t.Context(), cut, r.final())
	is(t, "a repeat that was cut", err, publish.ErrLengthMismatch)
	if names := r.blobs.Names(); len(names) != 2 {
		t.Errorf("objects: %q", names)
	}
}

// TestUploadOvertaken: of two that upload and publish one path the one that started last publishes.
func TestUploadOvertaken(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.blobs.Faults.Add(publishtest.Fault{Operation: "Put", Before: func(context.Context) {
		if _, err := r.Upload(t.Context(), r.upload("second")); err != nil {
			t.Error(err)
		}
	}})
	_, err := r.UploadAndPublish(t.Context(), r.upload("first"), r.final())
	is(t, "the overtaken one", err, publish.ErrGenerationIncomplete)
	_, err = r.Publish(t.Context(), r.final())
	is(t, "publish", err, "")
	r.served("second")
}

// TestUploadType: what is stored has the table's type, not the client's.
func TestUploadType(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	req := r.upload("content")
	req.Path, req.ContentType = "a.svg", "image/png"
	if result, err := r.Upload(t.Context(), req); err != nil || result.ContentType != "image/svg+xml" {
		t.Errorf("%+v, %v", result, err)
	}
}

// TestUploadOtherType: the same bytes under another type are another file, though their digest is promised.
func TestUploadOtherType(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	send := func(contentType string) publish.UploadRequest {
		req := r.upload("content")
		req.Path, req.ContentType, req.Digest = "a", contentType, sha256.Sum256([]byte("content"))
		return req
	}
	for _, test := range []struct {
		contentType, want string
		identical         bool
	}{
		{"", "application/octet-stream", false},
		{"", "application/octet-stream", true},
		{"image/png", "image/png", false},
		{"image/png", "image/png", true},
		{"Image/PNG", "image/png", true},
		{"text/plain", "text/plain", false},
	} {
		result, err := r.Upload(t.Context(), send(test.contentType))
		if err != nil || result.ContentType != test.want || result.Identical != test.identical {
			t.Errorf("%q gave %+v, %v; want %+v", test.contentType, result, err, test)
		}
	}
	receipt, err := r.UploadAndPublish(t.Context(), send("text/plain"), r.final())
	is(t, "publish", err, "")
	again, err := r.UploadAndPublish(t.Context(), send("text/plain"), r.final())
	is(t, "repeat", err, "")
	if !again.Replayed || again.ManifestDigest != receipt.ManifestDigest {
		t.Errorf("the repeat is %+v", again)
	}
	_, err = r.UploadAndPublish(t.Context(), send("image/png"), r.final())
	is(t, "another type once sealed", err, publish.ErrGenerationSealed)
}
