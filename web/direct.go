package web

import (
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/pawlhq/pawl/publish"
)

// directAnswer tells a client how to send a file to the blob store itself.
type directAnswer struct {
	UploadID publish.DirectID `json:"upload_id"`
	// PartSize is in bytes; it and Parts are 0 for a single request.
	PartSize int64 `json:"part_size"`
	Parts    int   `json:"parts"`
	// PartChecksum is crc64nvme where parts can be held to theirs, else "".
	PartChecksum string `json:"part_checksum"`
	Uploaded     []int  `json:"uploaded"`
	// Put is the single request; null for an upload in parts, and when everything has come already.
	Put          *publish.SignedRequest `json:"put"`
	SupersededBy publish.Token          `json:"superseded_by,omitempty"`
}

// beginDirect begins a direct upload, or goes on with one of the same promise.
func (h *Handler) beginDirect(c *call) error {
	grant, err := c.plainGrant()
	if err != nil {
		return err
	}
	var path, crc string
	promise := publish.Promise{}
	err = readJSON(c, members{
		"path": &path, "size": &promise.Size, "sha256": &promise.SHA256, "content_type": &promise.ContentType, "crc64nvme": &crc,
	})
	if err != nil {
		return err
	}
	if promise.Path, err = parsePath(path); err != nil {
		return pointAt("/path", err)
	}
	if crc != "" {
		sum, err := publish.ParseCRC64NVME(crc)
		if err != nil {
			return err
		}
		promise.CRC64NVME = &sum
	}
	direct, err := h.service.BeginDirect(c.Request().Context(), publish.DirectRequest{Grant: grant, Promise: promise, MaxUploads: h.maxDirect})
	if err != nil {
		return err
	}
	setSuperseded(c, direct.SupersededBy)
	if direct.Existing != nil {
		return respond(c, http.StatusOK, uploadAnswer{
			UploadResult: publish.UploadResult{
				File: *direct.Existing, Key: c.key, Token: c.token, Replaced: true, Identical: true, SupersededBy: direct.SupersededBy,
			},
			URL: h.links.file(c.key, c.token, direct.Existing.Path),
		})
	}
	c.Response().Header().Set(echo.HeaderLocation, h.links.upload(c.key, c.token, direct.ID))
	answer := directAnswer{
		UploadID: direct.ID, PartSize: direct.PartSize, Parts: direct.Parts, Uploaded: direct.Uploaded, Put: direct.Put,
		SupersededBy: direct.SupersededBy,
	}
	if direct.PartChecksum {
		answer.PartChecksum = "crc64nvme"
	}
	if answer.Uploaded == nil {
		answer.Uploaded = []int{}
	}
	return respond(c, http.StatusCreated, answer)
}

// signParts gives out signed requests for parts.
func (h *Handler) signParts(c *call) error {
	grant, err := c.plainGrant()
	if err != nil {
		return err
	}
	var numbers []int
	var sums []string
	if err := readJSON(c, members{"part_numbers": &numbers, "crc64nvme": &sums}); err != nil {
		return err
	}
	wanted, err := wantedParts(numbers, sums)
	if err != nil {
		return err
	}
	parts, err := h.service.SignParts(c.Request().Context(), grant, c.upload, wanted)
	if err != nil {
		return err
	}
	return respond(c, http.StatusOK, map[string]any{"parts": parts})
}

// wantedParts pairs the numbers of parts with their checksums, if there are any.
func wantedParts(numbers []int, sums []string) ([]publish.WantedPart, error) {
	if len(sums) != 0 && len(sums) != len(numbers) {
		return nil, publish.InvalidField(publish.ErrInvalidRequest, "/crc64nvme", "must have one sum for each of part_numbers, in their order")
	}
	wanted := make([]publish.WantedPart, len(numbers))
	for i, number := range numbers {
		wanted[i].Number = number
		if len(sums) == 0 {
			continue
		}
		crc, err := publish.ParseCRC64NVME(sums[i])
		if err != nil {
			return nil, pointAt("/crc64nvme/"+strconv.Itoa(i), err)
		}
		wanted[i].CRC64NVME = &crc
	}
	return wanted, nil
}

// verifyingAnswer is the answer to a completion that isn't at its end.
type verifyingAnswer struct {
	State string `json:"state"`
	// VerifiedBytes is how many bytes have been read back so far.
	VerifiedBytes int64 `json:"verified_bytes"`
}

// completeDirect verifies and registers what has been sent. While that lasts, repeating the call waits on.
func (h *Handler) completeDirect(c *call) error {
	grant, err := c.plainGrant()
	if err != nil {
		return err
	}
	if err := readJSON(c, members{}); err != nil {
		return err
	}
	done, err := h.service.CompleteDirect(c.Request().Context(), grant, c.upload)
	if err != nil {
		return err
	}
	setSuperseded(c, done.SupersededBy)
	if !done.Done {
		c.Response().Header().Set("Retry-After", strconv.Itoa(1))
		return respond(c, http.StatusAccepted, verifyingAnswer{State: "verifying", VerifiedBytes: done.Verified})
	}
	answer := uploadAnswer{UploadResult: done.UploadResult, URL: h.links.file(c.key, c.token, done.Path)}
	if done.Replaced || done.Identical || done.Overtaken {
		return respond(c, http.StatusOK, answer)
	}
	c.Response().Header().Set(echo.HeaderLocation, answer.URL)
	return respond(c, http.StatusCreated, answer)
}

// abortDirect gives a direct upload up.
func (h *Handler) abortDirect(c *call) error {
	grant, err := c.plainGrant()
	if err != nil {
		return err
	}
	if err := h.service.AbortDirect(c.Request().Context(), grant, c.upload); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// plainGrant is the grant of a request that has no query.
func (c *call) plainGrant() (publish.Grant, error) {
	grant, err := c.grant()
	if err != nil {
		return publish.Grant{}, err
	}
	_, err = c.query()
	return grant, err
}
