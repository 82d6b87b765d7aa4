package web

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/pawlhq/pawl/publish"
)

// archiveFormat is a way to put a set of files into one stream, of a length that is known before the first byte is read.
type archiveFormat struct {
	suffix, contentType string
	// measure begins to add up the length, write the archive itself. at is the time of every file in it.
	measure func(at time.Time) archiveLength
	write   func(to io.Writer, at time.Time) archiveWriter
}

// archiveLength adds up how long an archive is, in bytes.
type archiveLength interface {
	add(file publish.File) error
	total() int64
}

// archiveWriter writes an archive: for each file its head and then its bytes, and the end by close. An archive that wasn't closed isn't
// well-formed.
type archiveWriter interface {
	next(file publish.File) (io.Writer, error)
	close() error
}

func (h *Handler) zip(c *call) error { return h.archive(c, zipFormat) }
func (h *Handler) tar(c *call) error { return h.archive(c, tarFormat) }

// archive serves all files of a generation's last published revision as one file. The listing is read in pages, once for the length and
// again for the bytes, so that a set of any size takes little memory; its digest shows both times that it is the published one.
func (h *Handler) archive(c *call, format archiveFormat) error {
	if _, err := c.query(); err != nil {
		return err
	}
	set, err := h.archivedSet(c)
	if err != nil {
		return err
	}
	tag := `"` + set.manifest.String() + `"`
	switch request := c.Request().Header; {
	case len(request.Values("If-Match")) > 0 && !listsTag(request.Values("If-Match"), tag, false):
		return &publish.Error{Code: publish.ErrPreconditionFailed, Detail: "the archive is not the one that If-Match names"}
	case listsTag(request.Values("If-None-Match"), tag, true):
		set.head(c.Response().Header(), tag)
		return c.NoContent(http.StatusNotModified)
	}
	measure := format.measure(set.at)
	for file, err := range set.files() {
		if err == nil {
			err = measure.add(file)
		}
		if err != nil {
			return err
		}
	}
	length := measure.total()
	begin := func() {
		header := c.Response().Header()
		set.head(header, tag)
		name := fmt.Sprintf("%s-%d%s", path.Base(string(set.key)), set.version.Token, format.suffix)
		header.Set(echo.HeaderContentDisposition, attachment(name))
		header.Set(echo.HeaderContentSecurityPolicy, hiddenPolicy)
		header.Set(echo.HeaderContentType, format.contentType)
		header.Set(echo.HeaderContentLength, strconv.FormatInt(length, 10))
		header.Set("Accept-Ranges", "none")
		c.Response().WriteHeader(http.StatusOK)
	}
	if c.Request().Method == http.MethodHead {
		begin()
		return nil
	}
	// The head waits for the first byte, so that a store that is away shows as a problem document.
	answer := &countedAnswer{to: c.Response(), begin: begin}
	err = set.write(answer, format)
	if err == nil && answer.n != length {
		err = fmt.Errorf("the archive has %d bytes, and %d were promised", answer.n, length)
	}
	if err != nil && answer.err != nil {
		return errors.Join(context.Canceled, answer.err) // The client left, or its connection broke.
	}
	return err
}

// archivedSet is one published revision of a generation. A newer one of a generation that is still open changes nothing in it.
type archivedSet struct {
	service  *publish.Service
	ctx      context.Context
	key      publish.Key
	version  publish.Version
	manifest publish.Digest
	at       time.Time
	sealed   bool
}

// archivedSet finds the last published revision of the call's generation.
func (h *Handler) archivedSet(c *call) (archivedSet, error) {
	ctx := c.Request().Context()
	generation, err := h.service.Generation(ctx, c.key, c.token)
	if err != nil {
		return archivedSet{}, err
	}
	if len(generation.Receipts) == 0 {
		return archivedSet{}, &publish.Error{Code: publish.ErrNotFound, Key: c.key, Token: c.token, Detail: "nothing was published under this token"}
	}
	receipt := generation.Receipts[0] // the newest
	return archivedSet{
		service: h.service, ctx: ctx, key: c.key, version: receipt.Version(), manifest: receipt.ManifestDigest,
		// Whole seconds, and the same for every reader: an archive of the same revision is the same, byte for byte.
		at: receipt.PublishedAt.UTC().Truncate(time.Second), sealed: generation.State == publish.StateSealed,
	}, nil
}

