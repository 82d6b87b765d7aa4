package web

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"

	"github.com/pawlhq/pawl/publish"
)

// compareChoices is how many generations' versions the page offers to choose from; every other version can be typed.
const compareChoices = 30

// comparePage sets two published versions of a key side by side.
type comparePage struct {
	frame
	Crumbs  []link
	Key     publish.Key
	KeyPage string
	History string
	Action  string
	Path    publish.Path // of the one file that was asked for, "" for all
	Choices []publish.Version
	known   []publish.Receipt // of the choices
	A, B    *comparedVersion  // nil when there is nothing to choose
	Swap    string
	All     string       // the comparison of all files, "" on itself
	Facts   []difference // that differ
	Set     *setComparison
	File    *fileComparison
}

// comparedVersion is one side.
type comparedVersion struct {
	publish.Version
	Page    string
	Current bool
	Receipt *publish.Receipt // nil when newer publishes of the generation are all that is known
}

// difference is what the two sides say of one thing.
type difference struct{ Name, A, B string }

// comparePage compares two versions, by default the current one with the one before it: their files by digest, what their publishes say,
// and one file byte by byte.
func (h *Handler) comparePage(c *call) error {
	query, err := c.query("a", "b", "path")
	if err != nil {
		return err
	}
	path, err := pathOf(query, "path")
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	history, err := h.service.History(ctx, c.key, 0, compareChoices)
	if err != nil {
		return err
	}
	page := &comparePage{
		frame: h.frame(c, "Compare versions of "+string(c.key)), Crumbs: h.crumbs(string(c.key)), Key: c.key, KeyPage: h.links.keyPage(c.key),
		History: h.links.history(c.key, 0), Action: h.links.keyPage(c.key) + "/-/compare", Path: path, known: receiptsOf(history),
	}
	for _, receipt := range page.known {
		page.Choices = append(page.Choices, receipt.Version())
	}
	if err := h.chooseVersions(ctx, page, query); err != nil {
		return err
	}
	if page.A == nil || page.B == nil {
		return render(c, "compare", page)
	}
	page.Swap = h.links.compareFile(c.key, page.B.Version, page.A.Version, path)
	page.Facts = receiptFacts(page.A.Receipt, page.B.Receipt)
	if path != "" {
		page.All = h.links.comparePage(c.key, page.A.Version, page.B.Version)
		page.File, err = h.compareFiles(ctx, c.key, page, path, path)
	} else {
		err = h.compareAll(ctx, page)
	}
	if err != nil {
		return err
	}
	if page.File != nil && page.File.Pictures {
		page.Scripts = append(page.Scripts, h.links.static("compare.js"))
	}
	return render(c, "compare", page)
}

// compareAll compares two whole versions. Where they have one file each, or a primary one, that is compared too.
func (h *Handler) compareAll(ctx context.Context, page *comparePage) (err error) {
	a, b := page.A.Receipt, page.B.Receipt
	if a != nil && b != nil && a.ManifestDigest == b.ManifestDigest {
		page.Set = &setComparison{Same: b.Files}
	} else if page.Set, err = h.compareSets(ctx, page.Key, page.A.Version, page.B.Version); err != nil {
		return err
	}
	if a == nil || b == nil || a.Primary == "" || b.Primary == "" {
		return nil
	}
	page.File, err = h.compareFiles(ctx, page.Key, page, a.Primary, b.Primary)
	return err
}

// chooseVersions reads the two versions of the query: b is the current one unless it is named, a the one that b replaced.
func (h *Handler) chooseVersions(ctx context.Context, page *comparePage, query url.Values) (err error) {
	b, named, err := versionIn(query, "b")
	if err != nil {
		return err
	}
	a, aNamed, err := versionIn(query, "a")
	if err != nil {
		return err
	}
	pointer, err := h.service.Pointer(ctx, page.Key)
	gone := errors.Is(err, publish.ErrNotFound) || errors.Is(err, publish.ErrRetired)
	switch {
	case err != nil && !gone:
		return err
	case named:
	case !gone:
		b = pointer.Version()
	case len(page.Choices) > 0:
		b = page.Choices[0]
	default:
		return nil // Nothing was ever published.
	}
	if page.B, err = h.comparedVersion(ctx, page, b, pointer); err != nil {
		return err
	}
	if !aNamed {
		if page.B.Receipt == nil || page.B.Receipt.Previous == nil {
			return nil
		}
		a = *page.B.Receipt.Previous
	}
	page.A, err = h.comparedVersion(ctx, page, a, pointer)
	return err
}

