package publishtest

import (
	"fmt"

	"github.com/pawlhq/pawl/publish"
)

func readTests() []pointerTest {
	return []pointerTest{
		{name: "check", run: func(s *suite) {
			if err := s.Store.Check(s.Context()); err != nil {
				s.Fatal(err)
			}
		}},
		{name: "pointer", run: testPointer},
		{name: "current-file", run: testCurrentFile},
		{name: "no-primary", run: testNoPrimary},
		{name: "file", run: testFile},
		{name: "unpublished", run: testUnpublishedFile},
		{name: "files", run: testFilesPaging},
	}
}

func testPointer(s *suite) {
	key := s.key("k")
	for range 2 {
		_, err := s.Store.Pointer(s.Context(), key)
		s.refused(err, publish.Error{Code: publish.ErrNotFound, Key: key})
		if _, err := s.Store.Lease(s.Context(), key); err != nil {
			s.upload(s.acquire(key, "a"), "f", "one") // The second time the key is known, but without a pointer.
		}
	}
	b := s.takeOver(key, "b")
	s.upload(b, "f.svg", "one")
	s.upload(b, "g", "three")
	source := int64(41)
	receipt := s.publish(publish.PublishRequest{Grant: b, Primary: "f.svg", SourceRevision: &source, Metadata: map[string]string{"a": "1"}})
	want := publish.Pointer{
		Key: key, Token: b.Token, Revision: 1, ManifestDigest: receipt.ManifestDigest, Primary: "f.svg", ContentType: "image/svg+xml",
		Files: 2, Bytes: 8, PublishedAt: receipt.PublishedAt, Publisher: "b", SourceRevision: &source, Metadata: map[string]string{"a": "1"},
	}
	s.same("pointer", s.pointer(key), want)
	s.begin(b, "f.svg") // What isn't published changes nothing for readers.
	s.upload(b, "f.svg", "seven77")
	s.same("pointer", s.pointer(key), want)
}

func testCurrentFile(s *suite) {
	a := s.acquire(s.key("k"), "a")
	for _, path := range []publish.Path{"", "f"} {
		_, err := s.Store.CurrentFile(s.Context(), a.Key, path)
		s.refused(err, publish.Error{Code: publish.ErrNotFound, Key: a.Key})
		_, err = s.Store.CurrentFile(s.Context(), s.key("unknown"), path)
		s.refused(err, publish.Error{Code: publish.ErrNotFound})
	}
	f, g := s.begin(a, "f"), s.begin(a, "g")
	s.complete(f, "one")
	s.complete(g, "two")
	s.publish(publish.PublishRequest{Grant: a, Primary: "g"})
	s.takeOver(a.Key, "b") // A grant alone moves no pointer.
	for path, upload := range map[publish.Path]publish.Upload{"": g, "g": g, "f": f} {
		got, err := s.Store.CurrentFile(s.Context(), a.Key, path)
		if err != nil {
			s.Fatal(err)
		}
		content := map[publish.Path]string{"f": "one", "g": "two"}[upload.Path]
		s.same("current file", got, publish.StoredFile{File: fileOf(upload.Path, content), Token: a.Token, Object: upload.Object(), Published: true})
	}
	_, err := s.Store.CurrentFile(s.Context(), a.Key, "h")
	s.refused(err, publish.Error{Code: publish.ErrNotFound, Key: a.Key})
}

func testNoPrimary(s *suite) {
	a := s.acquire(s.key("k"), "a")
	s.upload(a, "z", "one")
	s.upload(a, "a/b", "two")
	s.publish(publish.PublishRequest{Grant: a})
	s.upload(a, "later", "three")
	_, err := s.Store.CurrentFile(s.Context(), a.Key, "")
	s.refused(err, publish.Error{Code: publish.ErrNotFound, Key: a.Key, Paths: []publish.Path{"a/b", "z"}})
}

