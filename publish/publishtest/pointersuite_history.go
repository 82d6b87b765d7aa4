package publishtest

import (
	"fmt"

	"github.com/pawlhq/pawl/publish"
)

func historyTests() []pointerTest {
	return []pointerTest{
		{name: "unknown", run: testHistoryUnknown},
		{name: "shape", run: testHistoryShape},
		{name: "pages", run: testHistoryPages},
		{name: "bounded", run: testHistoryBounded},
	}
}

func testHistoryUnknown(s *suite) {
	_, err := s.Store.History(s.Context(), s.key("k"), 0, 10)
	s.refused(err, publish.Error{Code: publish.ErrNotFound, Key: s.key("k")})
	_, err = s.Store.Generation(s.Context(), s.key("k"), 1)
	s.refused(err, publish.Error{Code: publish.ErrNotFound, Key: s.key("k")})
	a := s.acquire(s.key("k"), "a")
	_, err = s.Store.Generation(s.Context(), a.Key, a.Token+1)
	s.refused(err, publish.Error{Code: publish.ErrNotFound, Key: a.Key})
}

// testHistoryShape: who held the key, for how long, what each published, and who came late.
func testHistoryShape(s *suite) {
	req := acquireRequest(s.key("k"), "a")
	req.Labels = map[string]string{"job": "17"}
	lease, err := s.Store.Acquire(s.Context(), req)
	if err != nil {
		s.Fatal(err)
	}
	a := publish.Grant{Key: req.Key, Token: lease.Token, LeaseID: req.LeaseID}
	s.upload(a, "f", "one")
	s.publish(publish.PublishRequest{Grant: a})
	s.upload(a, "f", "two")
	s.publish(publish.PublishRequest{Grant: a})
	s.begin(a, "g")
	s.upload(a, "h", "unpublished")

	b := s.takeOver(a.Key, "b")
	s.upload(b, "f", "three")
	s.publish(publish.PublishRequest{Grant: b, Final: true, Release: true})
	s.refused(s.changes(a, "g")["publish"](), publish.Error{Code: publish.ErrStaleToken})
	c := s.acquire(a.Key, "c")

	history, err := s.Store.History(s.Context(), a.Key, 0, 10)
	if err != nil || len(history.Generations) != 3 || len(history.Lost) != 0 {
		s.Fatalf("history: %+v, %v", history, err)
	}
	for i, grant := range []publish.Grant{c, b, a} { // Newest first.
		s.same(fmt.Sprintf("generation %d", grant.Token), s.generation(grant), history.Generations[i])
	}
	newest, middle, oldest := history.Generations[0], history.Generations[1], history.Generations[2]
	current := &publish.Version{Token: b.Token, Revision: 1}

	s.same("c", newest, publish.Generation{Key: a.Key, Token: c.Token, State: publish.StateOpen, Holder: "c", GrantedAt: newest.GrantedAt})
	if middle.ReleasedAt == nil || middle.SealedAt == nil || len(middle.Receipts) != 1 {
		s.Fatalf("b: %+v", middle)
	}
	s.same("b", middle, publish.Generation{
		Key: a.Key, Token: b.Token, State: publish.StateSealed, Holder: "b", GrantedAt: middle.GrantedAt, ReleasedAt: middle.ReleasedAt,
		SealedAt: middle.SealedAt, Revision: 1, Current: true, Receipts: middle.Receipts,
	})
	receipt := middle.Receipts[0]
	s.same("b's receipt", receipt, publish.Receipt{
		Key: a.Key, Token: b.Token, Revision: 1, ManifestDigest: publish.ManifestDigest([]publish.File{fileOf("f", "three")}), Final: true,
		Primary: "f", Files: 1, Bytes: 5, PublishedAt: receipt.PublishedAt, Publisher: "b", Current: current,
		Previous: &publish.Version{Token: a.Token, Revision: 2}, SupersededBy: c.Token,
	})
	if oldest.LeaseEndedAt == nil || len(oldest.Receipts) != 2 || len(oldest.Rejections) != 1 {
		s.Fatalf("a: %+v", oldest)
	}
	s.same("a", oldest, publish.Generation{
		Key: a.Key, Token: a.Token, State: publish.StateOpen, Holder: "a", Labels: req.Labels, GrantedAt: oldest.GrantedAt,
		LeaseEndedAt: oldest.LeaseEndedAt, Revision: 2, Uploads: publish.UploadCounts{Pending: 1, Unpublished: 1},
		Receipts: oldest.Receipts, Rejections: oldest.Rejections,
	})
	s.same("a's receipts", []publish.Version{oldest.Receipts[0].Version(), oldest.Receipts[1].Version()},
		[]publish.Version{{Token: a.Token, Revision: 2}, {Token: a.Token, Revision: 1}}) // Newest first.
}

