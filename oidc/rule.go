package oidc

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/pawlhq/pawl/publish"
)

// MaxNameBytes bounds the name that a rule makes; what is longer is cut.
const MaxNameBytes = 100

// Rule maps tokens to a name and scopes.
type Rule struct {
	// claims must all hold.
	claims []claimTest
	name   string // with claims in braces
	scopes publish.Scopes
}

// claimTest asks for a claim of one of some values.
type claimTest struct {
	claim string
	path  []string
	anyOf []wanted
}

// wanted is one value of a claim.
type wanted struct {
	value any // a string or a bool
	// below lets one more segment follow the value, which ends with a slash then.
	below bool
}

// parseWanted reads a value of a rule. Numbers are refused: their texts differ where they are equal.
func parseWanted(value any) (wanted, error) {
	text, isText := value.(string)
	if _, isBool := value.(bool); isBool {
		return wanted{value: value}, nil
	}
	before, isBelow := strings.CutSuffix(text, "*")
	switch {
	case !isText:
		return wanted{}, errors.New("must be a text, true, false, or a list of those")
	case text == "":
		return wanted{}, errors.New("is an empty text; give the value that the claim must have")
	case strings.Contains(before, "*"), isBelow && (!strings.HasSuffix(before, "/") || before == "/"):
		return wanted{}, fmt.Errorf("%q has a * elsewhere than at its end after a slash, as in refs/heads/*, where it stands for one segment", text)
	}
	return wanted{before, isBelow}, nil
}

// matches reports whether a claim has the value: the same text or the same truth, or a list of which one does. A number, an object, or a list in a list never has.
func (w wanted) matches(claim any) bool {
	switch claim := claim.(type) {
	case bool:
		return claim == w.value
	case string:
		if !w.below {
			return claim == w.value
		}
		rest, found := strings.CutPrefix(claim, w.value.(string)) //nolint:errcheck // Only texts have below.
		return found && rest != "" && !strings.Contains(rest, "/")
	case []any:
		return slices.ContainsFunc(claim, func(each any) bool {
			_, isList := each.([]any)
			return !isList && w.matches(each)
		})
	}
	return false
}

// matches reports whether claims fit the rule.
func (r *Rule) matches(claims Claims) bool {
	for _, test := range r.claims {
		value, found := claims.at(test.path)
		if !found || !slices.ContainsFunc(test.anyOf, func(w wanted) bool { return w.matches(value) }) {
			return false
		}
	}
	return len(r.claims) > 0
}

// checkName says what is wrong with the name of a rule.
func (r *Rule) checkName() error {
	if cleaned := cleanName(r.name); cleaned != r.name {
		return fmt.Errorf("must have at most %d bytes, no space around it, and no character that controls something or can't be seen", MaxNameBytes)
	}
	return expand(r.name, func(string) {}, func(claim string) error {
		if strings.Contains(claim, "{") {
			return errors.New("has a { in a {")
		}
		_, err := claimPath(claim)
		return err
	})
}

// nameOf fills the claims into the name. A claim that is missing, or neither text, number nor truth, shows as a question mark.
func (r *Rule) nameOf(claims Claims) string {
	var b strings.Builder
	err := expand(r.name, func(text string) { b.WriteString(text) }, func(claim string) error {
		b.WriteString(claims.Text(claim))
		return nil
	})
	if err != nil {
		return "?"
	}
	return cleanName(b.String())
}

// expand takes a name apart: text as it is, and claims in braces.
func expand(name string, text func(string), claim func(string) error) error {
	for {
		before, rest, found := strings.Cut(name, "{")
		if strings.Contains(before, "}") {
			return errors.New("has a } without a {")
		}
		text(before)
		if !found {
			return nil
		}
		inside, after, closed := strings.Cut(rest, "}")
		if !closed {
			return errors.New("has a { without a }")
		}
		if err := claim(inside); err != nil {
			return err
		}
		name = after
	}
}

// cleanName makes a text fit for logs and pages. What could break a line or reorder it, or shows as nothing, becomes a question mark: so nothing seems to be missing,
// and two people don't look alike.
func cleanName(text string) string {
	clean := strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == utf8.RuneError || publish.Unseen(r) {
			return '?'
		}
		return r
	}, text))
	if len(clean) > MaxNameBytes {
		cut := MaxNameBytes
		for !utf8.RuneStart(clean[cut]) {
			cut--
		}
		clean = strings.TrimSpace(clean[:cut])
	}
	if clean == "" {
		return "?"
	}
	return clean
}

// Claims is what a verified token says. It never changes.
type Claims struct {
	tree    object
	subject string
	expires time.Time
}

// claimPath is where a claim lies: its name is one at the top, or a JSON pointer if it begins with a slash.
func claimPath(claim string) ([]string, error) {
	if claim == "" {
		return nil, errors.New("names no claim; write its name, or a JSON pointer such as /kubernetes.io/namespace")
	}
	if strings.HasPrefix(claim, "/") {
		return splitPointer(claim)
	}
	return []string{claim}, nil
}

func (c Claims) at(path []string) (any, bool) {
	var value any = c.tree
	for _, name := range path {
		tree, isObject := value.(object)
		if !isObject {
			return nil, false
		}
		var found bool
		if value, found = tree[name]; !found {
			return nil, false
		}
	}
	return value, true
}

// Text is the text of a claim, which is named as in rules, or "?" if it is missing, or neither text, number nor truth.
func (c Claims) Text(claim string) string {
	path, err := claimPath(claim)
	if err != nil {
		return "?"
	}
	value, _ := c.at(path)
	switch value := value.(type) {
	case string:
		return value
	case json.Number:
		return value.String()
	case bool:
		return fmt.Sprint(value)
	}
	return "?"
}

// apply adds up the rules that claims fit: the name is the first one's. ok is whether there is any.
func apply(rules []Rule, claims Claims) (name string, scopes publish.Scopes, ok bool) {
	for i := range rules {
		if !rules[i].matches(claims) {
			continue
		}
		if !ok {
			name, ok = rules[i].nameOf(claims), true
		}
		for _, scope := range rules[i].scopes {
			if !slices.Contains(scopes, scope) {
				scopes = append(scopes, scope)
			}
		}
	}
	return name, scopes, ok
}
