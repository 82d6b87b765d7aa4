package publishtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pawlhq/pawl/publish"
)

// PropertyTest lets several workers do random things to one key, over several replicas of the Service, and compares every answer
// with a model that is no more than the rules. Uploads stall at random between their start and their end, leases
// expire under running work, and old grants come back at any time. After each step it checks what always holds:
// tokens only grow, the fence never goes back, every file that the pointer names can be read with the digest that its
// manifest gives, sealed sets don't change and receipts don't vanish.
//
// open makes an empty store and returns the replicas on it. expire lets the running lease of a key end a moment ago.
func PropertyTest(t *testing.T, open func(t *testing.T) []publish.PointerStore, blobs publish.BlobStore, expire func(key publish.Key)) {
	var replicas []*publish.Service
	for _, store := range open(t) {
		replicas = append(replicas, &publish.Service{Pointers: store, Blobs: blobs, Log: slog.New(slog.DiscardHandler)})
	}
	runs := 0
	rapid.Check(t, func(t *rapid.T) {
		runs++ // Each run has a key of its own, so that one store serves all.
		p := &property{T: t, replicas: replicas, expire: expire, model: newKeyModel(publish.Key(fmt.Sprintf("property/%d", runs)))}
		defer p.stopUploads()
		t.Repeat(map[string]func(*rapid.T){
			"":               func(*rapid.T) { p.checkPointer() },
			"acquire":        func(*rapid.T) { p.acquire() },
			"repeat acquire": func(*rapid.T) { p.repeatAcquire() },
			"renew":          func(*rapid.T) { p.renew() },
			"release":        func(*rapid.T) { p.release() },
			"expire":         func(*rapid.T) { p.expireLease() },
			"start upload":   func(*rapid.T) { p.startUpload() },
			"upload":         func(*rapid.T) { p.upload() },
			"finish upload":  func(*rapid.T) { p.endUpload(nil) },
			"break upload":   func(*rapid.T) { p.endUpload(errBroken) },
			"delete file":    func(*rapid.T) { p.deleteFile() },
			"publish":        func(*rapid.T) { p.publish(false) },
			"publish final":  func(*rapid.T) { p.publish(true) },
			"effect":         func(*rapid.T) { p.effect() },
			"publish forged": func(*rapid.T) { p.publishForged() },
			"rollback":       func(*rapid.T) { p.rollback() },
			"retire":         func(*rapid.T) { p.retire() },
			"pin":            func(*rapid.T) { p.pin() },
			"break":          func(*rapid.T) { p.breakLease() },
			"unpin":          func(*rapid.T) { p.unpin() },
		})
		p.checkHistory()
	})
}

// property is one run: the real thing and its model.
type property struct {
	*rapid.T
	replicas []*publish.Service
	expire   func(key publish.Key)
	model    *keyModel
	running  []*stalledUpload
}

// errBroken is how the body of an upload ends when its client is gone.
var errBroken = errors.New("the client is gone")

// replica draws one of the replicas: which one is asked makes no difference.
func (p *property) replica() *publish.Service {
	return p.replicas[rapid.IntRange(0, len(p.replicas)-1).Draw(p.T, "replica")]
}

// anyGrant draws one of all grants that were ever made, so that old ones come back; every other time it is the newest, so that
// work also gets done.
func (p *property) anyGrant() *grantModel {
	if len(p.model.grants) == 0 {
		p.Skip("nothing is granted yet")
	}
	if rapid.Bool().Draw(p.T, "newest") {
		return p.model.newest()
	}
	return p.model.find(publish.Token(rapid.IntRange(1, len(p.model.grants)).Draw(p.T, "token")))
}

// want checks that err is of the kind that the model says; "" is success.
func (p *property) want(what string, err error, code publish.Code) {
	p.Helper()
	if code == "" && err != nil || code != "" && !errors.Is(err, code) {
		p.Fatalf("%s: got %v, the model says %q", what, err, code)
	}
}

func (p *property) equal(what string, got, want any) {
	p.Helper()
	if got != want {
		p.Fatalf("%s: got %v, the model says %v", what, got, want)
	}
}

