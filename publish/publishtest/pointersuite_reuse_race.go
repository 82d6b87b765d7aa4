package publishtest

import (
	"errors"
	"fmt"
	"sync"

	"github.com/pawlhq/pawl/publish"
)

// testReuseRace: of two generations that reuse the same one at once, at most one is published on top of it: the other is stale, or finds
// another version than it has worked from.
func testReuseRace(s *suite) {
	for round := range 20 {
		a := s.acquire(s.key(fmt.Sprint("k", round)), "a")
		s.upload(a, "f", "one")
		s.publish(final(a))
		b, c := s.takeOver(a.Key, "b"), s.takeOver(a.Key, "c")
		s.upload(b, "b", "two")
		s.upload(c, "c", "three")
		var errs [2]error
		var both sync.WaitGroup
		for i, grant := range []publish.Grant{b, c} {
			both.Go(func() { _, errs[i] = s.Store.Publish(s.Context(), reusing(grant, a.Token)) })
		}
		both.Wait()
		switch {
		case errs[0] == nil && errors.Is(errs[1], publish.ErrPreconditionFailed):
			s.files(b, fileOf("b", "two"), fileOf("f", "one"))
			s.current(a.Key, publish.Version{Token: b.Token, Revision: 1})
		case errs[1] == nil && errors.Is(errs[0], publish.ErrStaleToken):
			s.files(c, fileOf("c", "three"), fileOf("f", "one"))
			s.current(a.Key, publish.Version{Token: c.Token, Revision: 1})
		default:
			s.Fatalf("both reuse %d: %v, %v", a.Token, errs[0], errs[1])
		}
	}
}

// testReuseUploadRace: a file is uploaded while its old one is carried over. Each revision names one of them at most, whichever came first, and
// the next names the new one.
func testReuseUploadRace(s *suite) {
	for round := range 20 {
		a := s.acquire(s.key(fmt.Sprint("k", round)), "a")
		s.upload(a, "f", "old")
		s.upload(a, "g", "old")
		s.publish(final(a))
		b := s.takeOver(a.Key, "b")
		var uploaded, published error
		var both sync.WaitGroup
		both.Go(func() {
			start, err := s.Store.BeginUpload(s.Context(), beginRequest(b, "f"))
			if err == nil {
				_, err = s.Store.CompleteUpload(s.Context(), start.Upload, fileOf("f", "new"))
			}
			uploaded = err
		})
		both.Go(func() {
			_, published = s.Store.Publish(s.Context(), publish.PublishRequest{Grant: b, ReuseFrom: a.Token})
		})
		both.Wait()
		s.ok(errors.Join(uploaded, published))
		page, err := s.Store.Files(s.Context(), b.Key, b.Token, "", 10)
		s.ok(err)
		// Without "f": its upload had begun, and was not complete.
		got := fmt.Sprint(page.Files)
		if got != fmt.Sprint(filesOfContent("old", "f", "g")) && got != fmt.Sprint(filesOfContent("old", "g")) &&
			got != fmt.Sprint([]publish.File{fileOf("f", "new"), fileOf("g", "old")}) {
			s.Errorf("the revision in the race names %s", got)
		}
		s.publish(final(b))
		s.files(b, fileOf("f", "new"), fileOf("g", "old"))
	}
}
