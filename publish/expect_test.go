package publish_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pawlhq/pawl/publish"
)

// TestExpandExpect covers what patterns mean; an end of a range comes out as it is written.
func TestExpandExpect(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ pattern, want string }{
		{"beauty.exr", "beauty.exr"},
		{"b.[1001-1003].exr", "b.1001.exr b.1002.exr b.1003.exr"},
		{"[1-6x2]", "1 3 5"},
		{"[1-7x2]", "1 3 5 7"},
		{"[1-7x02]", "1 3 5 7"},
		{"[1-7x100]", "1"},
		{"[8-11]", "8 9 10 11"},
		{"[0008-0011]", "0008 0009 0010 0011"},
		{"[08-10]", "08 09 10"},
		{"[098-101]", "098 099 100 101"},
		{"[0998-10001x3000]", "0998 3998 6998 9998"},
		{"[00-01]", "00 01"},
		{"[7]", "7"},
		{"[7-7]", "7"},
		{"[007]", "007"},
		{"[-7]", "-7"},
		{"[-007]", "-007"},
		{"[0]", "0"},
		{"[-2-2]", "-2 -1 0 1 2"},
		{"[-10--8]", "-10 -9 -8"},
		{"[-010--008]", "-010 -009 -008"},
		{"[-0001-0001]", "-0001 0000 0001"}, // As many digits each.
		{"[-001-0001]", "-001 0000 0001"},   // printf's %04d: the sign counts.
		{"[-100-0005x50]", "-100 -050 0000"},
		{"[-005-1000x500]", "-005 0495 0995"}, // Both ways would do.
		{"[-05-10x5]", "-05 00 05 10"},
		{"[-10-100x55]", "-10 45 100"},
		{"[-10-100x15]", "-10 5 20 35 50 65 80 95"},
		{"t_[0-1]_[0-1].png", "t_0_0.png t_0_1.png t_1_0.png t_1_1.png"},
		{"[1-2][3-4]", "13 14 23 24"},
		{"v[2]/f.[1-2]", "v2/f.1 v2/f.2"},
		{"a[[]1].png", "a[1].png"},
		{"[[][1-2]]", "[1] [2]"},
		{"[[][[]", "[["},
		{"a]b", "a]b"},
		{"[-5-5]x2", "-5x2 -4x2 -3x2 -2x2 -1x2 0x2 1x2 2x2 3x2 4x2 5x2"},
		{"é.[1].🎬", "é.1.🎬"},
		{"[999999999999999998-999999999999999999]", "999999999999999998 999999999999999999"},
	} {
		paths, err := publish.ExpandExpect([]string{test.pattern})
		if diff := cmp.Diff(strings.Fields(test.want), text(paths)); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", test.pattern, err, diff)
		}
	}
	paths, err := publish.ExpandExpect([]string{"b.[1-2]", "a", "b.1"})
	if diff := cmp.Diff([]string{"b.1", "b.2", "a", "b.1"}, text(paths)); err != nil || diff != "" {
		t.Errorf("several: %v\n%s", err, diff)
	}
	if paths, err := publish.ExpandExpect(nil); err != nil || len(paths) != 0 {
		t.Errorf("none: %v, %v", paths, err)
	}
}

func text(paths []publish.Path) (names []string) {
	for _, path := range paths {
		names = append(names, string(path))
	}
	return names
}

// TestExpectIsRefused: what is wrong is refused with its place and its cure, before anything is visited.
func TestExpectIsRefused(t *testing.T) {
	t.Parallel()
	for pattern, cure := range map[string]string{
		"a.[1100-1001].exr":       "smaller number first",
		"[5--5]":                  "smaller number first",
		"[1-2x0]":                 "step isn't 1 or more",
		"[1-2x-1]":                "step isn't 1 or more",
		"[1-2x]":                  "no range",
		"[1-2x2x2]":               "no range",
		"[7x2]":                   "no range",
		"[]":                      "no range",
		"[-]":                     "no range",
		"[1-]":                    "no range",
		"[a-z]":                   "no range",
		"[1-2":                    `close it`,
		"a[":                      `"[[]"`,
		"[[":                      "close it",
		"[[1]":                    "no range",
		"[ 1-2]":                  "no range",
		"[+1-2]":                  "no range",
		"[1,3]":                   "no range",
		"[1-2-3]":                 "no range",
		"[1.5-2]":                 "no range",
		"[１-２]":                   "no range",
		"[-0-5]":                  "zero has a sign",
		"[-5--00]":                "zero has a sign",
		"[8-0012]":                "padded differently",
		"[-1-0001]":               "padded differently",
		"[0001-100]":              "padded differently",
		"[00-5]":                  "padded differently",
		"[-05-5]":                 "padded differently",
		"[-0005-00005000]":        "padded differently",
		"[1-1000000000000000000]": "18 digits",
		"[1-" + nines(1000) + "]": "18 digits",
		"[1-2x" + nines(40) + "]": "18 digits",
		"[1-999999999999999999]":  "more than 100000 paths",
		"[1-100000]":              "more than 100000 paths", // One stands before it.
		"[1-1000]/[1-1000]":       "more than 100000 paths",
		"[1-9][1-9][1-9][1-9][1-9][1-9]" + strings.Repeat("[0-999999999999999999]", 40): "more than 100000 paths",
	} {
		visited := 0
		err := publish.EachExpected([]string{"fine", pattern}, func(int, publish.Path) error { visited++; return nil })
		refusedField(t, pattern, err, publish.ErrInvalidRequest, "/expect/1")
		if err != nil && (!strings.Contains(err.Error(), cure) || len(err.Error()) > 500) || visited != 0 {
			t.Errorf("%s: %v after %d visits, want %q", pattern, err, visited, cure)
		}
	}
	for what, name := range illegalNames { // Cases 34 and 35.
		name = strings.ReplaceAll(name, "[", "[[]")
		_, err := publish.ExpandExpect([]string{"a", "b", name})
		refusedField(t, what, err, publish.ErrInvalidPath, "/expect/2")
		_, err = publish.ExpandExpect([]string{"a", "b", "[1-2]/" + name + "/[1]"})
		if name != "" && name[0] != '/' && err == nil {
			t.Errorf("%s between ranges is accepted", what)
		}
	}
	tooMany := make([]string, publish.MaxExpectedPaths+1)
	for i := range tooMany {
		tooMany[i] = "a"
	}
	_, err := publish.ExpandExpect(tooMany)
	refusedField(t, "too many plain paths", err, publish.ErrInvalidRequest, "/expect/100000")
	stop := errors.New("stop")
	if err := publish.EachExpected([]string{"a"}, func(int, publish.Path) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("the visitor's error became %v", err)
	}
}