// checkPointer checks that the current version is the model's and that a reader gets all its bytes.
func (p *property) checkPointer() {
	pointer, err := p.replica().Pointer(p.Context(), p.model.key)
	if p.model.current == nil {
		p.want("pointer", err, p.model.withoutPointer())
		return
	}
	p.want("pointer", err, "")
	p.equal("current version", pointer.Version(), *p.model.current)
	p.equal("current token", pointer.Token, p.model.fence)
	p.checkSet(p.model.find(pointer.Token), pointer.ManifestDigest)
}

// checkSet checks that the files of a generation are those of its last publish, and readable.
func (p *property) checkSet(g *grantModel, manifest publish.Digest) {
	p.Helper()
	service := p.replica()
	page, err := service.Files(p.Context(), g.Key, g.Token, "", publish.MaxPageSize)
	p.want("files", err, "")
	p.equal("manifest", publish.ManifestDigest(page.Files), manifest)
	p.equal("number of files", len(page.Files), len(g.published))
	for _, file := range page.Files {
		stored, err := service.File(p.Context(), g.Key, g.Token, file.Path, publish.LeaseID{})
		p.want("file", err, "")
		body, err := service.OpenFile(p.Context(), stored, 0, -1)
		p.want("open", err, "")
		content, err := io.ReadAll(body)
		p.want("read", errors.Join(err, body.Close()), "")
		p.equal("digest of "+string(file.Path), publish.Digest(sha256.Sum256(content)), file.SHA256)
		p.equal("content of "+string(file.Path), string(content), g.published[file.Path])
	}
}

// checkHistory checks at the end that every grant, receipt and published set of the run is still what it was.
func (p *property) checkHistory() {
	for _, g := range p.model.grants {
		there, err := p.replica().Generation(p.Context(), g.Key, g.Token)
		p.want("generation", err, "")
		p.equal("state", there.State == publish.StateSealed, g.sealed)
		p.equal("number of receipts", len(there.Receipts), len(g.receipts))
		for i, receipt := range there.Receipts { // Newest first.
			p.sameReceipt(receipt, g.receipts[len(g.receipts)-1-i])
		}
		if n := len(g.receipts); n > 0 {
			p.checkSet(g, g.receipts[n-1].ManifestDigest)
		}
	}
}

// sameReceipt checks all of a receipt that lasts.
func (p *property) sameReceipt(got, want publish.Receipt) {
	p.Helper()
	describe := func(r publish.Receipt) string {
		return fmt.Sprint(r.Key, r.Version(), r.ManifestDigest, r.Final, r.Files, r.Bytes, r.PublishedAt.UTC(), r.Publisher, r.Previous, r.LeaseExpired, r.ReuseFrom, r.ReusedFiles, r.ReusedBytes)
	}
	p.equal("receipt", describe(got), describe(want))
}

// stalledUpload is an upload whose body waits to be let go on.
type stalledUpload struct {
	grant   *grantModel
	path    publish.Path
	content string
	number  int // by its start, in the model
	body    *stalledBody
	done    chan struct{} // closed when result and err are set
	result  publish.UploadResult
	err     error
}

// stalledBody gives its content, or an error, once it is let go on.
type stalledBody struct {
	started chan struct{} // closed by the first Read
	resume  chan error
	reader  io.Reader
}

func newStalledBody(content string) *stalledBody {
	return &stalledBody{started: make(chan struct{}), resume: make(chan error, 1), reader: strings.NewReader(content)}
}

func (b *stalledBody) Read(buffer []byte) (int, error) {
	select {
	case <-b.started:
	default:
		close(b.started)
		if err := <-b.resume; err != nil {
			b.reader = io.MultiReader(bytes.NewReader([]byte("x")), failingReader{err})
		}
	}
	return b.reader.Read(buffer)
}

type failingReader struct{ err error }

func (r failingReader) Read([]byte) (int, error) { return 0, r.err }

// stopUploads ends what still runs at the end of a run.
func (p *property) stopUploads() {
	for _, upload := range p.running {
		upload.body.resume <- errBroken
		<-upload.done
	}
}

// start runs an upload until its body is asked for, or until it is over without that.
func (u *stalledUpload) start(ctx context.Context, service *publish.Service, req publish.UploadRequest) (stalled bool) {
	u.body, u.done = newStalledBody(u.content), make(chan struct{})
	req.Body = u.body
	go func() {
		defer close(u.done)
		u.result, u.err = service.Upload(ctx, req)
	}()
	select {
	case <-u.body.started:
		return true
	case <-u.done:
		return false
	}
}