// files yields the files of the set in the order of their paths, and last of all an error if they weren't exactly those of the manifest.
func (s archivedSet) files() iter.Seq2[publish.File, error] {
	return func(yield func(publish.File, error) bool) {
		manifest := publish.NewManifestHash()
		for after := publish.Path(""); ; {
			page, err := s.service.FilesAt(s.ctx, s.key, s.version, after, publish.MaxPageSize)
			if err != nil {
				yield(publish.File{}, err)
				return
			}
			for _, file := range page.Files {
				// A name that leads out of a folder can't be in a manifest. Should it be there, it gets no further.
				if _, err := publish.ParsePath(string(file.Path)); err != nil {
					yield(publish.File{}, fmt.Errorf("the manifest of %s %s has the name %+q: %w", s.key, s.version, file.Path, publish.ErrInternal))
					return
				}
				manifest.Add(file)
				if !yield(file, nil) {
					return
				}
			}
			if page.Next == "" {
				break
			}
			after = page.Next
		}
		if digest, err := manifest.Digest(); err != nil || digest != s.manifest {
			yield(publish.File{}, errors.Join(fmt.Errorf("the list of files of %s %s isn't the manifest that was published", s.key, s.version), err))
		}
	}
}

// write streams the archive, checking every byte. Any fault leaves it without its end.
func (s archivedSet) write(to io.Writer, format archiveFormat) error {
	archive := format.write(to, s.at)
	for file, err := range s.files() {
		if err == nil {
			err = s.copyFile(archive, file)
		}
		if err != nil {
			return err
		}
	}
	return archive.close()
}

func (s archivedSet) copyFile(archive archiveWriter, file publish.File) error {
	stored, err := s.service.FileAt(s.ctx, s.key, s.version, file.Path)
	if err != nil {
		return err
	}
	body, err := s.service.OpenFile(s.ctx, stored, 0, -1)
	if err != nil {
		return err
	}
	defer body.Close() //nolint:errcheck // Its bytes are counted and hashed; nothing depends on how it ends.
	to, err := archive.next(file)
	if err != nil {
		return err
	}
	hash := sha256.New()
	n, err := io.Copy(io.MultiWriter(to, hash), io.LimitReader(body, file.Size))
	switch {
	case err != nil:
		return fmt.Errorf("archiving %s: %w", file.Path, err)
	case n != file.Size || publish.Digest(hash.Sum(nil)) != file.SHA256:
		return fmt.Errorf("archiving %s: the store has other bytes than were published", file.Path)
	}
	return nil
}

// head sets what a full answer and a 304 have in common. The tag is the manifest's digest: bytes, types, names and order are in it, and the
// address names the rest.
func (s archivedSet) head(header http.Header, tag string) {
	header.Set("ETag", tag)
	header.Set(headerToken, strconv.FormatInt(int64(s.version.Token), 10))
	header.Set(echo.HeaderCacheControl, cacheRevalidate)
	if s.sealed {
		header.Set(echo.HeaderCacheControl, cacheForever)
	}
}

// listsTag reports whether an If-Match or If-None-Match names a tag (RFC 9110, 8.8.3.2); a weakened one counts if weak is true.
func listsTag(values []string, tag string, weak bool) bool {
	for candidate := range strings.SplitSeq(strings.Join(values, ","), ",") {
		candidate = strings.TrimSpace(candidate)
		if weak {
			candidate = strings.TrimPrefix(candidate, "W/")
		}
		if candidate == "*" || candidate == tag {
			return true
		}
	}
	return false
}

// countedAnswer counts the bytes of an answer whose head is sent with the first of them.
type countedAnswer struct {
	to    io.Writer
	begin func()
	begun bool
	n     int64
	err   error
}

func (a *countedAnswer) Write(p []byte) (int, error) {
	if !a.begun {
		a.begun = true
		a.begin()
	}
	n, err := a.to.Write(p)
	a.n += int64(n)
	if err != nil {
		a.err = err
	}
	return n, err
}
