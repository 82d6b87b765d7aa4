package publishtest

import (
	"errors"
	"fmt"
	"sync"

	"github.com/pawlhq/pawl/publish"
)

func limitTests() []pointerTest {
	return []pointerTest{
		{name: "bytes are those that count now", run: testLimitBytes, alone: true},
		{name: "files are those that count now", run: testLimitFiles, alone: true},
		{name: "carried over files", run: testLimitCarried, alone: true},
		{name: "a replay is not refused", run: testLimitReplay, alone: true},
		{name: "side by side", run: testLimitInParallel, alone: true},
	}
}

// limited goes on with a store that has limits.
func (s *suite) limited(limits publish.GenerationLimits) {
	s.Helper()
	s.Store = s.Limit(s.T, limits)
}

// tooMuch completes an upload that is one too many. It changes nothing, and stays incomplete until it is marked.
func (s *suite) tooMuch(grant publish.Grant, path publish.Path, content string, want publish.Error) {
	s.Helper()
	before := s.generation(grant)
	upload := s.begin(grant, path)
	_, err := s.Store.CompleteUpload(s.Context(), upload, fileOf(path, content))
	want.Code, want.Key, want.Token, want.Path, want.Operation = publish.ErrTooLarge, grant.Key, grant.Token, path, publish.OperationUpload
	s.refused(err, want)
	pending := s.generation(grant)
	s.same("pending", pending.Uploads.Pending, before.Uploads.Pending+1)
	_, err = s.Store.Publish(s.Context(), final(grant))
	s.refused(err, publish.Error{Code: publish.ErrGenerationIncomplete, Pending: []publish.Path{path}, Key: grant.Key, Token: grant.Token})
	s.fail(upload)
	s.ok(s.Store.DeleteFile(s.Context(), grant, path))
}

func testLimitBytes(s *suite) {
	a := s.acquire(s.key("k"), "a")
	s.upload(a, "before", "12345") // Before there was a limit.
	s.limited(publish.GenerationLimits{Bytes: 10})
	s.upload(a, "one", "123")
	s.tooMuch(a, "two", "123", publish.Error{Limit: 10, Came: "11"})
	s.upload(a, "one", "12345") // It replaces its 3 bytes.
	s.upload(a, "empty", "")
	s.tooMuch(a, "two", "1", publish.Error{Limit: 10, Came: "11"})
	s.remove(a, "before")
	s.upload(a, "two", "12345")
	progress := final(a)
	progress.Final, progress.Primary = false, "one"
	s.publish(progress)
	s.tooMuchNow(a)
	s.upload(a, "two", "1234") // The revision that is published keeps its file, which counts no more.
	s.upload(a, "three", "1")
	s.publish(publish.PublishRequest{Grant: a, Final: true, Primary: "one"})
	b := s.acquire(s.key("other"), "b")
	s.upload(b, "f", "1234567890")
	s.publish(final(b))
}

// tooMuchNow tries one byte more in a generation that is open and published.
func (s *suite) tooMuchNow(grant publish.Grant) {
	s.Helper()
	upload := s.begin(grant, "more")
	_, err := s.Store.CompleteUpload(s.Context(), upload, fileOf("more", "1"))
	s.refused(err, publish.Error{Code: publish.ErrTooLarge, Path: "more", Operation: publish.OperationUpload, Token: grant.Token, Limit: 10, Came: "11"})
	s.fail(upload)
	s.ok(s.Store.DeleteFile(s.Context(), grant, "more"))
}

func testLimitFiles(s *suite) {
	s.limited(publish.GenerationLimits{Files: 2})
	a := s.acquire(s.key("k"), "a")
	s.upload(a, "one", "1")
	s.upload(a, "two", "2")
	s.upload(a, "two", "22")
	s.tooMuch(a, "three", "3", publish.Error{Limit: 2, Came: "3", Unit: publish.UnitFiles})
	direct := publish.BeginDirectRequest{Grant: a, ID: newUploadID(), Promise: publish.Promise{File: fileOf("direct", "4")}}
	start, err := s.Store.BeginDirect(s.Context(), direct)
	s.ok(err)
	_, err = s.Store.CompleteUpload(s.Context(), start.Upload, direct.Promise.File)
	s.refused(err, publish.Error{Code: publish.ErrTooLarge, Path: "direct", Operation: publish.OperationUpload, Limit: 2, Came: "3", Unit: publish.UnitFiles})
	s.remove(a, "one")
	result, err := s.Store.CompleteUpload(s.Context(), start.Upload, direct.Promise.File)
	s.ok(err)
	s.same("path", result.Path, publish.Path("direct"))
	s.publish(publish.PublishRequest{Grant: a, Final: true, Primary: "two"})
}

