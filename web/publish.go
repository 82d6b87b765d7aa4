package web

import (
	"fmt"
	"net/http"

	"github.com/pawlhq/pawl/publish"
)

// publish flips the key's pointer to the generation.
func (h *Handler) publish(c *call) error {
	grant, err := c.grant()
	if err != nil {
		return err
	}
	if _, err := c.query(); err != nil {
		return err
	}
	req := publish.PublishRequest{Grant: grant, Final: true}
	if req.IfMatch, req.IfNoneMatch, err = preconditions(c.Request().Header); err != nil {
		return err
	}
	var primary *string
	var expect []name
	err = readJSONWithin(c, maxPublishJSONBytes, members{
		"final": &req.Final, "primary": &primary, "source_revision": &req.SourceRevision,
		"metadata": &req.Metadata, "manifest_digest": &req.ManifestDigest, "release": &req.Release,
		"expect": &expect, "allow_empty": &req.AllowEmpty, "reuse_from": &req.ReuseFrom, "reuse_stale": &req.ReuseStale,
	})
	if err != nil {
		return err
	}
	if primary != nil {
		if req.Primary, err = parsePath(*primary); err != nil {
			return pointAt("/primary", err)
		}
	}
	for _, pattern := range expect {
		req.Expect = append(req.Expect, string(pattern))
	}
	if err := checkExpect(req.Expect); err != nil {
		return err
	}
	receipt, err := h.service.Publish(c.Request().Context(), req)
	if err != nil {
		return err
	}
	setSuperseded(c, receipt.SupersededBy)
	h.addReceiptURL(&receipt)
	return respond(c, http.StatusOK, receipt)
}

// checkExpect holds each expected path to what parsePath asks of a path.
func checkExpect(patterns []string) error {
	return publish.EachExpected(patterns, func(i int, path publish.Path) error {
		if why := encodingFault(string(path), false); why != "" {
			return publish.InvalidField(publish.ErrInvalidPath, fmt.Sprintf("/expect/%d", i), why)
		}
		return nil
	})
}

// addReceiptURL gives a receipt the permanent address of its primary file.
func (h *Handler) addReceiptURL(receipt *publish.Receipt) {
	receipt.URL = h.links.file(receipt.Key, receipt.Token, receipt.Primary)
}
