package publish_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/publish/publishtest"
)

const (
	short = "8 bytes!"                    // one request of the double's
	long  = "content of more than a part" // four parts of the double's
)

// directRig is a rig whose store takes direct uploads.
func directRig(t *testing.T) *rig {
	r := newRig(t)
	r.Direct = r.blobs
	t.Cleanup(r.Close)
	return r
}

// promise is a request to send content to the path "f" directly.
func (r *rig) promise(content string) publish.DirectRequest {
	crc := publish.CRC64NVMEOf([]byte(content))
	return publish.DirectRequest{Grant: r.grant, Promise: publish.Promise{
		File:      publish.File{Path: "f", Size: int64(len(content)), SHA256: sha256.Sum256([]byte(content))},
		CRC64NVME: &crc,
	}}
}

// send sends what the upload lacks of content, each part as mangle makes it.
func (r *rig) send(grant publish.Grant, direct publish.Direct, content string, mangle func(number int, data []byte) []byte) error {
	if direct.Put != nil {
		return r.blobs.Deliver(*direct.Put, mangle(0, []byte(content)))
	}
	var wanted []int
	for number := 1; number <= direct.Parts; number++ {
		if !slices.Contains(direct.Uploaded, number) {
			wanted = append(wanted, number)
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	parts, err := r.SignParts(r.Context(), grant, direct.ID, numbered(wanted...))
	if err != nil {
		return err
	}
	for _, part := range parts {
		start := int64(part.Number-1) * direct.PartSize
		if data := mangle(part.Number, []byte(content[start:start+part.Size])); data != nil {
			if err := r.blobs.Deliver(part.SignedRequest, data); err != nil {
				return err
			}
		}
	}
	return nil
}

func numbered(numbers ...int) []publish.WantedPart {
	wanted := make([]publish.WantedPart, len(numbers))
	for i, number := range numbers {
		wanted[i].Number = number
	}
	return wanted
}

func asIs(_ int, data []byte) []byte { return data }

// direct is a whole direct upload, as a client carries it out: whatever fails, it begins again with the same promise.
func (r *rig) direct(content string) (publish.Completion, error) {
	direct, err := r.BeginDirect(r.Context(), r.promise(content))
	if err != nil || direct.Existing != nil {
		return publish.Completion{Done: direct.Existing != nil}, err
	}
	if err := r.send(r.grant, direct, content, asIs); err != nil && !errors.Is(err, publish.ErrObjectExists) {
		return publish.Completion{}, err
	}
	return r.CompleteDirect(r.Context(), r.grant, direct.ID)
}

// TestCRC64NVME: the check value of the catalogue of parametrised CRC algorithms.
func TestCRC64NVME(t *testing.T) {
	t.Parallel()
	if got := publish.CRC64NVMEOf([]byte("123456789")); got != 0xae8b14860a799888 {
		t.Errorf("got %016x", got)
	}
}

// TestDirectFaults: every step fails once, before it was carried out and after it with the answer lost. Nothing counts before it is
// whole, nobody sends twice what has come, and the same promise made again comes to its end.
func TestDirectFaults(t *testing.T) {
	t.Parallel()
	for _, content := range []string{short, long} {
		for _, step := range []string{"BeginDirect", "FindDirect", "CompleteUpload", "StartParts", "ListParts", "FinishParts", "Prove", "Open"} {
			for _, applied := range []bool{false, true} {
				name := step + map[bool]string{false: " not applied", true: " applied, answer lost"}[applied] + " of " + content
				r := directRig(t)
				fault := publishtest.Fault{Operation: step, Applied: applied}
				r.blobs.Faults.Add(fault)
				r.pointers.Faults.Add(fault)
				_, err := r.direct(content)
				happened := content == long || step != "StartParts" && step != "ListParts" && step != "FinishParts"
				if (err != nil) != happened {
					t.Errorf("%s: %v", name, err)
				}
				_, early := r.Publish(t.Context(), r.final())
				if happened && step != "CompleteUpload" && early == nil {
					t.Errorf("%s: published before it was whole", name)
				}
				if early == nil {
					continue
				}
				done, err := r.direct(content)
				is(t, name+", again", err, "")
				if !done.Done {
					t.Errorf("%s, again: %+v", name, done)
				}
				_, err = r.Publish(t.Context(), r.final())
				is(t, name+", publish", err, "")
				r.served(content)
			}
		}
	}
}

// TestDirectResumed: a client that was killed goes on with the parts that have come, and with an object that was finished.
func TestDirectResumed(t *testing.T) {
	t.Parallel()
	r := directRig(t)
	begin := func() publish.Direct {
		t.Helper()
		direct, err := r.BeginDirect(t.Context(), r.promise(long))
		is(t, "begin", err, "")
		return direct
	}
	first := begin()
	if first.Parts != 4 || first.PartSize != publishtest.DirectPartSize || len(first.Uploaded) != 0 || first.Put != nil {
		t.Fatalf("begun as %+v", first)
	}
	is(t, "send", r.send(r.grant, first, long, func(number int, data []byte) []byte {
		if number == 2 {
			return nil
		}
		return data
	}), "")
	_, err := r.CompleteDirect(t.Context(), r.grant, first.ID)
	is(t, "complete", err, publish.ErrLengthMismatch)
	var refusal *publish.Error
	if !errors.As(err, &refusal) || refusal.Promised != "27" || refusal.Came != "19" {
		t.Errorf("the facts are %+v", refusal)
	}

	second := begin()
	if second.ID != first.ID || !slices.Equal(second.Uploaded, []int{1, 3, 4}) {
		t.Fatalf("resumed as %+v; want parts 1, 3, 4 of %s", second, first.ID)
	}
	is(t, "send", r.send(r.grant, second, long, asIs), "")
	r.pointers.Faults.Add(publishtest.Fault{Operation: "CompleteUpload"})
	_, err = r.CompleteDirect(t.Context(), r.grant, second.ID)
	is(t, "complete", err, publish.ErrUnavailable)

	third := begin() // The object is there, its parts are not.
	if len(third.Uploaded) != third.Parts {
		t.Fatalf("resumed as %+v; want all parts", third)
	}
	done, err := r.CompleteDirect(t.Context(), r.grant, third.ID)
	is(t, "complete", err, "")
	if !done.Done || done.Size != int64(len(long)) {
		t.Errorf("completed as %+v", done)
	}
	again, err := r.CompleteDirect(t.Context(), r.grant, third.ID)
	is(t, "complete again", err, "")
	if !again.Done || !again.Identical || again.SHA256 != done.SHA256 {
		t.Errorf("completed again as %+v", again)
	}
	if direct := begin(); direct.Existing == nil {
		t.Errorf("what is there would be sent again: %+v", direct)
	}
	if left := r.blobs.Multiparts(); left != 0 {
		t.Errorf("%d uploads are unfinished", left)
	}
}

// TestDirectWrongBytes: bytes that aren't the promised ones never count, whichever way they are looked at, and nothing of them stays.
func TestDirectWrongBytes(t *testing.T) {
	t.Parallel()
	for _, content := range []string{short, long} {
		for name, prepare := range map[string]func(*rig){
			"read back":            func(*rig) {},
			"by the store's own":   func(r *rig) { r.blobs.ProvesSHA256 = true },
			"by crc64nvme":         func(r *rig) { r.blobs.ProvesCRC64NVME, r.Verification = true, publish.VerifyCRC64NVME },
			"crc64nvme not proved": func(r *rig) { r.Verification = publish.VerifyCRC64NVME },
			"read although proved": func(r *rig) { r.blobs.ProvesCRC64NVME, r.Verification = true, publish.VerifyRead },
		} {
			r := directRig(t)
			prepare(r)
			direct, err := r.BeginDirect(t.Context(), r.promise(content))
			is(t, name, err, "")
			is(t, name, r.send(r.grant, direct, content, func(number int, data []byte) []byte {
				if number <= 1 {
					data[0] ^= 1
				}
				return data
			}), "")
			_, err = r.CompleteDirect(t.Context(), r.grant, direct.ID)
			is(t, name, err, publish.ErrDigestMismatch)
			if names := r.blobs.Names(); len(names) != 0 || r.blobs.Multiparts() != 0 {
				t.Errorf("%s: left %q", name, names)
			}
			_, err = r.CompleteDirect(t.Context(), r.grant, direct.ID)
			is(t, name+", again", err, publish.ErrGenerationIncomplete)
			_, err = r.SignParts(t.Context(), r.grant, direct.ID, numbered(1))
			is(t, name+", parts", err, publish.ErrGenerationIncomplete)
			_, err = r.Publish(t.Context(), r.final())
			is(t, name+", publish", err, publish.ErrGenerationIncomplete)
			done, err := r.direct(content)
			is(t, name+", sent anew", err, "")
			if !done.Done {
				t.Errorf("%s, sent anew: %+v", name, done)
			}
			if read := r.blobs.Faults.Calls("Open") > 0; read != slices.Contains([]string{"read back", "crc64nvme not proved", "read although proved"}, name) {
				t.Errorf("%s: read back is %t", name, read)
			}
		}
	}
}

// TestDirectVerifying: a verification that takes its time is waited for by asking again; a client that leaves doesn't end it.
func TestDirectVerifying(t *testing.T) {
	t.Parallel()
	r := directRig(t)
	r.CompleteWithin = time.Millisecond
	goOn := make(chan struct{})
	r.blobs.Faults.Add(publishtest.Fault{Operation: "Prove", Before: func(ctx context.Context) {
		select {
		case <-goOn:
		case <-ctx.Done():
		}
	}})
	direct, err := r.BeginDirect(t.Context(), r.promise(long))
	is(t, "begin", err, "")
	is(t, "send", r.send(r.grant, direct, long, asIs), "")
	for range 3 {
		ctx, leave := context.WithCancel(t.Context())
		done, err := r.CompleteDirect(ctx, r.grant, direct.ID)
		leave()
		if err != nil || done.Done {
			t.Fatalf("before its end: %+v, %v", done, err)
		}
	}
	// Nobody else joins in.
	_, err = r.CompleteDirect(t.Context(), publish.Grant{Key: "k", Token: r.grant.Token, LeaseID: publish.NewLeaseID()}, direct.ID)
	is(t, "another's lease", err, publish.ErrLeaseLost)
	close(goOn)
	r.CompleteWithin = time.Minute
	done, err := r.CompleteDirect(t.Context(), r.grant, direct.ID)
	is(t, "complete", err, "")
	if !done.Done {
		t.Errorf("completed as %+v", done)
	}
	if calls := r.blobs.Faults.Calls("Prove"); calls != 1 {
		t.Errorf("verified %d times", calls)
	}
}

// TestDirectClosed: the end of the server ends a verification, and the upload is gone on with elsewhere.
func TestDirectClosed(t *testing.T) {
	t.Parallel()
	r := directRig(t)
	r.CompleteWithin = time.Millisecond
	r.blobs.Faults.Add(publishtest.Fault{Operation: "Prove", Before: func(ctx context.Context) { <-ctx.Done() }})
	direct, err := r.BeginDirect(t.Context(), r.promise(long))
	is(t, "begin", err, "")
	is(t, "send", r.send(r.grant, direct, long, asIs), "")
	if done, err := r.CompleteDirect(t.Context(), r.grant, direct.ID); err != nil || done.Done {
		t.Fatalf("before its end: %+v, %v", done, err)
	}
	r.Close()
	other := &publish.Service{Pointers: r.pointers, Blobs: r.blobs, Direct: r.blobs}
	defer other.Close()
	done, err := other.CompleteDirect(t.Context(), r.grant, direct.ID)
	is(t, "elsewhere", err, "")
	if !done.Done {
		t.Errorf("completed as %+v", done)
	}
}

// TestDirectFenced: a worker that was superseded is told so at every step; what it has sent stays invisible, and it may still
// clean up (case 9).
func TestDirectFenced(t *testing.T) {
	t.Parallel()
	r := directRig(t)
	late, promise := r.grant, r.promise(long)
	direct, err := r.BeginDirect(t.Context(), promise)
	is(t, "begin", err, "")
	parts, err := r.SignParts(t.Context(), late, direct.ID, numbered(1, 2, 3, 4))
	is(t, "sign", err, "")
	r.grant = r.acquire("b")
	if _, err := r.UploadAndPublish(t.Context(), r.upload("newer"), r.final()); err != nil {
		t.Fatal(err)
	}
	for _, part := range parts { // Cut off from us, not from the store.
		start := int64(part.Number-1) * direct.PartSize
		is(t, "deliver", r.blobs.Deliver(part.SignedRequest, []byte(long[start:start+part.Size])), "")
	}
	_, err = r.SignParts(t.Context(), late, direct.ID, numbered(1))
	is(t, "sign late", err, publish.ErrStaleToken)
	_, err = r.CompleteDirect(t.Context(), late, direct.ID)
	is(t, "complete late", err, publish.ErrStaleToken)
	_, err = r.BeginDirect(t.Context(), promise)
	is(t, "begin late", err, publish.ErrStaleToken)
	r.served("newer")
	is(t, "abort", r.AbortDirect(t.Context(), late, direct.ID), "")
	is(t, "abort again", r.AbortDirect(t.Context(), late, direct.ID), "")
	if r.blobs.Multiparts() != 0 || len(r.blobs.Names()) != 1 {
		t.Errorf("left %q and %d unfinished", r.blobs.Names(), r.blobs.Multiparts())
	}
}

// TestDirectAborted: what was given up blocks the final publish, as every failed upload, and is gone.
func TestDirectAborted(t *testing.T) {
	t.Parallel()
	r := directRig(t)
	direct, err := r.BeginDirect(t.Context(), r.promise(long))
	is(t, "begin", err, "")
	is(t, "send", r.send(r.grant, direct, long, asIs), "")
	is(t, "abort", r.AbortDirect(t.Context(), r.grant, direct.ID), "")
	if r.blobs.Multiparts() != 0 {
		t.Error("its parts are left")
	}
	if diff := cmp.Diff(publish.UploadCounts{Failed: 1}, r.uploads()); diff != "" {
		t.Error(diff)
	}
	done, err := r.direct(long)
	is(t, "anew", err, "")
	id := publish.DirectID{}
	if next, err := r.BeginDirect(t.Context(), r.promise(short)); err == nil {
		id = next.ID
		is(t, "send", r.send(r.grant, next, short, asIs), "")
		_, err = r.CompleteDirect(t.Context(), r.grant, id)
		is(t, "complete", err, "")
	}
	is(t, "abort what is stored", r.AbortDirect(t.Context(), r.grant, id), publish.ErrInvalidRequest)
	if !done.Done {
		t.Errorf("completed as %+v", done)
	}
}

// TestDirectRefused: what can't be is refused by name, before anything is written.
func TestDirectRefused(t *testing.T) {
	t.Parallel()
	r := directRig(t)
	r.MaxFileBytes = 100
	for name, test := range map[string]struct {
		change func(*publish.Promise)
		want   publish.Code
	}{
		"empty":     {func(p *publish.Promise) { p.Size = 0 }, publish.ErrInvalidRequest},
		"negative":  {func(p *publish.Promise) { p.Size = -1 }, publish.ErrInvalidRequest},
		"too large": {func(p *publish.Promise) { p.Size = 101 }, publish.ErrTooLarge},
		"no digest": {func(p *publish.Promise) { p.SHA256 = publish.Digest{} }, publish.ErrInvalidRequest},
	} {
		req := r.promise(long)
		test.change(&req.Promise)
		_, err := r.BeginDirect(t.Context(), req)
		is(t, name, err, test.want)
	}
	direct, err := r.BeginDirect(t.Context(), r.promise(long))
	is(t, "begin", err, "")
	for _, numbers := range [][]int{nil, {0}, {5}, {-1}, {1, 2, 3, 4, 5}, make([]int, publish.MaxSignedParts+1)} {
		_, err := r.SignParts(t.Context(), r.grant, direct.ID, numbered(numbers...))
		is(t, "sign", err, publish.ErrInvalidRequest)
	}
	if got, want := r.uploads(), (publish.UploadCounts{Pending: 1}); got != want {
		t.Errorf("uploads: %+v, want %+v", got, want)
	}
	r.Direct = nil
	_, err = r.BeginDirect(t.Context(), r.promise(long))
	is(t, "not offered", err, publish.ErrNotFound)
}
