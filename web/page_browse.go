package web

import (
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/pawlhq/pawl/publish"
)

// keysPage is the list of current pointers.
type keysPage struct {
	frame
	browseQuery
	Action   string // of the form of filters
	Crumbs   []link
	Chips    []link // each takes a filter away
	Clear    string // takes all of them away
	Orders   []navLink
	Views    []navLink
	Sorts    []sortOption
	Columns  []column
	Prefixes []link
	Rows     []pageRow
	Grid     bool
	// Stopped is how many keys the search has looked at when it stopped before the page was full, 0 when it didn't.
	Stopped int64
	First   string
	Next    string
	// Put is a command that publishes something here.
	Put string
}

// column is a head of the table.
type column struct {
	Title, Class string
	URL          string // sorts by it, "" where that can't be done
	Aria         string // how the rows are sorted by it
}

// sortOption is an order that the form offers.
type sortOption struct {
	Sort  publish.BrowseSort
	Title string
	Here  bool
}

// pageRow is one key.
type pageRow struct {
	publish.BrowseRow
	Name      string // the key behind the prefix of the page, when that ends with a slash
	Page      string // about the key
	Current   string // where the key leads
	Permanent string // the same version for ever
	History   string // where it tells of stale requests
	Picture   string // the permanent address of a picture that is small enough to be shown in a list
	Label     string // in the place of a picture
	Type      string
}

// browsePage lists the current pointers below a prefix, for people: the prefix of the address, or of the query.
func (h *Handler) browsePage(c *call) error {
	values, blank, err := c.formQuery(browseFields...)
	if err != nil {
		return err
	}
	query, err := readBrowseQuery(values)
	if err != nil {
		return err
	}
	if c.prefix != "" {
		query.Prefix = c.prefix
	}
	if blank {
		return c.Redirect(http.StatusSeeOther, h.links.browseAt(query))
	}
	req, err := query.request(h.now())
	if err != nil {
		return err
	}
	req.Reach = c.reach()
	listened := live{Prefix: req.Prefix, Text: req.Text, Type: req.Type}
	if query.Type != "" || query.Since != "" || query.Leased || query.Rejected {
		listened.Change = "Something changed"
	}
	live, err := h.live(c, listened)
	if err != nil {
		return err
	}
	found, err := h.service.Browse(c.Request().Context(), req)
	if err != nil {
		return err
	}
	page := h.keysPage(c, query, found.Sortable)
	page.Live = live
	for _, prefix := range found.Prefixes {
		below := query
		below.Prefix, below.After = prefix, ""
		page.Prefixes = append(page.Prefixes, link{Text: strings.TrimPrefix(prefix, folder(query.Prefix)), URL: h.links.browseAt(below)})
	}
	for _, row := range found.Rows {
		page.Rows = append(page.Rows, h.pageRow(row, query.Prefix))
	}
	if found.Next != "" {
		next := query
		next.After = found.Next
		page.Next = h.links.browseAt(next)
		if len(found.Rows)+len(found.Prefixes) < publish.DefaultPageSize {
			page.Stopped = int64(found.Searched)
		}
	}
	return render(c, "keys", page)
}

// keysPage makes all of the page but its entries.
func (h *Handler) keysPage(c *call, query browseQuery, sortable bool) keysPage {
	start := query // on its first page
	start.After = ""
	page := keysPage{
		frame: h.frame(c, "Keys"), browseQuery: query, Action: h.links.browse("", ""), Crumbs: h.crumbs(query.Prefix), Chips: h.chips(start),
		Columns: h.columns(start, sortable), Sorts: sortOptions(query.Sort, sortable), Grid: query.View == viewGrid, Put: putCommand(query.Prefix),
	}
	if query.Prefix != "" {
		page.Title = query.Prefix
	}
	if query.After != "" {
		page.First = h.links.browseAt(start)
	}
	folders, newest, list, grid := browseQuery{Prefix: query.Prefix, View: query.View}, start, start, start
	newest.Sort, list.View, grid.View = publish.SortAge, "", viewGrid
	page.Clear = h.links.browseAt(folders)
	page.Orders = []navLink{
		{link{"Folders", page.Clear}, query.Sort == "" && !query.filtered()},
		{link{"Newest", h.links.browseAt(newest)}, query.Sort == publish.SortAge},
	}
	page.Views = []navLink{
		{link{"List", h.links.browseAt(list)}, !page.Grid},
		{link{"Grid", h.links.browseAt(grid)}, page.Grid},
	}
	return page
}

// chips gives a link for each filter, to the page without it.
func (h *Handler) chips(query browseQuery) []link {
	var chips []link
	without := func(on bool, text string, drop func(*browseQuery)) {
		if on {
			less := query
			drop(&less)
			chips = append(chips, link{Text: text, URL: h.links.browseAt(less)})
		}
	}
	without(query.Text != "", "has “"+query.Text+"”", func(q *browseQuery) { q.Text = "" })
	without(query.Type != "", "is "+query.Type, func(q *browseQuery) { q.Type = "" })
	without(query.Since != "", "since "+query.Since, func(q *browseQuery) { q.Since = "" })
	without(query.Leased, "held now", func(q *browseQuery) { q.Leased = false })
	without(query.Rejected, "refused somebody", func(q *browseQuery) { q.Rejected = false })
	return chips
}

// browseColumn is a head with the orders that its link turns between, the first one first, and what each means for the values of the column.
type browseColumn struct {
	title, class string
	sorts        []publish.BrowseSort
	aria         []string
}

