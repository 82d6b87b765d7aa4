package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/minio/crc64nvme"
	"github.com/spf13/pflag"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/publish"
)

// directFlags say how large files go to the blob store.
type directFlags struct {
	text     string
	parallel int
}

func (f *directFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.text, "direct", string(client.DirectAuto), "send large files to the blob store itself: auto (where the server offers it), always or never")
	flags.IntVar(&f.parallel, "parallel", 4, "how many parts of a file, or files of a folder, are sent at once")
}

func (f directFlags) mode() (client.DirectMode, error) {
	switch mode := client.DirectMode(f.text); {
	case mode != client.DirectAuto && mode != client.DirectAlways && mode != client.DirectNever:
		return "", usageError{fmt.Errorf("--direct is %q; it must be auto, always or never", f.text)}
	case f.parallel < 1 || f.parallel > 64:
		return "", usageError{fmt.Errorf("--parallel is %d; it must be from 1 to 64", f.parallel)}
	default:
		return mode, nil
	}
}

// upload is one file on its way into a generation.
type upload struct {
	path        publish.Path
	contentType string
	mode        client.DirectMode
	parallel    int
	// sent, when set, is told of bytes as they go; of a negative number when they must go again.
	sent func(n int64)
	// notice, when set, is told what people should know.
	notice func(format string, args ...any)

	opened *os.File    // closed by close
	body   io.Reader   // what is streamed, when file is nil
	file   *os.File    // a regular file
	before os.FileInfo // of file, before it was read
	size   int64       // bytes
	sum    publish.Digest
	crc    uint64
}

// read reads a regular file once, so that it can be sent in parts, and a repetition is recognised. Other files are streams.
func (u *upload) read(ctx context.Context, f *os.File) error {
	u.opened = f
	info, err := f.Stat()
	switch {
	case err != nil:
		return ioError{err}
	case info.IsDir():
		return usageError{fmt.Errorf("%s is a folder; give a file", f.Name())}
	case !info.Mode().IsRegular():
		u.body = f
		return nil
	}
	u.before = info
	if u.size, u.sum, u.crc, err = hashFile(ctx, f); err != nil {
		return err
	}
	u.file = f
	return nil
}

func (u *upload) close() {
	if u.opened != nil {
		_ = u.opened.Close() //nolint:errcheck // Nothing was written.
	}
}

// direct reports whether the file may go to the blob store itself.
func (u *upload) direct() bool {
	return u.file != nil && u.mode.Takes(u.size)
}

func (u *upload) request(grant publish.Grant) publish.UploadRequest {
	req := publish.UploadRequest{Grant: grant, Path: u.path, ContentType: u.contentType, Size: -1, Body: u.body}
	if u.file != nil {
		req.Size, req.Digest, req.Body = u.size, u.sum, io.NewSectionReader(u.file, 0, u.size)
	}
	if u.sent != nil {
		req.Body = tellOf(req.Body, u.sent)
	}
	return req
}

// tell has a meter told of what is sent.
func (u *upload) tell(m meter) {
	u.sent = m.Add
	m.Expect(1, u.size)
}

func (u *upload) fileUpload(grant publish.Grant) client.FileUpload {
	detour := func(reason error) {
		if u.notice != nil {
			u.notice("%s goes through the server: %v", u.path, reason)
		}
	}
	return client.FileUpload{
		Detour: detour, Grant: grant, Path: u.path, ContentType: u.contentType, Source: u.file, Size: u.size, Digest: u.sum, CRC64NVME: &u.crc,
		NewCRC64NVME: crc64nvme.New, Mode: u.mode, Parallel: u.parallel, Sent: u.sent,
	}
}

// send uploads the file.
func (u *upload) send(ctx context.Context, c *client.Client, grant publish.Grant) (publish.UploadResult, error) {
	if u.file == nil {
		return c.Upload(ctx, u.request(grant))
	}
	result, err := c.UploadFile(ctx, u.fileUpload(grant))
	return result, u.changed(err)
}

// changed says so when an upload has failed because its file isn't what it was when it was read first.
func (u *upload) changed(err error) error {
	if err == nil || u.file == nil || exitCode(err) == exitFenced || errors.Is(err, publish.ErrOutcomeUnknown) {
		return err
	}
	if after, statErr := u.file.Stat(); statErr == nil && !sameContent(u.before, after) {
		return changedError{u.file.Name()}
	}
	return err
}

// publish uploads the file and publishes the generation: in one request, unless the file goes to the blob store itself.
func (u *upload) publish(ctx context.Context, c *client.Client, grant publish.Grant) (publish.Receipt, error) {
	if !u.direct() {
		receipt, err := c.UploadAndPublish(ctx, u.request(grant))
		return receipt, u.changed(err)
	}
	if _, err := c.UploadFile(ctx, u.fileUpload(grant)); errors.Is(err, publish.ErrGenerationSealed) {
		// Perhaps by an earlier run of this command: the server compares the digest, without reading the body, and replays.
		return c.UploadAndPublish(ctx, u.request(grant))
	} else if err != nil {
		return publish.Receipt{}, u.changed(err)
	}
	return c.Publish(ctx, publish.PublishRequest{Grant: grant, Final: true})
}

// abort gives up what was begun, if anything. Failing that, the server sweeps it.
func (u *upload) abort(ctx context.Context, c *client.Client, grant publish.Grant) {
	if !u.direct() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_ = c.AbortUpload(ctx, u.fileUpload(grant)) //nolint:errcheck // See above.
}
