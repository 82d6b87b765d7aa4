package oidc

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// reader takes an object of a configuration apart. It keeps the first fault, and answers anything after it.
type reader struct {
	at    string // a JSON pointer
	tree  object
	known []string
	fault error
}

// placed is a text and where it stands.
type placed struct{ at, value string }

func (r *reader) failAt(at, format string, args ...any) {
	if r.fault == nil {
		r.fault = fmt.Errorf("%s: %s", at, fmt.Sprintf(format, args...))
	}
}

func (r *reader) fail(member, format string, args ...any) {
	r.failAt(pointerTo(r.at, member), format, args...)
}

// take takes over the fault of a part.
func (r *reader) take(part *reader) {
	if r.fault == nil {
		r.fault = part.fault
	}
}

// know makes a member one that is asked for.
func (r *reader) know(member string) {
	if !slices.Contains(r.known, member) {
		r.known = append(r.known, member)
	}
}

// has reports whether an optional member is given.
func (r *reader) has(member string) bool {
	r.know(member)
	_, given := r.tree[member]
	return given
}

func (r *reader) text(member string) string {
	r.know(member)
	text, isText := r.tree[member].(string)
	if !isText || strings.TrimSpace(text) == "" {
		r.fail(member, "must be a text")
	}
	return text
}

// list is the values of a member that must be a list with something in it.
func (r *reader) list(member, of string) []any {
	r.know(member)
	list, isList := r.tree[member].([]any)
	if !isList || len(list) == 0 {
		r.fail(member, "must be a list of %s, with at least one", of)
	}
	return list
}

func (r *reader) texts(member string) []placed {
	var texts []placed
	for i, value := range r.list(member, "texts") {
		text, isText := value.(string)
		at := fmt.Sprintf("%s/%d", pointerTo(r.at, member), i)
		if !isText {
			r.failAt(at, "must be a text")
		}
		texts = append(texts, placed{at, text})
	}
	return texts
}

func (r *reader) object(member string) *reader {
	r.know(member)
	return r.part(pointerTo(r.at, member), r.tree[member])
}

func (r *reader) objects(member string) []*reader {
	var parts []*reader
	for i, value := range r.list(member, "objects") {
		parts = append(parts, r.part(fmt.Sprintf("%s/%d", pointerTo(r.at, member), i), value))
	}
	return parts
}

func (r *reader) part(at string, value any) *reader {
	tree, isObject := value.(object)
	if !isObject {
		r.failAt(at, "must be an object")
	}
	return &reader{at: at, tree: tree}
}

// end fails for members that nobody has asked for.
func (r *reader) end() {
	for _, member := range slices.Sorted(maps.Keys(r.tree)) {
		if !slices.Contains(r.known, member) {
			r.fail(member, "is unknown here; the members are %s", strings.Join(r.known, ", "))
		}
	}
}
