// Package redact blots secrets out of text that people will read, such as the lines of a log.
package redact

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// hidden stands where a secret was.
const hidden = "[hidden]"

// maxForms bounds for how many secrets their forms are remembered.
const maxForms = 200

// Writer blots secrets out of the finished lines of a log. It is a writer below the slog.Handler and not another handler around it, because only
// there nothing can pass by: a handler would have to look into every kind of attribute (errors, groups, LogValuers, what fmt and encoding/json make of
// a struct), and would see neither what a library prints by another way nor what it hides in a type of its own. The price is that a secret may stand
// there in an escaped form; so those forms are looked for, too. It may be used from many goroutines at once.
type Writer struct {
	to      io.Writer
	secrets func() []string

	mu    sync.Mutex
	forms map[string][]string // of secrets that were met before
}

// NewWriter makes a Writer of the lines that go to a writer. secrets is asked for the known ones at each line; it may be called concurrently.
func NewWriter(to io.Writer, secrets func() []string) *Writer {
	return &Writer{to: to, secrets: secrets, forms: map[string][]string{}}
}

// Write writes one line, or several, without their secrets. slog's handlers give it whole lines.
func (w *Writer) Write(line []byte) (int, error) {
	secrets := w.secrets()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.forms) > maxForms {
		clear(w.forms)
	}
	var forms []string
	for _, secret := range secrets {
		known, found := w.forms[secret]
		if !found {
			known = formsOf(secret)
			w.forms[secret] = known
		}
		forms = append(forms, known...)
	}
	if _, err := io.WriteString(w.to, blot(string(line), forms)); err != nil {
		return 0, err
	}
	return len(line), nil
}

// Text replaces known secrets, and what looks like one, in a text.
func Text(text string, secrets []string) string {
	var forms []string
	for _, secret := range secrets {
		forms = append(forms, formsOf(secret)...)
	}
	return blot(text, forms)
}

// formsOf returns how a secret may stand in a line: as it is, in a URL, as bytes in JSON, and quoted by fmt, JSON or a handler, or by two of them. Secrets of fewer than four characters would
// also hit what is no secret, and the word that hides others can't be hidden.
func formsOf(secret string) []string {
	if len(secret) < 4 || strings.Contains(hidden, secret) {
		return nil
	}
	quote := func(text string) string {
		quoted := strconv.Quote(text)
		return quoted[1 : len(quoted)-1]
	}
	forms := []string{
		secret, url.QueryEscape(secret), url.PathEscape(secret), url.UserPassword("", secret).String()[1:], base64.StdEncoding.EncodeToString([]byte(secret)),
	}
	once := []string{quote(secret)}
	if text, err := json.Marshal(secret); err == nil {
		once = append(once, string(text[1:len(text)-1])) // It escapes what means something in HTML, too.
	}
	for _, text := range once {
		forms = append(forms, text, quote(text))
	}
	slices.Sort(forms)
	return slices.Compact(forms)
}

// looksSecret is one way in which a secret shows that nobody has told us of. Its only group is the secret. A line without any of the needles, in lower case, has
// none of it: most lines have none, and the expressions cost more.
type looksSecret struct {
	needles []string
	pattern *regexp.Regexp
}

