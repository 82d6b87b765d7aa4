package publishtest

import (
	"slices"
	"strings"

	"github.com/pawlhq/pawl/publish"
)

// carried reports whether the row references an object of an earlier generation.
func (u *uploadRow) carried() bool { return u.Grant.Token != u.generation }

// carried is what a publish would carry over from another generation: the files of that one's last revision at paths that
// this one hasn't touched. What was carried over before stays in the set, so it is carried only once.
func (k *keyRow) carried(g *generation, req publish.PublishRequest) ([]*uploadRow, error) {
	if req.ReuseFrom == 0 || slices.ContainsFunc(g.receipts, func(r receiptRow) bool { return r.ReuseFrom == req.ReuseFrom }) {
		return nil, nil
	}
	refused := func(code publish.Code) error {
		return &publish.Error{
			Code: code, Key: k.key, Operation: publish.OperationPublish, Token: g.token, ReuseFrom: req.ReuseFrom, Current: k.version(),
		}
	}
	from := k.find(req.ReuseFrom)
	switch {
	case from == nil || from.revision == 0:
		return nil, refused(publish.ErrNotFound)
	case from.state == publish.StateCondemned || from.state == publish.StateCollected:
		return nil, refused(publish.ErrGenerationCollected)
	case !req.ReuseStale && k.replacedBy(g) != req.ReuseFrom:
		return nil, refused(publish.ErrPreconditionFailed)
	}
	touched := map[publish.Path]bool{}
	for _, row := range g.uploads {
		touched[row.Path] = true
	}
	return slices.DeleteFunc(from.last(), func(row *uploadRow) bool { return touched[row.Path] }), nil
}

// replacedBy is the token of the version that a generation replaces, or has replaced by its first publish; 0 for none.
func (k *keyRow) replacedBy(g *generation) publish.Token {
	version := k.current
	if version != nil && version.Token == g.token {
		version = g.receipts[0].Previous
	}
	if version == nil {
		return 0
	}
	return version.Token
}

// withCarried is the set that the next publish would name, sorted by path.
func (g *generation) withCarried(carried []*uploadRow) []publish.File {
	files := append(filesOf(g.counting()), filesOf(carried)...)
	slices.SortFunc(files, func(a, b publish.File) int { return strings.Compare(string(a.Path), string(b.Path)) })
	return files
}

// carry writes rows that reference the objects of others. They keep the upload that named the object.
func (p *Pointers) carry(g *generation, carried []*uploadRow) {
	for _, row := range carried {
		p.uploads++
		upload := row.Upload
		upload.Number = p.uploads
		g.uploads = append(g.uploads, &uploadRow{
			Upload: upload, generation: g.token, state: uploadComplete, result: row.result, from: g.revision + 1,
		})
	}
}

// keepOut notes the deletion of a path that has no upload in a generation but a file in an earlier one, so that it isn't
// carried over. It reports whether there is such a file.
func (p *Pointers) keepOut(k *keyRow, g *generation, path publish.Path) bool {
	there := slices.ContainsFunc(k.generations, func(earlier *generation) bool {
		return earlier.token < g.token && earlier.revision > 0 && earlier.published(path) != nil
	})
	if there {
		p.uploads++
		upload := publish.Upload{Grant: publish.Grant{Key: k.key, Token: g.token}, Path: path, Number: p.uploads}
		g.uploads = append(g.uploads, &uploadRow{Upload: upload, generation: g.token, state: uploadDropped, why: "deleted"})
	}
	return there
}
