package web

import (
	"context"
	"path"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/publish"
)

// keyPageFiles is how many files of a set the page of a key lists.
const keyPageFiles = 25

// keyPage is all about one key, for people.
type keyPage struct {
	frame
	publish.Overview
	Crumbs  []link
	API     string
	History string
	Refused string // where the history tells of stale requests
	Shown   *shownVersion
	// Grants are the grants that were counted, and whether there may be more.
	MoreGrants bool
	Put        string
	Preview    *preview // of the primary file, nil where there is none
	Done       string   // what has just been done to it here
	Actions    *actionsView
	Grantee    publish.Actor // of the lease
}

// shownVersion is the current version of a key, as its page shows it.
type shownVersion struct {
	publish.Pointer
	Current    string // where the key leads: its primary file, or the list of its files
	Permanent  string
	Generation string
	// Previous is the page of the version before, Compare what has changed since; "" where there is none.
	Previous, Compare string
	Before            publish.Version
	Files             []shownFile
	MoreFiles         bool
	Archives          []link
	Origin            string
	Commands          []command
	Metadata          []fact
	Type              string
}

type shownFile struct {
	publish.File
	URL  string
	Type string
}

// command is a line to copy.
type command struct{ Title, Text string }

type fact struct{ Name, Value string }

// keyPage shows what a key resolves to.
func (h *Handler) keyPage(c *call) error {
	query, err := c.query("done")
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	live, err := h.live(c, live{Key: c.key})
	if err != nil {
		return err
	}
	overview, err := h.service.Overview(ctx, c.key)
	if err != nil {
		return err
	}
	page := keyPage{
		frame: h.frame(c, string(c.key)), Overview: overview, Crumbs: h.crumbs(string(c.key)), API: h.links.key(c.key),
		History: h.links.history(c.key, 0), MoreGrants: overview.Generations >= publish.MaxGenerationsCounted,
		Put: "pawl put " + keyWord(c.key) + " FILE",
	}
	page.Live, page.Refused = live, page.History+"#"+refusedFragment
	state, err := h.keyState(ctx, overview)
	if err != nil {
		return err
	}
	page.Grantee = state.grantee
	if page.Actions = h.actions(c, state); page.Actions.Upload != nil {
		page.Scripts = append(page.Scripts, h.links.static("upload.js"))
	}
	if overview.Pointer != nil {
		if page.Shown, err = h.shownVersion(ctx, *overview.Pointer, state.receipts); err != nil {
			return err
		}
		page.Shown.Origin = h.originOf(c.Request())
		page.Shown.Commands = h.commands(page.Shown, page.Shown.Origin)
	}
	if current := overview.Pointer; current != nil && current.Primary != "" {
		if page.Preview, err = h.previewAt(ctx, c.key, current.Version(), current.Final, current.Primary); err != nil {
			return err
		}
	}
	page.Done = saidDone(query.Get("done"), overview)
	return render(c, "key", page)
}

// shownVersion reads what the overview doesn't hold: the first files, and, where its receipt isn't among those that are known, the version before.
func (h *Handler) shownVersion(ctx context.Context, pointer publish.Pointer, known []publish.Receipt) (*shownVersion, error) {
	key, version := pointer.Key, pointer.Version()
	shown := &shownVersion{
		Pointer: pointer, Current: h.links.shown(pointer), Permanent: h.permanent(pointer), Generation: h.links.generationPage(key, version),
		Type: mediaType(pointer.ContentType), Metadata: sortedFacts(pointer.Metadata),
	}
	files, err := h.service.FilesAt(ctx, key, version, "", keyPageFiles)
	if err != nil {
		return nil, err
	}
	shown.MoreFiles = files.Next != ""
	permanent := version
	if pointer.Final {
		permanent.Revision = 0
	}
	for _, file := range files.Files {
		shown.Files = append(shown.Files, shownFile{File: file, URL: h.links.fileAt(key, permanent, file.Path), Type: mediaType(file.ContentType)})
	}
	for _, format := range []*archiveFormat{&zipFormat, &tarFormat} {
		shown.Archives = append(shown.Archives, link{Text: strings.TrimPrefix(format.suffix, "."), URL: h.links.archive(key, version.Token, *format)})
	}
	receipt, err := h.receiptOf(ctx, key, version, known)
	if err != nil {
		return nil, err
	}
	if receipt != nil && receipt.Previous != nil {
		shown.Before = *receipt.Previous
		shown.Previous = h.links.generationPage(key, shown.Before)
		shown.Compare = h.links.comparePage(key, shown.Before, version)
	}
	return shown, nil
}

// commands are the lines that fetch what is current. That of curl shows a credential by the variable that the pawl command reads it from.
func (h *Handler) commands(shown *shownVersion, origin string) []command {
	key, curl := keyWord(shown.Key), "curl"
	if h.authenticate != nil && !h.public.Has(shown.Key) {
		curl += ` -H "Authorization: Bearer $PAWL_CREDENTIAL"`
	}
	lines := []command{
		{"What is current", origin + h.links.current(shown.Key)},
		{"This version, for ever", origin + shown.Permanent},
		{"With curl", curl + " -fsSL -o " + fileWord(path.Base(string(shown.Primary))) + " " + shellWord(origin+h.links.current(shown.Key))},
		{"With pawl", "pawl get -o " + fileWord(path.Base(string(shown.Primary))) + " " + key},
	}
	if shown.Primary == "" {
		archive := h.links.archive(shown.Key, shown.Token, zipFormat)
		lines[0].Text = origin + h.links.key(shown.Key)
		lines[2].Text = curl + " -fsS -o " + fileWord(path.Base(string(shown.Key))+zipFormat.suffix) + " " + shellWord(origin+archive)
		lines[3].Text = "pawl get --dir FOLDER " + key
	}
	return lines
}

// keyWord writes a key as an argument of the pawl command: one that begins with a dash is no flag.
func keyWord(key publish.Key) string {
	if strings.HasPrefix(string(key), "-") {
		return "-- " + shellWord(string(key))
	}
	return shellWord(string(key))
}

// fileWord writes the name of a file to be made as a word of a command line.
func fileWord(name string) string {
	if strings.HasPrefix(name, "-") {
		name = "./" + name
	}
	return shellWord(name)
}

func sortedFacts(all map[string]string) []fact {
	facts := make([]fact, 0, len(all))
	for name, value := range all {
		facts = append(facts, fact{name, value})
	}
	slices.SortFunc(facts, func(a, b fact) int { return strings.Compare(a.Name, b.Name) })
	return facts
}