func testHistoryPages(s *suite) {
	const n = 7
	grants := s.grants(s.key("k"), n)
	for _, limit := range []int{1, 2, 3, n - 1, n, n + 1} {
		want := publish.Token(n)
		for before := publish.Token(0); ; {
			page, err := s.Store.History(s.Context(), grants[1].Key, before, limit)
			if err != nil {
				s.Fatal(err)
			}
			s.same("key", page.Key, grants[1].Key)
			if len(page.Generations) == 0 || len(page.Generations) > limit {
				s.Fatalf("a page of %d generations with the limit %d", len(page.Generations), limit)
			}
			for _, g := range page.Generations {
				s.same("token", g.Token, want)
				want--
			}
			if before = page.Next; before == 0 {
				break
			}
			if before != want+1 {
				s.Fatalf("a page that ends with %d has the next %d", want+1, before)
			}
		}
		s.same("what is left behind the last page", want, publish.Token(0))
	}
}

// testHistoryBounded: a generation shows its newest 100 receipts and rejections, newest first, and sums up all of its rejections.
func testHistoryBounded(s *suite) {
	const n = 103
	a := s.acquire(s.key("k"), "a")
	for i := range n {
		s.upload(a, "f", fmt.Sprint(i))
		s.publish(publish.PublishRequest{Grant: a})
	}
	s.output(s.takeOver(a.Key, "b"), "b")
	var first publish.Time
	for i := range n {
		s.refused(s.changes(a, publish.Path(fmt.Sprint(i)))["delete"](), publish.Error{Code: publish.ErrStaleToken})
		if i == 0 {
			g := s.generation(a)
			first = g.Rejections[0].FirstAt
			s.same("sums of what is shown whole", g.Refused, []publish.RefusedSum(nil))
		}
	}
	s.refused(s.changes(a, "")["publish"](), publish.Error{Code: publish.ErrStaleToken})
	s.refused(s.changes(a, "1")["delete"](), publish.Error{Code: publish.ErrStaleToken, Repeat: 2}) // It is the newest again.

	g := s.generation(a)
	if len(g.Receipts) != 100 || len(g.Rejections) != 100 {
		s.Fatalf("%d receipts and %d rejections are shown", len(g.Receipts), len(g.Rejections))
	}
	var revisions, wantRevisions []int64
	var paths []publish.Path
	wantPaths := []publish.Path{"1", ""}
	for i := range g.Receipts {
		revisions, wantRevisions = append(revisions, g.Receipts[i].Revision), append(wantRevisions, int64(n-i))
		paths, wantPaths = append(paths, g.Rejections[i].Path), append(wantPaths, publish.Path(fmt.Sprint(n-1-i)))
	}
	s.same("revisions", revisions, wantRevisions)
	s.same("rejected paths", paths, wantPaths[:len(paths)])
	deleted, published := publish.RefusedSum{Rejection: g.Rejections[0], Count: n}, publish.RefusedSum{Rejection: g.Rejections[1], Count: 1}
	deleted.FirstAt, deleted.Repeat = first, n+1
	s.same("sums", g.Refused, []publish.RefusedSum{deleted, published})
}
