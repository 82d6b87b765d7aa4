package web

import (
	"net/http"
	"net/url"

	"github.com/pawlhq/pawl/publish"
)

// fileAnswer is a file with its permanent address.
type fileAnswer struct {
	publish.File
	URL string `json:"url"`
}

// filePageAnswer is a page of files with their addresses.
type filePageAnswer struct {
	Files []fileAnswer `json:"files"`
	Next  publish.Path `json:"next,omitempty"`
}

// list shows a page of pointers.
func (h *Handler) list(c *call) error {
	query, err := c.query("prefix", "delimiter", "after", "limit")
	if err != nil {
		return err
	}
	req, err := listRequest(query)
	if err != nil {
		return err
	}
	req.Reach, req.Delimiter = c.reach(), query.Get("delimiter")
	if req.Limit, err = limitOf(query); err != nil {
		return err
	}
	page, err := h.service.List(c.Request().Context(), req)
	if err != nil {
		return err
	}
	for i := range page.Keys {
		h.addPointerURL(&page.Keys[i])
	}
	page.Keys, page.Prefixes = notNil(page.Keys), notNil(page.Prefixes)
	return respond(c, http.StatusOK, page)
}

// listRequest reads what the list and the page have in common.
func listRequest(query url.Values) (req publish.ListRequest, err error) {
	if req.Prefix, err = parsePrefix("prefix", query.Get("prefix")); err != nil {
		return req, err
	}
	req.After, err = parsePrefix("after", query.Get("after"))
	return req, err
}

// history shows a page of the key's generations.
func (h *Handler) history(c *call) error {
	query, err := c.query("before", "limit")
	if err != nil {
		return err
	}
	var before publish.Token
	if query.Get("before") != "" {
		if before, err = publish.ParseToken(query.Get("before")); err != nil {
			return pointAt("before", err)
		}
	}
	limit, err := limitOf(query)
	if err != nil {
		return err
	}
	page, err := h.service.History(c.Request().Context(), c.key, before, limit)
	if err != nil {
		return err
	}
	page.Generations = notNil(page.Generations)
	for i := range page.Generations {
		h.complete(&page.Generations[i])
	}
	return respond(c, http.StatusOK, page)
}

// generation shows one generation.
func (h *Handler) generation(c *call) error {
	if _, err := c.query(); err != nil {
		return err
	}
	generation, err := h.service.Generation(c.Request().Context(), c.key, c.token)
	if err != nil {
		return err
	}
	h.complete(&generation)
	return respond(c, http.StatusOK, generation)
}

// complete adds addresses to a generation, and gives its lists as lists also when they are empty.
func (h *Handler) complete(generation *publish.Generation) {
	generation.Receipts, generation.Rejections = notNil(generation.Receipts), notNil(generation.Rejections)
	for i := range generation.Receipts {
		h.addReceiptURL(&generation.Receipts[i])
	}
}

// files shows a page of a generation's published files.
func (h *Handler) files(c *call) error {
	query, err := c.query("after", "limit", "revision")
	if err != nil {
		return err
	}
	var after publish.Path
	if query.Get("after") != "" {
		if after, err = parsePath(query.Get("after")); err != nil {
			return pointAt("after", err)
		}
	}
	limit, err := limitOf(query)
	if err != nil {
		return err
	}
	revision, err := revisionOf(query)
	if err != nil {
		return err
	}
	page, err := h.filePage(c, revision, after, limit)
	if err != nil {
		return err
	}
	answer := filePageAnswer{Files: make([]fileAnswer, len(page.Files)), Next: page.Next}
	for i, file := range page.Files {
		answer.Files[i] = fileAnswer{File: file, URL: h.links.fileAt(c.key, publish.Version{Token: c.token, Revision: revision}, file.Path)}
	}
	return respond(c, http.StatusOK, answer)
}

// filePage reads a page of a published revision, or of the last one when revision is 0.
func (h *Handler) filePage(c *call, revision int64, after publish.Path, limit int) (publish.FilePage, error) {
	ctx := c.Request().Context()
	if revision == 0 {
		return h.service.Files(ctx, c.key, c.token, after, limit)
	}
	return h.service.FilesAt(ctx, c.key, publish.Version{Token: c.token, Revision: revision}, after, limit)
}

// notNil makes an empty list show as [] in JSON.
func notNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
