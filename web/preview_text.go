package web

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pawlhq/pawl/publish"
)

// Bounds of a text on a page.
const (
	maxLines     = 5000
	maxLineRunes = 2000
)

// Bounds of JSON that is indented. Indentation multiplies: without them nested brackets alone make gigabytes.
const (
	maxIndentBytes = 128 << 10
	maxIndentDepth = 32
)

// textLines splits the head of a text into lines for people; size is the file's. The note says what is cut.
func textLines(head []byte, size int64) (lines []string, note string) {
	cut := int64(len(head)) < size
	if cut {
		head = wholeRunes(head)
		note = shownOf(int64(len(head)), size)
	}
	rest := string(head)
	for rest != "" {
		if len(lines) == maxLines {
			return lines, fmt.Sprintf("The first %d lines are shown.", maxLines)
		}
		var line string
		line, rest, _ = strings.Cut(rest, "\n")
		lines = append(lines, visible(strings.TrimSuffix(line, "\r"), maxLineRunes))
	}
	return lines, note
}

// wholeRunes drops the first bytes of a rune that a cut has left at the end.
func wholeRunes(head []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(head); i++ {
		if last := head[len(head)-i]; utf8.RuneStart(last) {
			if !utf8.FullRune(head[len(head)-i:]) {
				return head[:len(head)-i]
			}
			break
		}
	}
	return head
}

// visible gives at most limit runes of a text as a page may show it: what controls a terminal or reorders other text stands there by
// its name, and bytes that are no UTF-8 as U+FFFD.
func visible(text string, limit int) string {
	var b strings.Builder
	n := 0
	for i, r := range text {
		if n++; n > limit {
			fmt.Fprintf(&b, "… (%d more bytes)", len(text)-i)
			break
		}
		switch {
		case r == '\t':
			b.WriteRune(r)
		case r < ' ':
			b.WriteRune('\u2400' + r) // the picture of the control character
		case r == 0x7f:
			b.WriteRune('\u2421')
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r), r == '\u2028', r == '\u2029':
			fmt.Fprintf(&b, "⟨U+%04X⟩", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// holdsBytes reports whether the beginning of what should be text holds a NUL, which no text has.
func holdsBytes(head []byte) bool { return bytes.IndexByte(head[:min(len(head), hexBytes)], 0) >= 0 }

// looksLikeText reports whether the head of a file of which nothing is known reads as text.
func looksLikeText(head []byte) bool {
	cut := head[:min(len(head), hexBytes)]
	if len(cut) < len(head) {
		cut = wholeRunes(cut)
	}
	if !utf8.Valid(cut) {
		return false
	}
	for _, c := range cut {
		if c < ' ' && c != '\t' && c != '\n' && c != '\r' && c != '\f' && c != 0x1b || c == 0x7f {
			return false
		}
	}
	return true
}

// indented gives JSON that is small and whole in lines; ok is false for every other text.
func indented(text []byte, file publish.File) (lines []byte, ok bool) {
	kind := mediaType(file.ContentType)
	if kind != "application/json" && !strings.HasSuffix(kind, "+json") || int64(len(text)) < file.Size || len(text) > maxIndentBytes || depth(text) > maxIndentDepth {
		return nil, false
	}
	var b bytes.Buffer
	if err := json.Indent(&b, text, "", "  "); err != nil {
		return nil, false // It only claims to be JSON.
	}
	return b.Bytes(), true
}

// depth is how deep the brackets of a JSON text nest.
func depth(text []byte) int {
	now, most, inString := 0, 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '[' || c == '{':
			now++
			most = max(most, now)
		case c == ']' || c == '}':
			now--
		}
	}
	return most
}

// hexLines dumps bytes, 16 a line.
func hexLines(head []byte) []string {
	return strings.Split(strings.TrimSuffix(hex.Dump(head), "\n"), "\n")
}
