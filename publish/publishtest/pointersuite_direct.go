package publishtest

import (
	"crypto/rand"
	"errors"

	"github.com/pawlhq/pawl/publish"
)

func directTests() []pointerTest {
	return []pointerTest{
		{name: "life", run: testDirectLife},
		{name: "resume", run: testDirectResume},
		{name: "existing", run: testDirectExisting},
		{name: "blocks-publish", run: testDirectBlocksPublish},
		{name: "find", run: testDirectFind},
		{name: "fenced", run: testDirectFenced},
		{name: "sealed", run: testDirectSealed},
	}
}

// promise makes the request of a direct upload of content.
func (s *suite) promise(grant publish.Grant, path publish.Path, content string, crc *uint64) publish.BeginDirectRequest {
	req := publish.BeginDirectRequest{Grant: grant, Promise: publish.Promise{File: fileOf(path, content), CRC64NVME: crc}, PartSize: 7}
	_, _ = rand.Read(req.ID[:])
	return req
}

func (s *suite) beginDirect(req publish.BeginDirectRequest) publish.DirectStart {
	s.Helper()
	start, err := s.Store.BeginDirect(s.Context(), req)
	if err != nil {
		s.Fatal(err)
	}
	return start
}

// findDirect asks for an upload and checks what it was promised to be.
func (s *suite) findDirect(req publish.BeginDirectRequest, want publish.UploadState) publish.DirectUpload {
	s.Helper()
	got, err := s.Store.FindDirect(s.Context(), req.Grant, req.ID, true)
	if err != nil {
		s.Fatal(err)
	}
	s.same("promise", got.Promise, req.Promise)
	s.same("upload", []any{got.State, got.PartSize, got.ID, got.Upload.Path, got.Grant}, []any{want, req.PartSize, req.ID, req.Promise.Path, req.Grant})
	return got
}

// testDirectLife: begun, found, completed as any upload, and found again.
func testDirectLife(s *suite) {
	a := s.acquire(s.key("k"), "a")
	crc := ^uint64(0) - 5
	for i, req := range []publish.BeginDirectRequest{s.promise(a, "a.bin", "one", &crc), s.promise(a, "b.bin", "two", nil)} {
		start := s.beginDirect(req)
		s.same("start", []any{start.Resumed, start.Existing == nil, start.State, start.ID}, []any{false, true, publish.UploadPending, req.ID})
		found := s.findDirect(req, publish.UploadPending)
		s.same("number", found.Number, start.Number)
		result, err := s.Store.CompleteUpload(s.Context(), found.Upload, found.File)
		if err != nil {
			s.Fatal(err)
		}
		s.same("result", result, publish.UploadResult{File: req.Promise.File, Key: a.Key, Token: a.Token})
		s.findDirect(req, publish.UploadStored)
		s.same("files", s.publish(publish.PublishRequest{Grant: a}).Files, int64(i+1))
	}
	s.files(a, fileOf("a.bin", "one"), fileOf("b.bin", "two"))
}

// testDirectResume: the same promise goes on with the upload that is pending; every other one begins another.
func testDirectResume(s *suite) {
	a := s.acquire(s.key("k"), "a")
	crc, otherCRC := uint64(1), uint64(2)
	first := s.promise(a, "f", "content", &crc)
	start := s.beginDirect(first)
	again := first
	_, _ = rand.Read(again.ID[:])
	resumed := s.beginDirect(again)
	s.same("resumed", []any{resumed.Resumed, resumed.ID, resumed.Number}, []any{true, first.ID, start.Number})
	s.same("promise", resumed.Promise, first.Promise)

	for name, req := range map[string]publish.BeginDirectRequest{
		"content":   s.promise(a, "f", "another", &crc),
		"path":      s.promise(a, "g", "content", &crc),
		"checksum":  s.promise(a, "f", "content", &otherCRC),
		"no crc":    s.promise(a, "f", "content", nil),
		"part size": func() publish.BeginDirectRequest { r := s.promise(a, "f", "content", &crc); r.PartSize = 8; return r }(),
	} {
		if other := s.beginDirect(req); other.Resumed || other.ID != req.ID {
			s.Errorf("another %s was taken for the same upload: %+v", name, other)
		}
	}
	// A newer upload of the path stands before the old one, which is not gone on with behind its back.
	s.begin(a, "f")
	_, _ = rand.Read(again.ID[:])
	if other := s.beginDirect(again); other.Resumed {
		s.Error("an upload was gone on with although a newer one was begun")
	}
	// One that is over isn't gone on with either.
	last := s.beginDirect(s.promise(a, "h", "content", nil))
	s.fail(last.Upload)
	if other := s.beginDirect(s.promise(a, "h", "content", nil)); other.Resumed || other.Number <= last.Number {
		s.Error("a failed upload was gone on with")
	}
}

