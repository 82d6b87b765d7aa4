package web

import (
	"context"
	"fmt"
	"net/url"
	"slices"

	"github.com/pawlhq/pawl/publish"
)

// generationFiles is how many files a page lists.
const generationFiles = 200

// generationPage is all about what was written under one token.
type generationPage struct {
	frame
	Crumbs     []link
	Generation publish.Generation
	KeyPage    string
	History    string
	API        string
	State      string
	Rejections string // the page of all rejections of the key
	Target     string // the page of what a rollback has brought back, or a retirement taken away
	Revision   int64  // whose files are shown, 0 when nothing is published
	Revisions  []revisionRow
	Files      []fileRow
	Shown      *publish.Receipt // nil when it isn't one of the newest
	Gone       bool             // the files were given up
	First      string           // the first page of files, "" on itself
	Next       string
	Zip, Tar   string

	Preview            *preview
	PreviousFile, Onto string // the pages of the files before and behind the one that is shown
}

// revisionRow is a publish of the generation.
type revisionRow struct {
	publish.Receipt
	Page    string
	Compare string // with what was current before
	Here    bool
}

// fileRow is a file of the revision that is shown.
type fileRow struct {
	publish.File
	URL  string // its permanent address
	Page string // this page with its preview
	Here bool
}

// generationPage shows what was written under one token: its files in one revision, the newest unless the query names one, a
// preview of one file, and what became of the generation.
func (h *Handler) generationPage(c *call) error {
	query, err := c.query("revision", "path", "after")
	if err != nil {
		return err
	}
	revision, err := revisionOf(query)
	if err != nil {
		return err
	}
	path, err := pathOf(query, "path")
	if err != nil {
		return err
	}
	after, err := pathOf(query, "after")
	if err != nil {
		return err
	}
	g, err := h.service.Generation(c.Request().Context(), c.key, c.token)
	if err != nil {
		return err
	}
	page := &generationPage{
		frame: h.frame(c, fmt.Sprintf("%s generation %d", c.key, c.token)), Crumbs: h.crumbs(string(c.key)), Generation: g,
		KeyPage: h.links.keyPage(c.key), History: h.links.history(c.key, 0), API: h.links.generation(c.key, c.token),
		Rejections: h.links.feed("/rejections", with(nil, "prefix", string(c.key))),
		State:      stateSentence(g), Gone: g.Kind != publish.KindRetire && (g.State == publish.StateCondemned || g.State == publish.StateCollected),
	}
	if g.Target != nil {
		page.Target = h.links.generationPage(c.key, *g.Target)
	}
	if page.Revision = revision; revision == 0 {
		page.Revision = g.Revision
	}
	for _, receipt := range g.Receipts {
		row := revisionRow{Receipt: receipt, Page: h.links.generationPage(c.key, receipt.Version()), Here: receipt.Revision == page.Revision}
		if receipt.Previous != nil {
			row.Compare = h.links.comparePage(c.key, *receipt.Previous, receipt.Version())
		}
		if row.Here {
			page.Shown = &row.Receipt
		}
		page.Revisions = append(page.Revisions, row)
	}
	// What was given up, or never published, has no files to show: asking for a file of it is an error, asking for the page isn't.
	if path != "" || revision != 0 || page.Revision != 0 && !page.Gone {
		if err := h.showFiles(c, page, path, after); err != nil {
			return err
		}
	}
	return render(c, "generation", page)
}

// RefusedCount says how many rejections the generation has, where the page lists the newest alone; "" otherwise.
func (p *generationPage) RefusedCount() string {
	count := int64(0)
	for _, sum := range p.Generation.Refused {
		count += sum.Count
	}
	switch {
	case count == 0:
		return ""
	case count >= publish.MaxRefusedCounted:
		return grouped(count) + " or more"
	}
	return grouped(count)
}