// looksSecrets are such ways. What stands before a secret may be quoted, once or twice. Each takes a hidden secret for a part of what it hides, so that
// a line that was redacted stays as it is.
var looksSecrets = []looksSecret{
	// A credential of Pawl: pawl_, kind, random part and checksum.
	{[]string{"pawl_"}, regexp.MustCompile(`pawl_[a-z]_([0-9A-Za-z]{38,})`)},
	// A lease_id under its name, whatever stands between them.
	{
		[]string{"lease_id", "lease-id", "leaseid", "pawl-lease"},
		regexp.MustCompile(`(?i)(?:lease[_-]?id|pawl-lease)(?:%[0-9a-f]{2}|[^0-9a-z]){1,12}([0-9a-f]{32,})`),
	},
	{
		[]string{"authorization"},
		regexp.MustCompile(`(?i)authorization["'\\\]]*\s*[:=][\s"'\\\[]*?(?:(?:bearer|basic|digest|negotiate|aws4-hmac-sha256)\s+)?((?:\[hidden\]|[^\s"'\\\[\],;}])+)`),
	},
	{[]string{"bearer"}, regexp.MustCompile(`(?i)\bbearer\s+([0-9a-z._~+/-]{20,}=*)`)},
	// What makes a signed address of the store good for something.
	{
		[]string{"x-amz-"},
		regexp.MustCompile(`(?i)x-amz-(?:signature|credential|security-token)["'\\\]]*\s*(?:%3d|[:=])[\s"'\\\[]*?((?:\[hidden\]|[^\s"'\\\[\]<>&,;}])+)`),
	},
	{[]string{"signature="}, regexp.MustCompile(`(?i)\bsignature=([0-9a-f]{64})`)},
	// A JSON Web Token, what else shows who somebody is to an issuer or by one, and an issuer's answer on the way to this server.
	{[]string{"eyj"}, regexp.MustCompile(`\b(eyJ[0-9A-Za-z_-]{8,}\.[0-9A-Za-z_-]{8,}\.[0-9A-Za-z_-]+)`)},
	{
		[]string{"code_verifier", "client_secret", "id_token", "access_token"},
		regexp.MustCompile(`(?i)(?:code_verifier|client_secret|id_token|access_token)["'\\\]]*\s*(?:%3d|[:=])[\s"'\\\[]*?((?:\[hidden\]|[^\s"'\\\[\]<>&,;}])+)`),
	},
	{[]string{"sign-in/callback?"}, regexp.MustCompile(`sign-in/callback\?((?:\[hidden\]|\\u0026|[^\s"'\\\[\]])+)`)},
	// The password of a URL, and that of an address of Postgres in its key=value form.
	{[]string{"://"}, regexp.MustCompile(`://[^\s/?#@:"'\\]*:((?:[^\s/?#"'\\]|\\[^nrtu])+)@`)},
	{
		[]string{"password"},
		regexp.MustCompile(`(?i)password\s*(?:=|%3d)\s*('(?:[^'\\]|\\.)*'|'?(?:\[hidden\]|[^\s"'\\\[\]&,;}])+)`),
	},
}

// blot hides all secrets of a text, and again what only then looks like one, until it stays as it is. What it leaves is shorter each time but for a secret that
// overlaps the word itself, so the end comes soon.
func blot(text string, forms []string) string {
	for range 16 {
		next := blotOnce(text, forms)
		if next == text {
			break
		}
		text = next
	}
	return text
}

// span is a part of a text.
type span struct{ from, to int }

func blotOnce(text string, forms []string) string {
	var spans []span
	for _, form := range forms {
		for from := 0; ; from++ {
			i := strings.Index(text[from:], form)
			if i < 0 {
				break
			}
			from += i
			spans = append(spans, span{from, from + len(form)})
		}
	}
	lower := strings.ToLower(text)
	for _, looks := range looksSecrets {
		if !slices.ContainsFunc(looks.needles, func(needle string) bool { return strings.Contains(lower, needle) }) {
			continue
		}
		for _, match := range looks.pattern.FindAllStringSubmatchIndex(text, -1) {
			spans = append(spans, span{match[2], match[3]})
		}
	}
	if spans == nil {
		return text
	}
	// They are found in the text as it came, and joined where they overlap: what is left of one secret behind another would show a part of it.
	slices.SortFunc(spans, func(a, b span) int { return a.from - b.from })
	var clean strings.Builder
	done := 0
	for i := 0; i < len(spans); {
		whole := spans[i]
		for i++; i < len(spans) && spans[i].from <= whole.to; i++ {
			whole.to = max(whole.to, spans[i].to)
		}
		clean.WriteString(text[done:whole.from])
		clean.WriteString(hidden)
		done = whole.to
	}
	clean.WriteString(text[done:])
	return clean.String()
}
