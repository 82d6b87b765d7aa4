package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
	"golang.org/x/text/unicode/norm"

	"github.com/pawlhq/pawl/publish"
)

const (
	// uploadDone is the word for an upload in the address of a key's page.
	uploadDone = "uploaded"
	// pageTTL is the time of a lease that the page takes for an upload. It is renewed while bytes come.
	pageTTL = 30 * time.Second
	// pageHolder begins the name of the holder of an upload from the page.
	pageHolder = "page: "
	// maxUploadText bounds a field of the upload form that isn't a file.
	maxUploadText = 4 << 10
)

// uploadForm is the form that uploads files from the page. Without a key it asks for one.
type uploadForm struct {
	URL     string
	Keys    string // where the script finds the API of a key, and its page
	Pages   string
	Key     publish.Key
	By      string // the name of the credential of who uploads; "" where people say who they are
	Form    url.Values
	Problem string
}

// uploadPage is its page.
type uploadPage struct {
	frame
	Crumbs []link
	Upload uploadForm
}

// uploadForm is the form of the call's key, or of a key to be named when it has none.
func (h *Handler) uploadForm(c *call) uploadForm {
	return uploadForm{
		Key: c.key, By: c.caller.Name, URL: h.links.uploadPage(c.key),
		Keys: h.links.base + keysRoot + "/", Pages: h.links.base + keyPages + "/",
	}
}

// uploadPage shows the form alone.
func (h *Handler) uploadPage(c *call) error {
	query, err := c.query("key")
	if err != nil {
		return err
	}
	return h.showUpload(c, http.StatusOK, query, "")
}

func (h *Handler) showUpload(c *call, status int, typed url.Values, problem string) error {
	page := uploadPage{frame: h.frame(c, "Upload", "upload.js"), Crumbs: h.crumbs(string(c.key)), Upload: h.uploadForm(c)}
	page.Upload.Form, page.Upload.Problem = typed, problem
	return renderAs(c, status, "upload", page)
}

// sendUpload is the whole of an upload without a script: acquire, one upload for each file as it comes, and the final publish. The bytes go to
// the store as a stream; nothing is kept of them here.
func (h *Handler) sendUpload(c *call) error {
	if _, err := c.query(); err != nil {
		return err
	}
	if _, _, err := c.operator(); err != nil {
		return err
	}
	kind, params, err := mime.ParseMediaType(c.Request().Header.Get(echo.HeaderContentType))
	if err != nil || kind != echo.MIMEMultipartForm || params["boundary"] == "" {
		return publish.InvalidField(publish.ErrInvalidRequest, echo.HeaderContentType, "must be "+echo.MIMEMultipartForm+"; programs use the API")
	}
	sent := &pageUpload{handler: h, call: c, form: url.Values{}, paths: map[publish.Path]bool{}}
	err = sent.receive(multipart.NewReader(c.Request().Body, params["boundary"]))
	var refusal *publish.Error
	switch {
	case err == nil:
		return c.Redirect(http.StatusSeeOther, h.links.keyDone(c.key, uploadDone))
	case ended(c.Request().Context()) != nil:
		return err
	case errors.As(err, &refusal) && refusal.Code.Kind().Status < http.StatusInternalServerError:
		return h.showUpload(c, refusal.Code.Kind().Status, sent.form, saidUpload(refusal))
	}
	return err
}

// pageUpload is one form with files on its way.
type pageUpload struct {
	handler *Handler
	call    *call
	form    url.Values
	paths   map[publish.Path]bool // of the files that have come
	primary publish.Path
	grant   *publish.Grant // nil before the first file
	keeping sync.WaitGroup // renews the lease
}

// receive reads the parts in their order. The fields stand before the files in the form, and browsers send them so.
func (u *pageUpload) receive(parts *multipart.Reader) (err error) {
	ctx, stop := context.WithCancel(u.call.Request().Context())
	defer u.keeping.Wait()
	defer stop()
	defer func() {
		if err != nil && u.grant != nil {
			u.release(ctx)
		}
	}()
	for {
		part, err := parts.NextRawPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return publish.InvalidField(publish.ErrInvalidRequest, "/file", "the form ended before its end; send it again")
		}
		_, params, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
		if err != nil {
			return publish.InvalidField(publish.ErrInvalidRequest, "/file", "a part of the form has no name")
		}
		switch name, path := params["name"], norm.NFC.String(params["filename"]); {
		case name == "file" && path == "": // Browsers send one without a name where no file was chosen.
		case name == "file":
			if err := u.file(ctx, path, part); err != nil {
				return err
			}
		case name == "key" && u.call.key != "":
			return publish.InvalidField(publish.ErrInvalidRequest, "/key", "is no field of this form, which uploads to the key of its own page; leave it out")
		case name == "key" || name == "by" || name == "primary":
			text, err := io.ReadAll(io.LimitReader(part, maxUploadText+1))
			if err != nil || len(text) > maxUploadText || u.grant != nil || u.form.Has(name) {
				return publish.InvalidField(publish.ErrInvalidRequest, "/"+name, "is too long, stands twice, or behind a file")
			}
			u.form.Set(name, string(text))
		default:
			return publish.InvalidField(publish.ErrInvalidRequest, "/file", "the form has a field that isn't known here")
		}
	}
	if u.grant == nil {
		return publish.InvalidField(publish.ErrInvalidRequest, "/file", "is missing; choose a file")
	}
	return u.publish(ctx)
}