// showFiles adds the files of the revision to a page, and the preview of one of them.
func (h *Handler) showFiles(c *call, page *generationPage, path, after publish.Path) error {
	ctx, version := c.Request().Context(), publish.Version{Token: c.token, Revision: page.Revision}
	files, err := h.service.FilesAt(ctx, c.key, version, after, generationFiles)
	if err != nil {
		return err
	}
	final := page.final()
	for _, file := range files.Files {
		page.Files = append(page.Files, fileRow{
			File: file, URL: h.links.ofVersion(c.key, version, final, file), Page: h.links.generationFile(c.key, version, file.Path, after), Here: file.Path == path,
		})
	}
	if after != "" {
		page.First = h.links.generationPage(c.key, version)
	}
	if files.Next != "" {
		page.Next = h.links.generationFile(c.key, version, "", files.Next)
	}
	if page.Revision == page.Generation.Revision {
		page.Zip, page.Tar = h.links.archive(c.key, c.token, zipFormat), h.links.archive(c.key, c.token, tarFormat)
	}
	if path == "" {
		if len(page.Files) != 1 || files.Next != "" || after != "" {
			return nil
		}
		path = page.Files[0].Path // There is nothing to choose from.
	} else if err := h.showNeighbours(ctx, page, c.key, path, after); err != nil {
		return err
	}
	page.Preview, err = h.previewAt(ctx, c.key, version, final, path)
	return err
}

// showNeighbours links to the files before and behind the one that is shown, as far as the listing tells.
func (h *Handler) showNeighbours(ctx context.Context, page *generationPage, key publish.Key, path, after publish.Path) error {
	version := publish.Version{Token: page.Generation.Token, Revision: page.Revision}
	at := slices.IndexFunc(page.Files, func(row fileRow) bool { return row.Here })
	switch {
	case at > 0:
		page.PreviousFile = page.Files[at-1].Page
	case after != "" && after < path:
		page.PreviousFile = h.links.generationFile(key, version, after, "") // The page before ended with it.
	}
	if at >= 0 && at < len(page.Files)-1 {
		page.Onto = page.Files[at+1].Page
		return nil
	}
	next, err := h.service.FilesAt(ctx, key, version, path, 1)
	if err == nil && len(next.Files) > 0 {
		page.Onto = h.links.generationFile(key, version, next.Files[0].Path, path)
	}
	return err
}

// final reports whether the revision that is shown is what the generation was sealed with.
func (p *generationPage) final() bool {
	return p.Generation.State == publish.StateSealed && p.Revision == p.Generation.Revision
}

// previewAt shows a file of a published version.
func (h *Handler) previewAt(ctx context.Context, key publish.Key, version publish.Version, final bool, path publish.Path) (*preview, error) {
	file, err := h.service.FileAt(ctx, key, version, path)
	if err != nil {
		return nil, err
	}
	shown := h.previewOf(ctx, file, h.links.ofVersion(key, version, final, file.File))
	shown.Shown = h.show(key, version, final, file.File)
	return shown, nil
}

// stateSentence says what became of a generation.
func stateSentence(g publish.Generation) string {
	switch {
	case g.Kind == publish.KindRetire:
		return "A retirement: it took the pointer away and holds no files."
	case g.State == publish.StateCondemned:
		return "Retention has given it up: its files can't be read any more and are about to be removed."
	case g.State == publish.StateCollected:
		return "Retention has removed its files. What happened is kept."
	case g.Kind == publish.KindRollback:
		return "A rollback: it holds the files of an earlier version, by reference."
	case g.State == publish.StateSealed:
		return "Its final publish has sealed it: its files never change."
	case g.Revision > 0:
		return "It is open: each publish shows a new revision, until the final one seals it."
	case g.ReleasedAt != nil || g.LeaseEndedAt != nil:
		return "It is open and was never published. Its worker's lease is over."
	default:
		return "It is open; nothing is published yet."
	}
}

// pathOf reads the path of a file from a query, "" for none.
func pathOf(query url.Values, name string) (publish.Path, error) {
	if query.Get(name) == "" {
		return "", nil
	}
	path, err := parsePath(query.Get(name))
	return path, pointAt(name, err)
}

// generationFile is the page of a version with the preview of a file, "" for none, and its files behind another, "" for all.
func (l links) generationFile(key publish.Key, version publish.Version, path, after publish.Path) string {
	query := url.Values{"revision": {fmt.Sprint(version.Revision)}}
	if path != "" {
		query.Set("path", string(path))
	}
	if after != "" {
		query.Set("after", string(after))
	}
	return l.generationPage(key, publish.Version{Token: version.Token}) + "?" + query.Encode()
}

// ofVersion is the permanent address of a file in a published version. Links inside a playlist lose the query, so its address has
// none: a player would mix its revision with the newest segments.
func (l links) ofVersion(key publish.Key, version publish.Version, final bool, file publish.File) string {
	if final || isPlaylist(mediaType(file.ContentType)) {
		version.Revision = 0
	}
	return l.fileAt(key, version, file.Path)
}