// testFile: permanent addresses show a generation's last published revision, also when it isn't current any more.
func testFile(s *suite) {
	a := s.acquire(s.key("k"), "a")
	read := func(grant publish.Grant, path publish.Path) (publish.StoredFile, error) {
		return s.Store.File(s.Context(), grant.Key, grant.Token, path, publish.LeaseID{})
	}
	_, err := read(publish.Grant{Key: s.key("unknown"), Token: 1}, "f")
	s.refused(err, publish.Error{Code: publish.ErrNotFound})
	_, err = read(publish.Grant{Key: a.Key, Token: 2}, "f")
	s.refused(err, publish.Error{Code: publish.ErrNotFound, Key: a.Key})
	first := s.begin(a, "f")
	s.complete(first, "one")
	_, err = read(a, "f")
	s.refused(err, publish.Error{Code: publish.ErrNotFound, Key: a.Key})

	s.publish(publish.PublishRequest{Grant: a})
	second := s.begin(a, "f")
	s.complete(second, "two")
	want := publish.StoredFile{File: fileOf("f", "one"), Token: a.Token, Object: first.Object(), Published: true}
	got, err := read(a, "f")
	s.same("revision 1", got, want)
	s.ok(err)
	s.publish(final(a))
	want = publish.StoredFile{File: fileOf("f", "two"), Token: a.Token, Object: second.Object(), Published: true, Sealed: true}
	for range 2 {
		got, err = read(a, "f")
		s.same("revision 2", got, want)
		s.ok(err)
		s.output(s.takeOver(a.Key, "b"), "b")
	}
	_, err = read(a, "F")
	s.refused(err, publish.Error{Code: publish.ErrNotFound})
}

// testUnpublishedFile: with its own lease_id a publisher reads back what would be published next; nobody else does.
func testUnpublishedFile(s *suite) {
	a := s.acquire(s.key("k"), "a")
	first := s.begin(a, "f")
	s.complete(first, "one")
	read := func(id publish.LeaseID) (publish.StoredFile, error) {
		return s.Store.File(s.Context(), a.Key, a.Token, "f", id)
	}
	got, err := read(a.LeaseID)
	s.same("own", got, publish.StoredFile{File: fileOf("f", "one"), Token: a.Token, Object: first.Object()})
	s.ok(err)
	_, err = read(publish.NewLeaseID())
	s.refused(err, publish.Error{Code: publish.ErrNotFound})

	s.publish(publish.PublishRequest{Grant: a})
	got, _ = read(a.LeaseID)
	s.same("own, published", got.Published, true)
	second := s.begin(a, "f")
	got, _ = read(a.LeaseID)
	s.same("own, with one pending", got.Object, first.Object())
	s.complete(second, "two")
	got, _ = read(a.LeaseID)
	s.same("own, replaced", got, publish.StoredFile{File: fileOf("f", "two"), Token: a.Token, Object: second.Object()})
	got, _ = read(publish.NewLeaseID())
	s.same("another's", got.Object, first.Object())
}

func testFilesPaging(s *suite) {
	a := s.acquire(s.key("k"), "a")
	_, err := s.Store.Files(s.Context(), a.Key, a.Token+1, "", 10)
	s.refused(err, publish.Error{Code: publish.ErrNotFound})
	var want []publish.File
	for i := range 7 {
		path := publish.Path(fmt.Sprintf("frame.%04d.exr", 1001+i))
		s.upload(a, path, string(path))
		want = append(want, fileOf(path, string(path)))
	}
	s.files(a)
	s.publish(publish.PublishRequest{Grant: a})
	s.remove(a, want[3].Path) // The next revision's matter.
	for _, limit := range []int{1, 2, 3, 6, 7, 8} {
		var got []publish.File
		for after := publish.Path(""); ; {
			page, err := s.Store.Files(s.Context(), a.Key, a.Token, after, limit)
			if err != nil {
				s.Fatal(err)
			}
			if len(page.Files) > limit || len(page.Files) == 0 {
				s.Fatalf("a page of %d files with the limit %d", len(page.Files), limit)
			}
			got = append(got, page.Files...)
			if after = page.Next; after == "" {
				break
			}
			if last := page.Files[len(page.Files)-1].Path; after != last || len(got) > len(want) {
				s.Fatalf("a page that ends with %q has the next %q", last, after)
			}
		}
		s.same(fmt.Sprintf("files in pages of %d", limit), got, want)
	}
}
