package client

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/pawlhq/pawl/publish"
)

// errUnbound is the error of a Lease that was put together by hand.
var errUnbound = errors.New("this lease has no client: it didn't come from Acquire, Renew, Run or a Keeper; use the Client's methods with its Grant")

// Upload stores one file under the lease, in a stream. A body that can be read again (an io.Seeker, such as an *os.File) is read once for its
// SHA-256, which the server checks before the file counts, and again for each attempt. Any other body is sent once, and hashed as it goes; when
// the server has stored something else the error is digest-mismatch. The content type follows from the path; for another one use Client.Upload.
//
// ctx ends it. Work that wants to go on after its lease has run out by the own clock gives it a context of its own.
func (l Lease) Upload(ctx context.Context, path publish.Path, body io.Reader) (publish.UploadResult, error) {
	if l.client == nil {
		return publish.UploadResult{}, errUnbound
	}
	req := publish.UploadRequest{Grant: l.Grant(), Path: path, Size: -1, Body: body}
	if err := promise(ctx, &req); err != nil {
		return publish.UploadResult{}, err
	}
	return l.client.Upload(ctx, req)
}

// UploadFile stores the file called name under the lease as path. It is read once for its SHA-256, and a large one is sent to the blob store
// itself where the server offers that; see Client.UploadFile. The file must not change meanwhile: when it does, the upload fails.
func (l Lease) UploadFile(ctx context.Context, path publish.Path, name string) (result publish.UploadResult, err error) {
	if l.client == nil {
		return publish.UploadResult{}, errUnbound
	}
	file, err := os.Open(name)
	if err != nil {
		return publish.UploadResult{}, err
	}
	defer file.Close() //nolint:errcheck // Nothing was written.
	switch info, err := file.Stat(); {
	case err != nil:
		return publish.UploadResult{}, err
	case info.IsDir():
		return publish.UploadResult{}, fmt.Errorf("%s is a folder; upload its files one by one", name)
	case !info.Mode().IsRegular():
		return l.Upload(ctx, path, file)
	}
	sum, check := sha256.New(), publish.NewCRC64NVME()
	size, err := io.Copy(io.MultiWriter(sum, check), untilDone{ctx, file})
	if err != nil {
		return publish.UploadResult{}, fmt.Errorf("reading the file to upload: %w", err)
	}
	crc := check.Sum64()
	return l.client.UploadFile(ctx, FileUpload{
		Grant: l.Grant(), Path: path, Source: file, Size: size, Digest: publish.Digest(sum.Sum(nil)), CRC64NVME: &crc,
	})
}

// Publish makes what was uploaded under the lease current, and seals it; change changes the request, e.g. names a Primary or what to Expect.
//
// The server's fence is the judge, and not the own clock: in the work of Run, Publish is sent although the context of work has ended with
// its lease. An expired holder whom nobody has replaced publishes well, and one who was overtaken gets publish.ErrStaleToken with both
// tokens. Everything else that ends ctx before the lease ends it does end Publish, and so do ctx's deadline and the context of Run.
func (l Lease) Publish(ctx context.Context, change ...func(*publish.PublishRequest)) (publish.Receipt, error) {
	if l.client == nil {
		return publish.Receipt{}, errUnbound
	}
	req := publish.PublishRequest{Final: true}
	for _, set := range change {
		set(&req)
	}
	req.Grant = l.Grant()
	ctx, done := l.outlive(ctx)
	defer done()
	receipt, err := l.client.Publish(ctx, req)
	if err == nil && req.Final && l.run != nil {
		l.run.published.Store(true)
	}
	return receipt, err
}

// Effect gives the idempotency key to send a third party for one effect; see Client.Effect. A fenced holder is refused with stale-token.
func (l Lease) Effect(ctx context.Context, name publish.EffectName) (publish.Effect, error) {
	if l.client == nil {
		return publish.Effect{}, errUnbound
	}
	return l.client.Effect(ctx, l.Grant(), name)
}

// EffectDone notes that the third party has carried an effect out, and what it answered; see Client.EffectDone. Like Publish it is sent although
// the context of Run's work has ended with its lease: what is done is done.
func (l Lease) EffectDone(ctx context.Context, name publish.EffectName, result string) (publish.Effect, error) {
	if l.client == nil {
		return publish.Effect{}, errUnbound
	}
	ctx, done := l.outlive(ctx)
	defer done()
	return l.client.EffectDone(ctx, l.Grant(), name, result)
}

// outlive returns a context that ends as ctx does, except that the end of the lease doesn't end it.
func (l Lease) outlive(ctx context.Context) (context.Context, context.CancelFunc) {
	if l.run == nil {
		return ctx, func() {}
	}
	free, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	done := func() { cancel(context.Canceled) }
	if deadline, ok := ctx.Deadline(); ok {
		var end context.CancelFunc
		free, end = context.WithDeadline(free, deadline)
		done = func() { end(); cancel(context.Canceled) }
	}
	endWith := func(parent context.Context) (stop func() bool) {
		return context.AfterFunc(parent, func() {
			if cause := context.Cause(parent); !isLoss(cause) {
				cancel(cause)
			}
		})
	}
	stop, stopRun := endWith(ctx), endWith(l.run.ctx)
	if ctx.Err() != nil && !isLoss(context.Cause(ctx)) {
		cancel(context.Cause(ctx)) // At once: AfterFunc takes a goroutine's time.
	}
	return free, func() { stop(); stopRun(); done() }
}

// promise reads a body that can be read again for its size and SHA-256.
func promise(ctx context.Context, req *publish.UploadRequest) error {
	seeker, ok := req.Body.(io.Seeker)
	if !ok {
		return nil
	}
	start, err := seeker.Seek(0, io.SeekCurrent)
	if err != nil {
		return nil //nolint:nilerr // A pipe, for instance, has the method but can't.
	}
	sum := sha256.New()
	size, err := io.Copy(sum, untilDone{ctx, req.Body})
	if err == nil {
		_, err = seeker.Seek(start, io.SeekStart)
	}
	if err != nil {
		return fmt.Errorf("reading the file to upload: %w", err)
	}
	req.Size, req.Digest = size, publish.Digest(sum.Sum(nil))
	return nil
}

// untilDone reads until its context ends.
type untilDone struct {
	ctx  context.Context
	from io.Reader
}

func (r untilDone) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.from.Read(p)
}
