package web

import (
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// pageFuncs is what templates call.
var pageFuncs = template.FuncMap{
	"bytes": humanBytes, "exact": exactBytes, "count": grouped, "plural": plural, "wrap": wrapName, "short": shortDigest,
	"ago": humanAgo, "left": humanLeft, "stamp": stampTime, "clock": clockTime, "who": who,
}

// humanBytes gives a size for people, in binary units.
func humanBytes(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	size, unit := float64(n)/1024, 0
	for size >= 1024 && unit < 4 {
		size, unit = size/1024, unit+1
	}
	return fmt.Sprintf("%.1f %s", size, [...]string{"KiB", "MiB", "GiB", "TiB", "PiB"}[unit])
}

// exactBytes gives a size to the byte.
func exactBytes(n int64) string { return plural(n, "byte") }

// grouped writes a number with commas between its thousands.
func grouped(n int64) string {
	digits := strconv.FormatInt(n, 10)
	first := 0
	if n < 0 {
		first = 1
	}
	for at := len(digits) - 3; at > first; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}

// plural counts things whose name takes an s.
func plural(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return grouped(n) + " " + thing + "s"
}

// wrapName writes a key, a prefix or a path so that a long one breaks behind its slashes.
func wrapName(name any) template.HTML {
	text := template.HTMLEscapeString(fmt.Sprint(name))
	return template.HTML(strings.ReplaceAll(text, "/", "/<wbr>")) //nolint:gosec // The text is escaped, and what is put in has no part of it.
}

// shortDigest is the beginning of a digest, enough to tell a few from each other.
func shortDigest(digest publish.Digest) string { return digest.String()[:12] }

// humanAge gives the greatest unit of a span of time.
func humanAge(age time.Duration) string {
	switch {
	case age < time.Minute:
		return fmt.Sprintf("%d s", max(0, int(age.Seconds())))
	case age < time.Hour:
		return fmt.Sprintf("%d min", int(age.Minutes()))
	case age < 48*time.Hour:
		return fmt.Sprintf("%d h", int(age.Hours()))
	default:
		return fmt.Sprintf("%d days", int(age.Hours())/24)
	}
}

// humanAgo says how long ago a time was.
func humanAgo(at publish.Time) string { return humanAge(time.Since(at.Time)) + " ago" }

// humanLeft says how long it is until a time, or since then.
func humanLeft(at publish.Time) string {
	if left := time.Until(at.Time); left > 0 {
		return "in " + humanAge(left)
	}
	return humanAgo(at)
}

// stampTime writes a time for programs, to the millisecond.
func stampTime(at publish.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

// clockTime writes a time for people, to the second. The page's script turns it into the time of the reader's zone.
func clockTime(at publish.Time) string { return at.UTC().Format("2006-01-02 15:04:05 UTC") }

// originOf is how the client reaches this server, as far as the server can know. The page's script puts the true one in its place. It is
// told to nobody but who has sent the request, so without trusted proxies any proxy's word is taken.
func (h *Handler) originOf(r *http.Request) string {
	scheme := "http"
	if h.overTLS(r) || len(h.proxies) == 0 && r.Header.Get(headerForwardedProto) == "https" {
		scheme = "https"
	}
	return scheme + "://" + r.Host
}

// shellWord writes a text as one word of a shell's command line.
func shellWord(text string) string {
	plain := func(c rune) bool {
		return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("-._/:@%+,", c)
	}
	if text != "" && strings.IndexFunc(text, func(c rune) bool { return !plain(c) }) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
