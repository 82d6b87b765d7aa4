package publish

import (
	"fmt"
	"strings"
)

// MaxExpectedPaths is how many paths the patterns of one publish may name together; a path that two patterns name
// counts twice.
const MaxExpectedPaths = 100_000

// ExpandExpect gives the paths that the patterns of PublishRequest.Expect name, pattern by pattern, the last range of each
// running fastest. A path that two patterns name is in it twice. Its errors are those of EachExpected.
func ExpandExpect(patterns []string) ([]Path, error) {
	var paths []Path
	err := EachExpected(patterns, func(_ int, path Path) error {
		paths = append(paths, path)
		return nil
	})
	return paths, err
}

// EachExpected visits the paths that patterns name, each with the index of its pattern, and ends at the first error of
// visit. A pattern is a path in which ranges of numbers may stand in brackets:
//
//	beauty.[1001-1100].exr    beauty.1001.exr, beauty.1002.exr, … beauty.1100.exr
//	beauty.[1001-1100x2].exr  every second one: beauty.1001.exr, beauty.1003.exr, … beauty.1099.exr
//	beauty.[0001-0100].exr    padded with zeros, as the ends of the range are
//	sim.[-5-5].vdb            from sim.-5.vdb to sim.5.vdb
//	tile_[0-3]_[0-3].png      16 tiles
//	still.[7].exr             one frame, as [7-7]
//	notes[[]1].txt            the file notes[1].txt: "[[]" is a literal "["; "]" stands for itself
//
// Both ends are written as the first and last file are named. Negative numbers are padded in one of two ways. As printf's
// %04d does it, the sign counts: [-005-0005] runs over -001, 0000 and 0001. Or each number has as many digits:
// [-0005-0005] runs over -0001, 0000 and 0001. Where the ends would suit both, as in [-005-1000], it is printf's way; where
// neither end shows a zero, as in [-10-100], there is no padding. Two ranges say what one can't: [-10--01] and [000-100].
//
// Nothing is visited unless all patterns are well-formed and name at most MaxExpectedPaths. The error is an *Error with the
// pointer of the pattern, e.g. /expect/2: invalid-path for a path that no file can have, else invalid-request.
func EachExpected(patterns []string, visit func(pattern int, path Path) error) error {
	var parsed []pattern
	total := int64(0)
	for i, text := range patterns {
		p, why := parsePattern(text)
		if why != "" {
			return invalid(expectPointer(i), "%s", why)
		}
		if total += p.count(); total > MaxExpectedPaths {
			return invalid(expectPointer(i), "the patterns up to this one name more than %d paths; narrow the ranges, or leave patterns out", MaxExpectedPaths)
		}
		parsed = append(parsed, p)
	}
	for i, p := range parsed {
		err := p.each(func(name string) error {
			if why := nameFault(name, true); why != "" {
				return InvalidField(ErrInvalidPath, expectPointer(i), why)
			}
			return visit(i, Path(name))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func expectPointer(i int) string { return fmt.Sprintf("/expect/%d", i) }

// pattern is a path in parts.
type pattern []part

// part is a literal text, or the numbers of a range when that is empty.
type part struct {
	literal string
	frames  frames
}

// parsePattern reads a pattern in one pass, or says what is wrong with it.
func parsePattern(text string) (_ pattern, why string) {
	var parts pattern
	var literal strings.Builder
	flush := func() {
		if literal.Len() > 0 {
			parts = append(parts, part{literal: literal.String()})
			literal.Reset()
		}
	}
	for {
		before, rest, found := strings.Cut(text, "[")
		literal.WriteString(before)
		if !found {
			flush()
			return parts, ""
		}
		if after, escaped := strings.CutPrefix(rest, "[]"); escaped {
			literal.WriteByte('[')
			text = after
			continue
		}
		inside, after, closed := strings.Cut(rest, "]")
		if !closed {
			return nil, `has a "[" without its "]"; close it, or write a literal "[" as "[[]"`
		}
		frames, why := parseFrames(inside)
		if why != "" {
			return nil, fmt.Sprintf("has %q, %s", "["+firstBytes(inside)+"]", why)
		}
		flush()
		parts = append(parts, part{frames: frames})
		text = after
	}
}

// firstBytes keeps what an error quotes short.
func firstBytes(text string) string {
	const most = 40
	if len(text) <= most {
		return text
	}
	return text[:most] + "…"
}

// count is how many paths the pattern names, or MaxExpectedPaths+1 when they are more than that.
func (p pattern) count() int64 {
	total := int64(1)
	for _, part := range p {
		if part.literal == "" {
			total = min(total*min(part.frames.count(), MaxExpectedPaths+1), MaxExpectedPaths+1)
		}
	}
	return total
}

// each visits the names, counting as an odometer does. A part is at least one byte long, so one name of a pattern with
// more parts than a path has bytes is enough to refuse it.
func (p pattern) each(visit func(name string) error) error {
	numbers := make([]int64, len(p))
	for i, part := range p {
		numbers[i] = part.frames.first
	}
	var name []byte
	for {
		name = name[:0]
		for i, part := range p {
			if part.literal != "" {
				name = append(name, part.literal...)
			} else {
				name = part.frames.append(name, numbers[i])
			}
		}
		if err := visit(string(name)); err != nil {
			return err
		}
		i := len(p) - 1
		for ; i >= 0; i-- {
			if frames := p[i].frames; p[i].literal == "" && numbers[i]+frames.step <= frames.last {
				numbers[i] += frames.step
				break
			}
			numbers[i] = p[i].frames.first
		}
		if i < 0 {
			return nil
		}
	}
}
