package publishtest

import (
	"github.com/pawlhq/pawl/publish"
)

func revisionTests() []pointerTest {
	return []pointerTest{
		{name: "replaced-and-deleted", run: testRevisions},
		{name: "unknown", run: testRevisionUnknown},
		{name: "carried", run: testRevisionCarried},
		{name: "paging", run: testRevisionPaging},
	}
}

// revision checks what one revision of a generation names, file by file and as a list.
func (s *suite) revision(grant publish.Grant, n int64, want ...publish.File) {
	s.Helper()
	version := publish.Version{Token: grant.Token, Revision: n}
	page, err := s.Store.FilesAt(s.Context(), grant.Key, version, "", publish.MaxPageSize)
	s.ok(err)
	s.same("files of "+version.String(), page, publish.FilePage{Files: want})
	for _, file := range want {
		got, err := s.Store.FileAt(s.Context(), grant.Key, version, file.Path)
		s.ok(err)
		if got.Object == "" {
			s.Errorf("%s of %s has no object", file.Path, version)
		}
		got.Object = ""
		s.same("file of "+version.String(), got, publish.StoredFile{File: file, Token: grant.Token, Sealed: true, Published: true})
	}
}

// testRevisions: a file that was replaced or deleted after a progressive publish stays readable in the revisions that named it.
func testRevisions(s *suite) {
	a := s.acquire(s.key("k"), "a")
	first := s.begin(a, "f")
	s.complete(first, "one")
	s.upload(a, "g", "two")
	s.publish(publish.PublishRequest{Grant: a})
	s.upload(a, "f", "three")
	s.upload(a, "f", "four") // No revision ever named the one before.
	s.publish(publish.PublishRequest{Grant: a})
	s.remove(a, "g")
	s.publish(publish.PublishRequest{Grant: a})
	s.upload(a, "g", "six") // Not published yet.
	check := func() {
		s.Helper()
		s.revision(a, 1, fileOf("f", "one"), fileOf("g", "two"))
		s.revision(a, 2, fileOf("f", "four"), fileOf("g", "two"))
		s.revision(a, 3, fileOf("f", "four"))
	}
	check()
	_, err := s.Store.FileAt(s.Context(), a.Key, publish.Version{Token: a.Token, Revision: 3}, "g")
	s.refused(err, publish.Error{Code: publish.ErrNotFound, Key: a.Key, Path: "g"})
	s.publish(final(a))
	check()
	s.revision(a, 4, fileOf("f", "four"), fileOf("g", "six"))
	s.output(s.takeOver(a.Key, "b"), "b") // Also when it isn't current any more.
	check()
	got, err := s.Store.FileAt(s.Context(), a.Key, publish.Version{Token: a.Token, Revision: 1}, "f")
	s.ok(err)
	s.same("object", got.Object, first.Object())
}

func testRevisionUnknown(s *suite) {
	a := s.acquire(s.key("k"), "a")
	s.upload(a, "f", "one")
	at := func(grant publish.Grant, n int64, want publish.Error) {
		s.Helper()
		version := publish.Version{Token: grant.Token, Revision: n}
		_, err := s.Store.FileAt(s.Context(), grant.Key, version, "f")
		s.refused(err, want)
		_, err = s.Store.FilesAt(s.Context(), grant.Key, version, "", 10)
		s.refused(err, want)
	}
	at(publish.Grant{Key: s.key("unknown"), Token: 1}, 1, publish.Error{Code: publish.ErrNotFound})
	at(publish.Grant{Key: a.Key, Token: a.Token + 1}, 1, publish.Error{Code: publish.ErrNotFound, Token: a.Token + 1})
	at(a, 1, publish.Error{Code: publish.ErrNotFound, Token: a.Token, Revision: 1}) // Its publisher alone sees what comes next.
	s.publish(publish.PublishRequest{Grant: a})
	s.upload(a, "f", "two")
	at(a, 2, publish.Error{Code: publish.ErrNotFound, Token: a.Token, Revision: 2})
	at(a, int64(publish.MaxToken), publish.Error{Code: publish.ErrNotFound, Revision: int64(publish.MaxToken)})
	s.output(s.takeOver(a.Key, "b"), "b")
	s.Condemn(s.T, a.Key, a.Token)
	at(a, 1, publish.Error{Code: publish.ErrGenerationCollected, Token: a.Token})
}

// testRevisionCarried: files that were carried over are in the revisions from their publish on.
func testRevisionCarried(s *suite) {
	a := s.acquire(s.key("k"), "a")
	s.upload(a, "f", "one")
	s.publish(final(a))
	b := s.takeOver(a.Key, "b")
	s.upload(b, "g", "two")
	s.publish(publish.PublishRequest{Grant: b})
	s.publish(publish.PublishRequest{Grant: b, ReuseFrom: a.Token})
	s.remove(b, "f")
	s.publish(final(b))
	s.revision(b, 1, fileOf("g", "two"))
	s.revision(b, 2, fileOf("f", "one"), fileOf("g", "two"))
	s.revision(b, 3, fileOf("g", "two"))
	got, err := s.Store.FileAt(s.Context(), b.Key, publish.Version{Token: b.Token, Revision: 2}, "f")
	s.ok(err)
	s.same("object", got.Object, s.object(a, "f"))
}

func testRevisionPaging(s *suite) {
	a := s.acquire(s.key("k"), "a")
	for _, path := range []publish.Path{"a", "b", "c"} {
		s.upload(a, path, "one")
	}
	s.publish(publish.PublishRequest{Grant: a})
	s.remove(a, "b")
	s.upload(a, "bb", "two")
	s.publish(publish.PublishRequest{Grant: a})
	version := publish.Version{Token: a.Token, Revision: 1}
	page, err := s.Store.FilesAt(s.Context(), a.Key, version, "", 2)
	s.ok(err)
	s.same("page", page, publish.FilePage{Files: filesOfContent("one", "a", "b"), Next: "b"})
	page, err = s.Store.FilesAt(s.Context(), a.Key, version, page.Next, 2)
	s.ok(err)
	s.same("last page", page, publish.FilePage{Files: filesOfContent("one", "c")})
}
