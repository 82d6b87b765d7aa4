package oidc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// maxDepth bounds how deep objects and lists lie in one another.
const maxDepth = 32

var (
	errNotObject = errors.New("is not a JSON object")
	errDepth     = fmt.Errorf("lies deeper than %d levels", maxDepth)
)

// object is a JSON object. Its values are string, bool, json.Number, nil, []any or object.
type object map[string]any

// text is the text of a member, "" if there is none or it is no text.
func (o object) text(member string) string {
	if text, isText := o[member].(string); isText {
		return text
	}
	return ""
}

// parseObject reads one JSON object and nothing after it. Unlike encoding/json it refuses names that stand twice, whose meaning readers differ in, and text
// that isn't UTF-8. Names are compared as they are. Errors name the place by a JSON pointer and hold no value.
func parseObject(text []byte) (object, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("is not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	value, err := parseValue(dec, "", 0)
	if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, fmt.Errorf("has something after its end, at byte %d", dec.InputOffset())
	}
	tree, isObject := value.(object)
	if !isObject {
		return nil, errNotObject
	}
	return tree, nil
}

func parseValue(dec *json.Decoder, at string, depth int) (any, error) {
	token, err := dec.Token()
	if err != nil {
		return nil, fmt.Errorf("is not JSON at byte %d", dec.InputOffset())
	}
	delim, isDelim := token.(json.Delim)
	switch {
	case !isDelim:
		return token, nil
	case depth == maxDepth:
		return nil, errDepth
	case delim == '[':
		return parseList(dec, at, depth)
	}
	tree := object{}
	for dec.More() {
		token, err := dec.Token()
		name, isName := token.(string)
		if err != nil || !isName {
			return nil, fmt.Errorf("is not JSON at byte %d", dec.InputOffset())
		}
		below := pointerTo(at, name)
		if _, twice := tree[name]; twice {
			return nil, fmt.Errorf("%s: stands twice; keep one", below)
		}
		if tree[name], err = parseValue(dec, below, depth+1); err != nil {
			return nil, err
		}
	}
	return tree, closed(dec)
}

func parseList(dec *json.Decoder, at string, depth int) (any, error) {
	list := []any{}
	for dec.More() {
		value, err := parseValue(dec, fmt.Sprintf("%s/%d", at, len(list)), depth+1)
		if err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	return list, closed(dec)
}

// closed reads the end of an object or list.
func closed(dec *json.Decoder) error {
	if _, err := dec.Token(); err != nil {
		return fmt.Errorf("is not JSON at byte %d", dec.InputOffset())
	}
	return nil
}

// pointerTo is the JSON pointer (RFC 6901) of a member.
func pointerTo(at, name string) string {
	return at + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

// splitPointer gives the names in a JSON pointer that begins with a slash.
func splitPointer(pointer string) ([]string, error) {
	names := strings.Split(pointer[1:], "/")
	for i, name := range names {
		rest := strings.NewReplacer("~0", "", "~1", "").Replace(name)
		if name == "" || strings.Contains(rest, "~") {
			return nil, fmt.Errorf("%q is not a JSON pointer; write /a/b for the member b of the claim a, ~1 for a slash in a name and ~0 for a tilde", pointer)
		}
		names[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
	}
	return names, nil
}
