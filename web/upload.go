package web

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/pawlhq/pawl/publish"
)

// uploadAnswer is an upload's result with the file's permanent address.
type uploadAnswer struct {
	publish.UploadResult
	URL string `json:"url"`
}

// upload stores one file, as a stream. Everything that can be told without the body is checked before its first
// byte is read, so a client that sends Expect: 100-continue spares itself a body that is refused.
func (h *Handler) upload(c *call) error {
	grant, err := c.fileGrant()
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	req, pub, err := uploadRequest(c, grant)
	if err != nil {
		return h.service.RefuseUpload(ctx, grant, c.path, err)
	}
	leave, err := h.uploads.enter(h.callerOf(c.Request()))
	if err != nil {
		return h.turnAway(c, err)
	}
	defer leave()
	h.metrics.uploadsInFlight.Inc()
	defer h.metrics.uploadsInFlight.Dec()
	if pub != nil {
		return h.uploadAndPublish(c, req, *pub)
	}
	result, err := h.service.Upload(ctx, req)
	if err != nil {
		return err
	}
	setSuperseded(c, result.SupersededBy)
	answer := uploadAnswer{UploadResult: result, URL: h.links.file(c.key, c.token, c.path)}
	if result.Replaced || result.Identical || result.Overtaken {
		return respond(c, http.StatusOK, answer)
	}
	c.Response().Header().Set(echo.HeaderLocation, answer.URL)
	return respond(c, http.StatusCreated, answer)
}

func (h *Handler) uploadAndPublish(c *call, req publish.UploadRequest, pub publish.PublishRequest) error {
	receipt, err := h.service.UploadAndPublish(c.Request().Context(), req, pub)
	if err != nil {
		return err
	}
	setSuperseded(c, receipt.SupersededBy)
	h.addReceiptURL(&receipt)
	if receipt.Replayed {
		return respond(c, http.StatusOK, receipt)
	}
	c.Response().Header().Set(echo.HeaderLocation, h.links.file(c.key, c.token, c.path))
	return respond(c, http.StatusCreated, receipt)
}

// uploadRequest reads the headers and the query of an upload. The publish is nil when none is asked for.
func uploadRequest(c *call, grant publish.Grant) (req publish.UploadRequest, pub *publish.PublishRequest, err error) {
	r := c.Request()
	digest, err := promisedDigest(r.Header)
	if err != nil {
		return req, nil, err
	}
	if coding := r.Header.Get(echo.HeaderContentEncoding); coding != "" && !strings.EqualFold(coding, "identity") {
		return req, nil, publish.InvalidField(publish.ErrInvalidRequest, echo.HeaderContentEncoding, "must be absent: the bytes are stored as they come; send them without it")
	}
	if r.Header.Get("Content-Range") != "" {
		return req, nil, publish.InvalidField(publish.ErrInvalidRequest, "Content-Range", "must be absent: an upload carries the whole file")
	}
	req = publish.UploadRequest{
		Grant: grant, Path: c.path, ContentType: r.Header.Get(echo.HeaderContentType),
		Size: r.ContentLength, Digest: digest, Body: r.Body,
	}
	pub, err = publishWithUpload(c, grant)
	return req, pub, err
}

// publishWithUpload reads whether an upload also publishes, and on which conditions.
func publishWithUpload(c *call, grant publish.Grant) (*publish.PublishRequest, error) {
	query, err := c.query("publish")
	if err != nil {
		return nil, err
	}
	match, none, err := preconditions(c.Request().Header)
	if err != nil {
		return nil, err
	}
	publishing, err := flagOf(query, "publish")
	switch {
	case err != nil:
		return nil, err
	case publishing && c.byLease && !c.allowed(publish.VerbPublish).Has(c.key):
		return nil, c.unauthorized("a lease_id as the password of the user " + leaseUser + " opens the files of its generation alone; to publish them, too, send a credential, and the lease_id in the header " + headerLease)
	case publishing:
		return &publish.PublishRequest{Grant: grant, Final: true, IfMatch: match, IfNoneMatch: none}, nil
	case match != nil || none:
		return nil, publish.InvalidField(publish.ErrInvalidRequest, "If-Match", "and If-None-Match are conditions of a publish; send them with it, or add ?publish=true")
	}
	return nil, nil
}

// deleteFile drops a file from the open generation.
func (h *Handler) deleteFile(c *call) error {
	grant, err := c.fileGrant()
	if err != nil {
		return err
	}
	if _, err := c.query(); err != nil {
		return err
	}
	if err := h.service.DeleteFile(c.Request().Context(), grant, c.path); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// setSuperseded warns a worker whose key was granted again: what it did stands, but it may be fenced soon.
func setSuperseded(c *call, by publish.Token) {
	if by > 0 {
		c.Response().Header().Set(headerSupersededBy, strconv.FormatInt(int64(by), 10))
	}
}
