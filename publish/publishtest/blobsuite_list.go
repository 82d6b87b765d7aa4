package publishtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/publish"
)

// nastyPaths are legal names that something on the way to a store likes to mistake.
var nastyPaths = []string{
	"plain", "with space", " leading", "trailing ", "plus+plus", "per%cent", "%2F", "%41", "hash#tag", "question?mark", "a&b;c=d",
	"colon:at@", "quote\"'`", "star*[x]{y}", "<angle>", "|pipe^~$!,()", "ümlaut", "日本語", "🦖.png", "a.b", "a/b", "a0", "-", "-/-/-",
	"...", "..x", ".hidden", "tileset", "tileset/0.glb", "CASE", "case", strings.Repeat("long", 50),
}

// namesAreByteForByte stores objects under nasty names and finds each again as itself.
func (s *blobSuite) namesAreByteForByte() {
	names := make([]publish.ObjectName, 0, 2*len(nastyPaths))
	for _, path := range nastyPaths {
		names = append(names, s.name(path))
		if !strings.HasPrefix(path, "-") {
			names = append(names, s.nameIn(path, "file"))
		}
	}
	for _, name := range names {
		s.put(name, []byte(name))
	}
	for _, name := range names {
		s.wantObject(name, []byte(name))
	}
	var want []string
	for _, name := range names {
		want = append(want, string(name))
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, s.list(s.prefix+"/")); diff != "" {
		s.Errorf("List (-want +got):\n%s", diff)
	}
	for _, name := range names {
		if err := s.store.Delete(s.Context(), name); err != nil {
			s.Errorf("deleting %q: %v", name, err)
		}
	}
	if left := s.list(s.prefix + "/"); len(left) != 0 {
		s.Errorf("left: %q", left)
	}
}

// listOrder lists names whose byte order isn't that of a walk through folders, and whose keys lie inside of each other.
func (s *blobSuite) listOrder() {
	var want []string
	for _, key := range []string{"shot", "shot/010", "shot/010/comp", "shot-1", "shot.b", "shot0", "shot/0", "Shot"} {
		for _, path := range []string{"tileset", "tileset/0.glb", "a.b", "a/b", "a/b/c", "a b"} {
			name := s.nameIn(key, path)
			s.put(name, []byte("x"))
			want = append(want, string(name))
		}
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, s.list(s.prefix+"/")); diff != "" {
		s.Errorf("List (-want +got):\n%s", diff)
	}
}

// listPrefix lists beginnings of names, whole segments or not.
func (s *blobSuite) listPrefix() {
	var all []string
	for _, key := range []string{"thumbs/image-1", "thumbs/image-10", "thumbs/image-2", "thumbs.old", "thumbs"} {
		name := s.nameIn(key, "a/file.png")
		s.put(name, []byte("xyz"))
		all = append(all, string(name))
	}
	slices.Sort(all)
	for _, prefix := range []string{
		"", "/", "/th", "/thumbs", "/thumbs/", "/thumbs/image-1", "/thumbs/image-1/", "/thumbs/image-1/-/1/", "/thumbs.", "/thumbs/-",
		"/nothing", "/nothing/", "/thumbs/image-1//", "/thumbs/../thumbs", "/./thumbs", "/thumbs/image-1/-/1/x/y/z",
	} {
		prefix = s.prefix + prefix
		var want []string
		for _, name := range all {
			if strings.HasPrefix(name, prefix) {
				want = append(want, name)
			}
		}
		if diff := cmp.Diff(want, s.list(prefix)); diff != "" {
			s.Errorf("List(%q) (-want +got):\n%s", prefix, diff)
		}
	}
	if got := s.list(all[0]); len(got) != 1 || got[0] != all[0] {
		s.Errorf("a whole name as the prefix gave %q", got)
	}
	for info, err := range s.store.List(s.Context(), all[0]) {
		if err != nil || info.Size != 3 {
			s.Errorf("List gave %+v, %v; want 3 bytes", info, err)
		}
	}
	// The whole store: other subtests' objects come and go, but the order holds.
	if everything := s.list(""); !slices.IsSorted(everything) || len(everything) < len(all) {
		s.Errorf("List of everything gave %d names, sorted: %t", len(everything), slices.IsSorted(everything))
	}
}

// listMany lists more names than a server gives in one page.
func (s *blobSuite) listMany() {
	const many, writers = 1100, 8
	var group sync.WaitGroup
	for first := range writers {
		group.Go(func() {
			for i := first; i < many; i += writers {
				name := publish.ObjectName(fmt.Sprintf("%s/key/-/1/upload/%04d", s.prefix, i))
				if err := s.store.Put(s.Context(), name, strings.NewReader(""), 0, ""); err != nil {
					s.Errorf("putting %s: %v", name, err)
					return
				}
			}
		})
	}
	group.Wait()
	names := s.list(s.prefix + "/")
	if len(names) != many || !slices.IsSorted(names) {
		s.Errorf("%d names, sorted: %t; want %d", len(names), slices.IsSorted(names), many)
	}
}

// listStopsEarly ends the range over a list.
func (s *blobSuite) listStopsEarly() {
	for i := range 5 {
		s.put(s.name(fmt.Sprint(i)), nil)
	}
	seen := 0
	for _, err := range s.store.List(s.Context(), s.prefix+"/") {
		if err != nil {
			s.Fatal(err)
		}
		if seen++; seen == 2 {
			break
		}
	}
	if seen != 2 {
		s.Errorf("saw %d objects; want 2", seen)
	}
}

// listCanceled ends the context of a list: what has come must not look like all there is.
func (s *blobSuite) listCanceled() {
	for i := range 5 {
		s.put(s.name(fmt.Sprint(i)), nil)
	}
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	var last error
	for _, err := range s.store.List(ctx, s.prefix+"/") {
		cancel()
		last = err
	}
	if !errors.Is(last, context.Canceled) {
		s.Errorf("the list ended with %v; want %v", last, context.Canceled)
	}
}

// unfinishedNothing: whole objects aren't unfinished, and neither is what a broken body has left behind. A list that was canceled says so.
func (s *blobSuite) unfinishedNothing() {
	s.put(s.name("small"), []byte("x"))
	s.put(s.name("large"), pattern(1, blobPart+1))
	broken := io.MultiReader(bytes.NewReader(pattern(2, blobPart+1)), iotest.ErrReader(errors.New("broken by the test")))
	if err := s.store.Put(s.Context(), s.name("broken"), broken, -1, ""); err == nil {
		s.Error("a broken body was stored")
	}
	for name, err := range s.store.Unfinished(s.Context(), s.prefix+"/") {
		s.Errorf("Unfinished gave %q, %v", name, err)
	}
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	var last error
	for _, err := range s.store.Unfinished(ctx, s.prefix+"/") {
		last = err
	}
	if !errors.Is(last, context.Canceled) {
		s.Errorf("Unfinished ended with %v; want %v", last, context.Canceled)
	}
}