// file uploads one file. What can be refused without the key is refused before the first one is granted it.
func (u *pageUpload) file(ctx context.Context, name string, part *multipart.Part) error {
	path, err := parsePath(name)
	if err != nil {
		return err
	}
	if u.paths[path] {
		return publish.InvalidField(publish.ErrInvalidPath, "/file", fmt.Sprintf("two files are named %q; rename one of them", path))
	}
	u.paths[path] = true
	if err := u.begin(ctx); err != nil {
		return err
	}
	return u.upload(ctx, path, part)
}

// begin acquires the key before its first file, and keeps the lease alive until ctx ends.
func (u *pageUpload) begin(ctx context.Context) error {
	if u.grant != nil {
		return nil
	}
	if u.call.key == "" {
		key, err := parseKey(norm.NFC.String(strings.TrimSpace(u.form.Get("key"))))
		if err != nil {
			return err
		}
		if err := u.call.require(publish.VerbPublish, key); err != nil {
			return err
		}
		u.call.key = key
	}
	if primary := norm.NFC.String(strings.TrimSpace(u.form.Get("primary"))); primary != "" {
		var err error
		if u.primary, err = parsePath(primary); err != nil {
			return err
		}
	}
	by, err := u.call.formOperator(u.form)
	if err != nil {
		return err
	}
	lease, err := u.handler.service.Acquire(ctx, publish.AcquireRequest{
		Key: u.call.key, Holder: pageHolder + string(by), TTL: pageTTL, MaxLeases: u.handler.maxLeases,
	})
	if err != nil {
		return err
	}
	u.grant = &publish.Grant{Key: lease.Key, Token: lease.Token, LeaseID: lease.LeaseID}
	grant := *u.grant
	u.keeping.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(pageTTL / 3):
			}
			_, _ = u.handler.service.Renew(ctx, grant.Key, grant.LeaseID, 0) //nolint:errcheck // The upload goes on without a lease, too: the fence decides.
		}
	})
	return nil
}

func (u *pageUpload) upload(ctx context.Context, path publish.Path, part *multipart.Part) error {
	leave, err := u.handler.uploads.enter(u.handler.callerOf(u.call.Request()))
	if err != nil {
		return err
	}
	defer leave()
	u.handler.metrics.uploadsInFlight.Inc()
	defer u.handler.metrics.uploadsInFlight.Dec()
	_, err = u.handler.service.Upload(ctx, publish.UploadRequest{
		Grant: *u.grant, Path: path, ContentType: part.Header.Get(echo.HeaderContentType), Size: -1, Body: io.NopCloser(part),
	})
	return err
}

func (u *pageUpload) publish(ctx context.Context) error {
	req := publish.PublishRequest{Grant: *u.grant, Primary: u.primary, Final: true, Release: true}
	_, err := u.handler.service.Publish(ctx, req)
	return err
}

// release gives the key back at once after a failure, also when the browser went away. If it fails the lease runs out.
func (u *pageUpload) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := u.handler.service.Release(ctx, u.grant.Key, u.grant.LeaseID); err != nil {
		u.handler.log.InfoContext(ctx, "page_upload_not_released", "key", u.grant.Key, "token", u.grant.Token, "error", err)
	}
}

// saidUpload tells people why their upload is not what is current.
func saidUpload(e *publish.Error) string {
	switch e.Code {
	case publish.ErrStaleToken:
		return fmt.Sprintf("Somebody newer, %q with token %d, has published meanwhile; yours was refused, nothing was overwritten.", e.Holder, max(e.AcceptedToken, e.GrantedToken))
	case publish.ErrLeaseHeld:
		return fmt.Sprintf("%q holds the key under token %d until %s UTC, unless it renews. Nothing was uploaded; try again then.", e.Holder, e.Token, e.ExpiresAt.UTC().Format("15:04:05"))
	}
	return saidRefusal(e)
}

// uploadPage is the address of the form that uploads to a key, or to one that it asks for.
func (l links) uploadPage(key publish.Key) string {
	if key == "" {
		return l.base + "/upload"
	}
	return l.action(key, "upload")
}