// What is carried over counts as files when it is published, and never as bytes.
func testLimitCarried(s *suite) {
	a := s.acquire(s.key("k"), "a")
	for i := range 3 {
		s.upload(a, publish.Path(fmt.Sprint(i)), "12345")
	}
	s.publish(publish.PublishRequest{Grant: a, Final: true, Primary: "0"})
	s.limited(publish.GenerationLimits{Files: 3, Bytes: 5})
	b := s.takeOver(a.Key, "b")
	s.upload(b, "more", "12345")
	req := publish.PublishRequest{Grant: b, Final: true, Primary: "more", ReuseFrom: a.Token}
	_, err := s.Store.Publish(s.Context(), req)
	s.refused(err, publish.Error{Code: publish.ErrTooLarge, Operation: publish.OperationPublish, Token: b.Token, Limit: 3, Came: "4", Unit: publish.UnitFiles})
	s.current(a.Key, publish.Version{Token: a.Token, Revision: 1})
	s.ok(s.Store.DeleteFile(s.Context(), b, "2"))
	receipt := s.publish(req)
	s.same("files", receipt.Files, int64(3))
	s.same("bytes", receipt.Bytes, int64(15))
}

// A limit that was lowered since changes nothing of what was published, and a generation that is above it can't be published.
func testLimitReplay(s *suite) {
	a, b := s.acquire(s.key("a"), "a"), s.acquire(s.key("b"), "b")
	s.upload(a, "f", "123456")
	s.publish(final(a))
	s.upload(b, "f", "123456")
	s.limited(publish.GenerationLimits{Bytes: 5})
	s.same("replayed", s.publish(final(a)).Replayed, true)
	_, err := s.Store.Publish(s.Context(), final(b))
	s.refused(err, publish.Error{Code: publish.ErrTooLarge, Operation: publish.OperationPublish, Limit: 5, Came: "6"})
	s.upload(b, "f", "12345")
	s.publish(final(b))
}

// Uploads that end at the same moment may get past the limit, but are not published.
func testLimitInParallel(s *suite) {
	s.limited(publish.GenerationLimits{Files: 10})
	a := s.acquire(s.key("k"), "a")
	var all sync.WaitGroup
	var mu sync.Mutex
	var files []publish.Path
	for i := range 4 {
		all.Go(func() {
			for j := range 10 {
				path := publish.Path(fmt.Sprintf("%d/%d", i, j))
				upload := s.begin(a, path)
				_, err := s.Store.CompleteUpload(s.Context(), upload, fileOf(path, "x"))
				switch {
				case err == nil:
					mu.Lock()
					files = append(files, path)
					mu.Unlock()
				case errors.Is(err, publish.ErrTooLarge):
					if err := s.Store.DeleteFile(s.Context(), a, path); err != nil {
						s.Error(err)
					}
				default:
					s.Error(err)
				}
			}
		})
	}
	all.Wait()
	if len(files) < 10 || len(files) > 13 {
		s.Fatalf("%d files got in, want 10 and at most one more of each of the other three", len(files))
	}
	req := publish.PublishRequest{Grant: a, Final: true, Primary: files[0]}
	for _, file := range files[10:] {
		_, err := s.Store.Publish(s.Context(), req)
		s.refused(err, publish.Error{Code: publish.ErrTooLarge, Operation: publish.OperationPublish, Limit: 10, Came: fmt.Sprint(len(files)), Unit: publish.UnitFiles})
		s.ok(s.Store.DeleteFile(s.Context(), a, file))
		files = files[:len(files)-1]
	}
	s.publish(req)
}