// comparedVersion looks a version up, to be told by name when it was never published or was given up.
func (h *Handler) comparedVersion(ctx context.Context, page *comparePage, version publish.Version, current publish.Pointer) (*comparedVersion, error) {
	receipt, err := h.receiptOf(ctx, page.Key, version, page.known)
	if err != nil {
		return nil, err
	}
	if _, err := h.service.FilesAt(ctx, page.Key, version, "", 1); err != nil {
		return nil, err
	}
	return &comparedVersion{
		Version: version, Page: h.links.generationPage(page.Key, version), Current: current.Version() == version, Receipt: receipt,
	}, nil
}

// receiptOf gives the receipt of a version, from its generation if it isn't known; nil when many newer ones of that generation hide it.
func (h *Handler) receiptOf(ctx context.Context, key publish.Key, version publish.Version, known []publish.Receipt) (*publish.Receipt, error) {
	of := func(r publish.Receipt) bool { return r.Version() == version }
	if i := slices.IndexFunc(known, of); i >= 0 {
		return &known[i], nil
	}
	generation, err := h.service.Generation(ctx, key, version.Token)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(generation.Receipts, of); i >= 0 {
		return &generation.Receipts[i], nil
	}
	return nil, nil
}

// versionIn reads a version from a query.
func versionIn(query url.Values, name string) (version publish.Version, named bool, err error) {
	if query.Get(name) == "" {
		return version, false, nil
	}
	version, err = publish.ParseVersion(query.Get(name))
	return version, true, pointAt(name, err)
}

// receiptsOf gives those of the versions that can be compared, newest first.
func receiptsOf(history publish.HistoryPage) (receipts []publish.Receipt) {
	for _, g := range history.Generations {
		if g.State == publish.StateCondemned || g.State == publish.StateCollected {
			continue
		}
		receipts = append(receipts, g.Receipts...)
	}
	return receipts
}

// receiptFacts gives what two publishes say differently, beside when they were made.
func receiptFacts(a, b *publish.Receipt) []difference {
	if a == nil || b == nil {
		return nil
	}
	facts := differing(
		difference{"Publisher", a.Publisher, b.Publisher},
		difference{"Credential", a.Credential, b.Credential},
		difference{"Primary file", string(a.Primary), string(b.Primary)},
		difference{"Source revision", textOf(a.SourceRevision), textOf(b.SourceRevision)},
		difference{"Files", fmt.Sprint(a.Files), fmt.Sprint(b.Files)},
		difference{"Size", humanBytes(a.Bytes), humanBytes(b.Bytes)},
	)
	var names []string
	for name := range a.Metadata {
		names = append(names, name)
	}
	for name := range b.Metadata {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		facts = append(facts, differing(difference{name, a.Metadata[name], b.Metadata[name]})...)
	}
	return facts
}

// differing keeps the facts on which the sides differ.
func differing(facts ...difference) []difference {
	return slices.DeleteFunc(facts, func(d difference) bool { return d.A == d.B })
}

// textOf writes a number that may be absent.
func textOf(n *int64) string {
	if n == nil {
		return ""
	}
	return fmt.Sprint(*n)
}

// compareFile is the address of the page that compares one file of two versions; "" is all of them.
func (l links) compareFile(key publish.Key, a, b publish.Version, path publish.Path) string {
	if path == "" {
		return l.comparePage(key, a, b)
	}
	return l.comparePage(key, a, b) + "&path=" + url.QueryEscape(string(path))
}
