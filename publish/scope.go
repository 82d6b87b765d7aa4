package publish

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Verb is what a scope allows. Each verb includes those before it.
type Verb uint8

// The verbs, from the least to the greatest.
const (
	// VerbNone is what a call needs that asks for no credential.
	VerbNone Verb = iota
	// VerbRead reads keys, files, histories, leases without their ids, feeds.
	VerbRead
	// VerbPublish also acquires, uploads and publishes.
	VerbPublish
	// VerbOperate also rolls back, pins, retires and breaks leases.
	VerbOperate
	// VerbAdmin also sets policies, makes credentials and reads the audit.
	VerbAdmin
)

var verbNames = []string{"none", "read", "publish", "operate", "admin"}

// String returns the verb's name, as in the text of a scope.
func (v Verb) String() string { return verbNames[v] }

// Scope is a verb on the keys under a prefix, as a text "publish:renders/"; the verb alone, as in "read", is for all keys. The prefix "renders/"
// covers the keys below it, "renders" also the key of that very name; neither covers "renders2/x". It is compared byte by byte: nothing in it
// is a wildcard, and letters are what they are. The zero Scope allows nothing.
type Scope struct {
	Verb   Verb
	Prefix string
}

// ParseScope reads the text of a scope. The error is an *Error of kind invalid-request that names the field scopes.
func ParseScope(text string) (Scope, error) {
	name, prefix, limited := strings.Cut(text, ":")
	verb := slices.Index(verbNames, name)
	if verb <= int(VerbNone) {
		return Scope{}, invalid("scopes", "%q begins with no verb; write read, publish, operate or admin, and for some keys only a colon and their prefix, as in publish:renders/", text)
	}
	if !limited {
		return Scope{Verb: Verb(verb)}, nil
	}
	if why := nameFault(strings.TrimSuffix(prefix, "/"), false); why != "" {
		return Scope{}, invalid("scopes", "the prefix of %q %s", text, why)
	}
	return Scope{Verb: Verb(verb), Prefix: prefix}, nil
}

// String returns the text that ParseScope reads.
func (s Scope) String() string {
	if s.Prefix == "" {
		return s.Verb.String()
	}
	return s.Verb.String() + ":" + s.Prefix
}

// MarshalText and UnmarshalText are String and ParseScope, for JSON.
func (s Scope) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the text of a scope.
func (s *Scope) UnmarshalText(text []byte) (err error) {
	*s, err = ParseScope(string(text))
	return err
}

// Scopes is all that a caller may do.
type Scopes []Scope

// ParseScopes reads several, split by commas. A key may contain commas itself: a scope with one in its prefix stands in quotes, as in "publish:a,b/".
func ParseScopes(text string) (Scopes, error) {
	var all Scopes
	for more := true; more; {
		text = strings.TrimSpace(text)
		var part string
		if quoted, err := strconv.QuotedPrefix(text); err == nil && quoted[0] == '"' {
			part, _ = strconv.Unquote(quoted) //nolint:errcheck // It is quoted.
			text = strings.TrimSpace(text[len(quoted):])
			if more = text != ""; more && text[0] != ',' {
				return nil, invalid("scopes", "%q stands behind a scope in quotes; split scopes by commas", text)
			}
			text = strings.TrimPrefix(text, ",")
		} else {
			part, text, more = strings.Cut(text, ",")
			part = strings.TrimSpace(part)
		}
		scope, err := ParseScope(part)
		if err != nil {
			return nil, err
		}
		all = append(all, scope)
	}
	return all, nil
}

// String returns the text that ParseScopes reads: no two lists of scopes have the same.
func (s Scopes) String() string {
	texts := make([]string, len(s))
	for i, scope := range s {
		texts[i] = scope.String()
		if strings.ContainsFunc(texts[i], func(r rune) bool { return r == ',' || r == '"' || unicode.IsSpace(r) }) {
			texts[i] = strconv.Quote(texts[i])
		}
	}
	return strings.Join(texts, ",")
}

// Allow reports whether a verb may be done to a key.
func (s Scopes) Allow(verb Verb, key Key) bool { return s.Reach(verb).Has(key) }

// Reach is the keys to which a verb may be done.
func (s Scopes) Reach(verb Verb) Reach {
	var spans []span
	for _, scope := range s {
		if scope.Verb >= verb && scope.Verb != VerbNone {
			spans = append(spans, spansUnder(scope.Prefix)...)
		}
	}
	return union(spans)
}

// Within reports whether scopes allow nothing beyond what a caller may hand on: those keys on which it has the verb admin.
func (s Scopes) Within(admin Reach) bool {
	return !slices.ContainsFunc(s, func(scope Scope) bool { return !admin.HasPrefix(scope.Prefix) })
}