// testDirectExisting: what counts already isn't sent again.
func testDirectExisting(s *suite) {
	a := s.acquire(s.key("k"), "a")
	s.upload(a, "f", "content")
	start := s.beginDirect(s.promise(a, "f", "content", nil))
	want := fileOf("f", "content")
	if start.Existing == nil || *start.Existing != want {
		s.Fatalf("existing is %+v", start.Existing)
	}
	typed := s.promise(a, "f", "content", nil)
	typed.Promise.ContentType = "text/x-other"
	if start := s.beginDirect(typed); start.Existing != nil {
		s.Error("the same bytes of another content type were taken for the same file")
	}
}

func testDirectBlocksPublish(s *suite) {
	a := s.acquire(s.key("k"), "a")
	s.upload(a, "other", "x")
	start := s.beginDirect(s.promise(a, "f", "content", nil))
	_, err := s.Store.Publish(s.Context(), final(a))
	s.refused(err, publish.Error{Code: publish.ErrGenerationIncomplete, Pending: []publish.Path{"f"}})
	s.fail(start.Upload)
	_, err = s.Store.Publish(s.Context(), final(a))
	s.refused(err, publish.Error{Code: publish.ErrGenerationIncomplete, Failed: []publish.Path{"f"}})
}

// testDirectFind: an upload is found under its own grant alone, and only if it is a direct one.
func testDirectFind(s *suite) {
	a := s.acquire(s.key("k"), "a")
	req := s.promise(a, "f", "content", nil)
	s.beginDirect(req)
	other := s.acquire(s.key("other"), "b")
	forged := a
	forged.LeaseID = publish.NewLeaseID()
	for name, test := range map[string]struct {
		grant publish.Grant
		id    publish.UploadID
		want  publish.Code
	}{
		"unknown id":    {a, publish.UploadID{1}, publish.ErrNotFound},
		"another key":   {other, req.ID, publish.ErrNotFound},
		"forged lease":  {forged, req.ID, publish.ErrLeaseLost},
		"other's lease": {publish.Grant{Key: a.Key, Token: a.Token, LeaseID: other.LeaseID}, req.ID, publish.ErrLeaseLost},
		"plain upload":  {a, s.begin(a, "g").ID, publish.ErrNotFound},
		"unknown token": {publish.Grant{Key: a.Key, Token: a.Token + 1, LeaseID: a.LeaseID}, req.ID, publish.ErrUnknownToken},
	} {
		for _, fenced := range []bool{true, false} {
			_, err := s.Store.FindDirect(s.Context(), test.grant, test.id, fenced)
			if !errors.Is(err, test.want) {
				s.Errorf("%s: %v; want %s", name, err, test.want)
			}
		}
	}
}

// testDirectFenced: once a newer token has published, an older one begins and completes nothing, but may still give up.
func testDirectFenced(s *suite) {
	key := s.key("k")
	a := s.acquire(key, "a")
	req := s.promise(a, "f", "content", nil)
	start := s.beginDirect(req)
	s.Expire(s.T, key)
	b := s.acquire(key, "b")
	if again := s.beginDirect(req); again.SupersededBy != b.Token {
		s.Errorf("superseded by %d", again.SupersededBy)
	}
	s.upload(b, "f", "newer")
	s.publish(final(b))
	stale := publish.Error{Code: publish.ErrStaleToken, AcceptedToken: b.Token, GrantedToken: b.Token}
	_, err := s.Store.BeginDirect(s.Context(), s.promise(a, "g", "content", nil))
	s.refused(err, stale)
	_, err = s.Store.FindDirect(s.Context(), a, req.ID, true)
	s.refused(err, stale)
	_, err = s.Store.CompleteUpload(s.Context(), start.Upload, start.File)
	s.refused(err, stale)
	found, err := s.Store.FindDirect(s.Context(), a, req.ID, false)
	if err != nil || found.State != publish.UploadFailed {
		s.Errorf("the upload is %s, %v; want failed", found.State, err)
	}
}

// testDirectSealed: a stored upload is found after the final publish, so that its completion can be repeated; nothing new begins.
func testDirectSealed(s *suite) {
	a := s.acquire(s.key("k"), "a")
	req := s.promise(a, "f", "content", nil)
	start := s.beginDirect(req)
	if _, err := s.Store.CompleteUpload(s.Context(), start.Upload, start.File); err != nil {
		s.Fatal(err)
	}
	s.publish(final(a))
	s.findDirect(req, publish.UploadStored)
	_, err := s.Store.BeginDirect(s.Context(), s.promise(a, "g", "content", nil))
	s.refused(err, publish.Error{Code: publish.ErrGenerationSealed})
}
