package web

import (
	"fmt"
	"strings"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// sentence is a text of the page in which names that others chose stand apart, so that the page can isolate them: one that is written from right to
// left would otherwise turn the words around it.
type sentence []phrase

// phrase is a part of a sentence. Theirs says that it is a name or a text that somebody else chose.
type phrase struct {
	Text   string
	Theirs bool
}

// theirs marks a text that somebody else chose.
type theirs string

// say puts a sentence together from texts, numbers, theirs and sentences. Empty ones leave nothing.
func say(parts ...any) sentence {
	var s sentence
	for _, part := range parts {
		switch part := part.(type) {
		case sentence:
			s = append(s, part...)
		case theirs:
			if part != "" {
				s = append(s, phrase{Text: string(part), Theirs: true})
			}
		default:
			if text := fmt.Sprint(part); text != "" {
				s = append(s, phrase{Text: text})
			}
		}
	}
	return s
}

// and goes on with further parts.
func (s sentence) and(parts ...any) sentence { return append(s, say(parts...)...) }

// who names somebody as he calls himself, "" for nobody knows, and tells whose credential that was, and from where.
func who(name string, actor publish.Actor) sentence {
	s := say(theirs(name))
	if c := actor.Credential; c != "" && c != name && pageHolder+c != name {
		s = s.and(" as ", theirs(c))
	}
	if actor.From != "" {
		s = s.and(" from ", actor.From)
	}
	return s
}

// String is the sentence without its marks.
func (s sentence) String() string {
	var b strings.Builder
	for _, p := range s {
		b.WriteString(p.Text)
	}
	return b.String()
}

// span gives the length of a time for people, in one unit.
func span(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", max(0, d.Milliseconds()))
	}
	return humanAge(d)
}
