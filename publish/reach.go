package publish

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Reach is a set of keys: those that a caller may see, or do something to. The zero Reach holds none. It never changes, and may be used from many
// goroutines at once.
type Reach struct {
	// spans are in byte order and neither overlap nor touch.
	spans []span
}

// span is the names from one on, up to but without another, in byte order. An empty end is none.
type span struct{ from, to string }

// everything is the span of all names.
var everything = span{}

// Everything is the Reach that holds all keys.
var Everything = ReachOf("")

// ReachOf holds the keys under some prefixes, each by the rule of Scope; "" is all.
func ReachOf(prefixes ...string) Reach {
	var spans []span
	for _, prefix := range prefixes {
		spans = append(spans, spansUnder(prefix)...)
	}
	return union(spans)
}

// spansUnder is the names under a prefix by the rule of Scope. Names between the prefix itself and its slash, as "renders!" is, aren't under it.
func spansUnder(prefix string) []span {
	switch {
	case prefix == "":
		return []span{everything}
	case strings.HasSuffix(prefix, "/"):
		return []span{below(strings.TrimSuffix(prefix, "/"))}
	default:
		return []span{only(prefix), below(prefix)}
	}
}

// only is one name: no name has a control character, so none lies between it and the end of the span.
func only(name string) span { return span{name, name + "\x01"} }

// below is the names that go on with a slash; "0" is the byte that follows it.
func below(name string) span { return span{name + "/", name + "0"} }

// union puts spans in order and joins those that overlap or touch.
func union(spans []span) Reach {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var joined []span
	for _, next := range spans {
		last := len(joined) - 1
		switch {
		case last < 0 || joined[last].to != "" && joined[last].to < next.from:
			joined = append(joined, next)
		case joined[last].to != "" && (next.to == "" || next.to > joined[last].to):
			joined[last].to = next.to
		}
	}
	return Reach{spans: joined}
}

// contains reports whether one span of the Reach holds all of another.
func (r Reach) contains(s span) bool {
	return slices.ContainsFunc(r.spans, func(held span) bool {
		return held.from <= s.from && (held.to == "" || s.to != "" && s.to <= held.to)
	})
}

// Has reports whether the Reach holds a key.
func (r Reach) Has(key Key) bool { return r.contains(only(string(key))) }

// HasPrefix reports whether it holds every key under a prefix, by the rule of Scope.
func (r Reach) HasPrefix(prefix string) bool {
	return !slices.ContainsFunc(spansUnder(prefix), func(s span) bool { return !r.contains(s) })
}

// All reports whether it holds every key.
func (r Reach) All() bool { return r.contains(everything) }

// Empty reports whether it holds none.
func (r Reach) Empty() bool { return len(r.spans) == 0 }

// Or returns the Reach that holds what either holds.
func (r Reach) Or(other Reach) Reach { return union(slices.Concat(r.spans, other.spans)) }

// Beginning returns what the Reach holds of the keys whose names begin with a prefix as a plain text, which may end anywhere (see ParsePrefix): what a list with
// that prefix shows.
func (r Reach) Beginning(prefix string) Reach {
	if prefix == "" {
		return r
	}
	wanted := span{prefix, behind(prefix)}
	var cut []span
	for _, held := range r.spans {
		both := span{max(held.from, wanted.from), held.to}
		if both.to == "" || wanted.to != "" && wanted.to < both.to {
			both.to = wanted.to
		}
		if both.to == "" || both.from < both.to {
			cut = append(cut, both)
		}
	}
	return Reach{spans: cut}
}

// behind is the least text above all names that begin with a prefix, "" for none: the prefix with its last character one higher. Nothing is above U+10FFFF.
func behind(prefix string) string {
	prefix = strings.TrimRight(prefix, "\U0010ffff")
	last, size := utf8.DecodeLastRuneInString(prefix)
	switch {
	case prefix == "":
		return ""
	case last == 0xd7ff: // What follows it are halves of surrogate pairs, which are no characters.
		last = 0xdfff
	}
	return prefix[:len(prefix)-size] + string(last+1)
}

// Meets reports whether it holds any key under a prefix, by the rule of Scope; under "" are all keys.
func (r Reach) Meets(prefix string) bool {
	return r.contains(only(prefix)) || slices.Contains(r.Above(), prefix)
}

// Above returns what the names of the Reach lie below: "" and, for "a/b/", also "a" and "a/b". Of the prefixes by the rule of Scope, it Meets these and those
// that are in its Spans themselves. They are in byte order.
func (r Reach) Above() []string {
	var above []string
	for _, s := range r.spans {
		above = append(above, "")
		for i := range len(s.from) {
			if s.from[i] == '/' {
				above = append(above, s.from[:i])
			}
		}
	}
	slices.Sort(above)
	return slices.Compact(above)
}

// Spans returns the Reach as ranges of names in byte order, for queries: range i begins with from[i] and ends before to[i], or never if that is empty.
// They neither overlap nor touch.
func (r Reach) Spans() (from, to []string) {
	from, to = make([]string, len(r.spans)), make([]string, len(r.spans))
	for i, s := range r.spans {
		from[i], to[i] = s.from, s.to
	}
	return from, to
}