func nines(n int) string { return strings.Repeat("9", n) }

// TestExpectIsLinear: neither long patterns nor many cost more than their length.
func TestExpectIsLinear(t *testing.T) {
	t.Parallel()
	start := time.Now()
	for _, pattern := range []string{
		strings.Repeat("[", 1<<20), strings.Repeat("[[]", 300_000), strings.Repeat("[1]", 300_000), "[" + strings.Repeat("-", 1<<20) + "]",
		strings.Repeat("[1]", 300_000) + "[1-100000]", strings.Repeat("]", 1<<20), strings.Repeat("[[]]", 300_000) + "[",
	} {
		if _, err := publish.ExpandExpect([]string{pattern}); err == nil {
			t.Errorf("%.20s… is accepted", pattern)
		}
	}
	paths, err := publish.ExpandExpect([]string{"shots/[1-10]/beauty.[00001-10000].exr"})
	if err != nil || len(paths) != publish.MaxExpectedPaths || paths[99999] != "shots/10/beauty.10000.exr" {
		t.Errorf("%d paths, %v", len(paths), err)
	}
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
}

// TestExpectProperties: ranges count and pad as printf does, and every path is a pattern of itself once it is escaped.
func TestExpectProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		first := rapid.IntRange(-1200, 1200).Draw(t, "first")
		last := first + rapid.IntRange(0, 300).Draw(t, "length")
		step := rapid.IntRange(1, 40).Draw(t, "step")
		width := rapid.SampledFrom([]int{1, 3, 5, 8}).Draw(t, "width")
		pattern := fmt.Sprintf("a[%0*d-%0*dx%d].exr", width, first, width, last, step)
		ends := regexp.MustCompile(`\d+`).FindAllString(pattern, 2)
		if !strings.HasPrefix(ends[0], "0") && !strings.HasPrefix(ends[1], "0") {
			width = 1 // A width that neither end shows, as in [-10-100], can't be told.
		}
		var want []string
		for n := first; n <= last; n += step {
			want = append(want, fmt.Sprintf("a%0*d.exr", width, n))
		}
		got, err := publish.ExpandExpect([]string{pattern})
		if err != nil || !slices.Equal(text(got), want) {
			t.Fatalf("%s: %v, %v, want %v", pattern, got, err, want)
		}
		name := rapid.StringMatching(`[a\[\]0-9x-]{1,12}(/[a\[\]0-9x-]{1,3})?`).Draw(t, "name")
		got, err = publish.ExpandExpect([]string{strings.ReplaceAll(name, "[", "[[]")})
		if err != nil || len(got) != 1 || string(got[0]) != name {
			t.Fatalf("%q became %q, %v", name, got, err)
		}
	})
}

// FuzzParseExpect: what is accepted names legal paths, no more than the bound, the same each time; what is refused says where.
func FuzzParseExpect(f *testing.F) {
	for _, pattern := range []string{
		"beauty.[1001-1100].exr", "[1001-1100x2]", "[0001-0100]", "[-5-5]", "[-0005-0005]", "[7]", "tile_[0-3]_[0-3].png", "a[[]1]", "[1-", "[--]", "[x]",
	} {
		f.Add(pattern)
	}
	addNames(f)
	f.Fuzz(func(t *testing.T, pattern string) {
		paths, err := publish.ExpandExpect([]string{pattern})
		if err != nil {
			var refusal *publish.Error
			if !errors.As(err, &refusal) || len(refusal.Fields) != 1 || refusal.Fields[0].Pointer != "/expect/0" || refusal.Fields[0].Detail == "" {
				t.Fatalf("%q: %v", pattern, err)
			}
			return
		}
		if len(paths) == 0 || len(paths) > publish.MaxExpectedPaths {
			t.Fatalf("%q names %d paths", pattern, len(paths))
		}
		for _, path := range paths {
			checkName(t, string(path))
		}
		if !strings.Contains(pattern, "[") && (len(paths) != 1 || string(paths[0]) != pattern) {
			t.Fatalf("%q became %q", pattern, paths)
		}
		sorted := slices.Sorted(slices.Values(paths))
		if compact := slices.Compact(sorted); len(compact) != len(paths) && strings.Count(pattern, "[") < 2 {
			t.Fatalf("%q names %d paths, %d of them different", pattern, len(paths), len(compact))
		}
	})
}
