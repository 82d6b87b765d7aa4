package publishtest

import (
	"fmt"
	"sync"

	"github.com/pawlhq/pawl/publish"
)

func resolveTests() []pointerTest {
	return []pointerTest{
		{name: "entries", run: testResolveEntries},
		{name: "one-snapshot", run: testResolveSnapshot},
	}
}

// resolve looks keys up.
func (s *suite) resolve(keys ...publish.Key) []publish.Resolved {
	s.Helper()
	resolved, err := s.Store.Resolve(s.Context(), keys)
	if err != nil {
		s.Fatalf("resolve: %v", err)
	}
	return resolved
}

// testResolveEntries: one entry for each key, in the order that was asked for, also for what isn't there.
func testResolveEntries(s *suite) {
	a := s.acquire(s.key("a"), "a")
	s.upload(a, "f", "one")
	first := s.publish(publish.PublishRequest{Grant: a})
	b := s.acquire(s.key("b é"), "b")
	s.upload(b, "f", "one")
	s.upload(b, "g", "two")
	second := s.publish(final(b))
	granted := s.acquire(s.key("granted"), "c") // Without a pointer yet.
	s.upload(granted, "f", "one")
	unknown := s.key("unknown")
	want := map[publish.Key]publish.Resolved{
		a.Key:       {Key: a.Key, Found: true, Token: 1, Revision: 1, ManifestDigest: first.ManifestDigest, Primary: "f"},
		b.Key:       {Key: b.Key, Found: true, Token: 1, Revision: 1, ManifestDigest: second.ManifestDigest, Final: true},
		granted.Key: {Key: granted.Key},
		unknown:     {Key: unknown},
	}
	for _, keys := range [][]publish.Key{{a.Key}, {unknown}, {unknown, b.Key, granted.Key, a.Key, b.Key}} {
		var entries []publish.Resolved
		for _, key := range keys {
			entries = append(entries, want[key])
		}
		s.same(fmt.Sprint("resolved ", keys), s.resolve(keys...), entries)
	}
	s.upload(a, "f", "two")
	s.publish(publish.PublishRequest{Grant: a})
	s.same("the next revision", s.resolve(a.Key)[0].Version(), publish.Version{Token: 1, Revision: 2})

	var many []publish.Key
	for i := range publish.MaxResolveKeys {
		many = append(many, s.key(fmt.Sprint("many/", i)))
	}
	many[len(many)-1] = b.Key
	resolved := s.resolve(many...)
	s.same("many", [3]any{len(resolved), resolved[0].Found, resolved[len(many)-1]}, [3]any{len(many), false, want[b.Key]})
}

// testResolveSnapshot: two keys are published in turn, first one and then the other, while both are resolved: at no time is the second
// one ahead of the first, or more than one behind it.
func testResolveSnapshot(s *suite) {
	const rounds = 150
	one, two := s.acquire(s.key("1"), "a"), s.acquire(s.key("2"), "a")
	grants := []publish.Grant{one, two}
	next := func(grant publish.Grant, n int) error {
		upload := publish.BeginUploadRequest{Grant: grant, Path: "f", ID: newUploadID()}
		start, err := s.Store.BeginUpload(s.Context(), upload)
		if err != nil {
			return err
		}
		if _, err := s.Store.CompleteUpload(s.Context(), start.Upload, fileOf("f", fmt.Sprint(n))); err != nil {
			return err
		}
		_, err = s.Store.Publish(s.Context(), publish.PublishRequest{Grant: grant})
		return err
	}
	for _, grant := range grants {
		s.ok(next(grant, 0))
	}
	done := make(chan error, 1)
	go func() {
		for n := range rounds {
			for _, grant := range grants {
				if err := next(grant, n+1); err != nil {
					done <- err
					return
				}
			}
		}
		done <- nil
	}()
	var readers sync.WaitGroup
	defer readers.Wait()
	ended := make(chan struct{})
	defer func() { close(ended) }()
	for range 3 {
		readers.Go(func() {
			// The keys are asked for in the order in which a look-up one by one would see the second one ahead.
			for last := int64(0); ; {
				resolved, err := s.Store.Resolve(s.Context(), []publish.Key{one.Key, two.Key})
				if err != nil || len(resolved) != 2 {
					s.Errorf("resolve: %+v, %v", resolved, err)
					return
				}
				first, second := resolved[0].Revision, resolved[1].Revision
				if second > first || second < first-1 || first < last {
					s.Errorf("revisions %d and %d after %d were never current together", first, second, last)
					return
				}
				last = first
				select {
				case <-ended:
					return
				default:
				}
			}
		})
	}
	s.ok(<-done)
}