var browseColumns = []browseColumn{
	{"Key", "", []publish.BrowseSort{publish.SortName, publish.SortNameDown}, []string{"ascending", "descending"}},
	{"Token", "number", nil, nil},
	{"Published", "", []publish.BrowseSort{publish.SortAge, publish.SortAgeDown}, []string{"descending", "ascending"}},
	{"Size", "number", []publish.BrowseSort{publish.SortSizeDown, publish.SortSize}, []string{"descending", "ascending"}},
	{"Type", "", nil, nil},
	{"Publisher", "", []publish.BrowseSort{publish.SortPublisher}, []string{"ascending"}},
	{"Held by", "", nil, nil},
	{"Refused", "number", []publish.BrowseSort{publish.SortRejections}, []string{"descending"}},
}

// columns gives the heads of the table. Those that sort only a prefix of few keys have a link where it is one.
func (h *Handler) columns(query browseQuery, sortable bool) []column {
	now := query.Sort
	if now == "" {
		now = publish.SortName
	}
	var columns []column
	for _, head := range browseColumns {
		made := column{Title: head.title, Class: head.class}
		for i, sort := range head.sorts {
			if sort == now {
				made.Aria = head.aria[i]
			}
		}
		for _, sort := range head.sorts {
			if sort != now && (sortable || sort.ByName() || sort.ByAge()) {
				to := query
				if to.Sort = sort; sort == publish.SortName {
					to.Sort = ""
				}
				made.URL = h.links.browseAt(to)
				break
			}
		}
		columns = append(columns, made)
	}
	return columns
}

// sortOptions are the orders that the form offers.
func sortOptions(now publish.BrowseSort, sortable bool) []sortOption {
	all := []sortOption{
		{Sort: "", Title: "name"},
		{Sort: publish.SortNameDown, Title: "name, last first"},
		{Sort: publish.SortAge, Title: "newest first"},
		{Sort: publish.SortAgeDown, Title: "oldest first"},
		{Sort: publish.SortSizeDown, Title: "largest first"},
		{Sort: publish.SortSize, Title: "smallest first"},
		{Sort: publish.SortPublisher, Title: "publisher"},
		{Sort: publish.SortRejections, Title: "most refused first"},
	}
	if !sortable {
		all = all[:4]
	}
	for i := range all {
		all[i].Here = all[i].Sort == now
	}
	return all
}

// maxThumbnailBytes bounds the pictures that a list shows, since each is fetched as a whole.
const maxThumbnailBytes = 2 << 20

func (h *Handler) pageRow(row publish.BrowseRow, prefix string) pageRow {
	made := pageRow{
		BrowseRow: row, Name: strings.TrimPrefix(string(row.Key), folder(prefix)), Page: h.links.keyPage(row.Key), Current: h.links.shown(row.Pointer),
		Permanent: h.permanent(row.Pointer), History: h.links.history(row.Key, 0) + "#refused", Label: fileLabel(row.Primary), Type: mediaType(row.ContentType),
	}
	if row.Bytes <= maxThumbnailBytes && isPicture(row.ContentType) {
		made.Picture = made.Permanent
	}
	return made
}

// permanent is an address that shows the pointer's version for ever: its primary file, or the list of its files.
func (h *Handler) permanent(pointer publish.Pointer) string {
	version := pointer.Version()
	if pointer.Final {
		version.Revision = 0
	}
	if pointer.Primary == "" {
		return h.links.filesAt(pointer.Key, version)
	}
	return h.links.fileAt(pointer.Key, version, pointer.Primary)
}

// isPicture reports whether browsers show files of a type in an <img>, where no script of theirs runs.
func isPicture(contentType string) bool {
	return shownPictures[mediaType(contentType)]
}

// mediaType is a content type without its parameters.
func mediaType(contentType string) string {
	kind, _, _ := strings.Cut(contentType, ";")
	return kind
}

// fileLabel says in a few letters what a file is: its extension. A set without a primary file is just that.
func fileLabel(file publish.Path) string {
	if file == "" {
		return "set"
	}
	ext := strings.TrimPrefix(path.Ext(string(file)), ".")
	if ext == "" || len(ext) > 5 {
		return "file"
	}
	return ext
}

// folder is a prefix as far as its last slash.
func folder(prefix string) string { return prefix[:strings.LastIndexByte(prefix, '/')+1] }

// putCommand publishes a file below a prefix.
func putCommand(prefix string) string {
	return "pawl put " + shellWord(folder(prefix)+"my-key") + " FILE"
}

// crumbs gives a link to each level above a prefix.
func (h *Handler) crumbs(prefix string) []link {
	var crumbs []link
	for i := range len(prefix) {
		if prefix[i] == '/' {
			start := strings.LastIndexByte(prefix[:i], '/') + 1
			crumbs = append(crumbs, link{Text: prefix[start : i+1], URL: h.links.browse(prefix[:i+1], "")})
		}
	}
	return crumbs
}

// prefixPage is browsePage below the prefix that the address holds.
func (h *Handler) prefixPage(c *call) error {
	name, err := url.PathUnescape(strings.TrimPrefix(wirePath(c.Request().URL), "/b/"))
	if err != nil {
		return publish.InvalidField(publish.ErrInvalidRequest, "prefix", "has a broken percent-encoding; encode it anew")
	}
	folder := name == "" || strings.HasSuffix(name, "/")
	if !folder {
		name += "/"
	}
	if c.prefix, err = parsePrefix("prefix", name); err != nil {
		return err
	}
	if !folder {
		address := h.links.browse(c.prefix, "")
		if query := c.Request().URL.RawQuery; query != "" {
			address += "?" + query
		}
		return c.Redirect(http.StatusMovedPermanently, address)
	}
	return h.browsePage(c)
}
