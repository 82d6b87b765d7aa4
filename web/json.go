package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"github.com/pawlhq/pawl/publish"
)

// maxJSONBytes bounds a JSON body. That of a publish may be larger: it may name as many files as one publish may expect,
// one by one, by paths of 150 bytes; that of a resolve as many keys as it may name, of the longest, all in escapes.
const (
	maxJSONBytes        = 1 << 20
	maxResolveJSONBytes = 4 << 20
	maxPublishJSONBytes = 16 << 20
)

// respond writes an answer as JSON.
func respond(c echo.Context, status int, answer any) error {
	return respondAs(c, status, echo.MIMEApplicationJSON, answer)
}

func respondAs(c echo.Context, status int, contentType string, answer any) error {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(answer); err != nil {
		return fmt.Errorf("encoding the answer: %w", err)
	}
	c.Response().Header().Set(echo.HeaderContentLength, fmt.Sprint(b.Len()))
	return c.Blob(status, contentType, b.Bytes())
}

// members maps the names of a JSON object's members to where their values go.
type members map[string]any

// name is a text that the rule of names is applied to later, which refuses lost characters as it does everywhere.
type name string

// readJSON reads a JSON object into its members. Each may stand once and may be absent, as may the whole body.
// Whatever else is in the body is refused by name, since a member that is passed over is a wish not granted.
func readJSON(c echo.Context, into members) error { return readJSONWithin(c, maxJSONBytes, into) }

// readJSONWithin is readJSON with a bound of its own, in bytes.
func readJSONWithin(c echo.Context, limit int64, into members) error {
	body, err := readWhole(c.Request(), limit)
	if err != nil || len(bytes.TrimSpace(body)) == 0 {
		return err
	}
	// A form's type is what curl -d says of any body. A real form is no JSON and is refused below.
	kind, _, err := mime.ParseMediaType(c.Request().Header.Get(echo.HeaderContentType))
	if c.Request().Header.Get(echo.HeaderContentType) != "" &&
		(err != nil || kind != echo.MIMEApplicationJSON && kind != echo.MIMEApplicationForm) {
		return publish.InvalidField(publish.ErrInvalidRequest, echo.HeaderContentType, "must be application/json")
	}
	if !utf8.Valid(body) {
		return publish.InvalidField(publish.ErrInvalidRequest, "", "the body is not valid UTF-8")
	}
	return eachMember(body, "", func(name, pointer string, value json.RawMessage) error {
		target, known := into[name]
		if !known {
			return publish.InvalidField(publish.ErrInvalidRequest, pointer, "is not a member of this request; remove it")
		}
		return setMember(pointer, value, target)
	})
}

// readWhole reads a body of at most limit bytes, or as many as the setting allows when that is less.
func readWhole(r *http.Request, limit int64) ([]byte, error) {
	if b, ours := r.Body.(*body); ours && b.maxJSON > 0 {
		limit = min(limit, b.maxJSON)
	}
	tooLarge := &publish.Error{Code: publish.ErrTooLarge, Detail: fmt.Sprintf("the body may have at most %d bytes", limit), Limit: limit}
	if r.ContentLength > limit {
		return nil, tooLarge
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, limit+1))
	if err != nil {
		return nil, &publish.Error{Code: publish.ErrLengthMismatch, Detail: "the body is not complete; send it again", Cause: err}
	}
	if int64(len(body)) > limit {
		return nil, tooLarge
	}
	return body, nil
}

// eachMember walks over the members of exactly one JSON object. Unlike encoding/json it sees a name that stands
// twice, and takes names by their exact letters.
func eachMember(data []byte, parent string, visit func(name, pointer string, value json.RawMessage) error) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	if first, err := decoder.Token(); err != nil || first != json.Delim('{') {
		return notJSON(parent, err)
	}
	seen := map[string]bool{}
	for decoder.More() {
		token, err := decoder.Token()
		name, isName := token.(string)
		if err != nil || !isName {
			return notJSON(parent, err)
		}
		pointer := parent + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(shorten(name))
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return notJSON(parent, err)
		}
		if seen[name] {
			return publish.InvalidField(publish.ErrInvalidRequest, pointer, "stands twice; send it once")
		}
		seen[name] = true
		if err := visit(name, pointer, value); err != nil {
			return err
		}
	}
	if _, err := decoder.Token(); err != nil {
		return notJSON(parent, err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return publish.InvalidField(publish.ErrInvalidRequest, parent, "something follows the JSON object; remove it")
	}
	return nil
}

func notJSON(pointer string, err error) error {
	detail := "must be a JSON object"
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
		detail = fmt.Sprintf("is not well-formed JSON at byte %d", syntax.Offset)
	} else if err != nil {
		detail = "is not well-formed JSON"
	}
	if pointer == "" {
		detail = "the body " + detail
	}
	return publish.InvalidField(publish.ErrInvalidRequest, pointer, detail)
}

// setMember decodes one value. No error repeats the value: it may be a lease_id.
func setMember(pointer string, value json.RawMessage, target any) error {
	wrong := func(why string) error { return publish.InvalidField(publish.ErrInvalidRequest, pointer, why) }
	if string(value) == "null" {
		return wrong("must not be null; leave it out")
	}
	switch target := target.(type) {
	case *map[string]string:
		*target = map[string]string{}
		return eachMember(value, pointer, func(name, pointer string, value json.RawMessage) error {
			var text string
			if err := setMember(pointer, value, &text); err != nil {
				return err
			}
			(*target)[name] = text
			return nil
		})
	case *[]string:
		return setList(pointer, value, target)
	case *[]name:
		return setList(pointer, value, target)
	case *[]int:
		if err := json.Unmarshal(value, target); err != nil {
			return wrong("must be a list of integers")
		}
		return nil
	case *time.Duration:
		var text string
		if err := json.Unmarshal(value, &text); err != nil {
			return wrong(`must be a duration as a string, such as "30s"`)
		}
		duration, err := time.ParseDuration(text)
		if err != nil {
			return wrong(`must be a duration such as "30s"`)
		}
		*target = duration
		return nil
	}
	if err := json.Unmarshal(value, target); err != nil {
		var refusal *publish.Error
		if errors.As(err, &refusal) && len(refusal.Fields) == 1 {
			return wrong(refusal.Fields[0].Detail)
		}
		return wrong("must be " + kindOf(target))
	}
	if text, isText := target.(*string); isText && strings.ContainsRune(*text, utf8.RuneError) {
		return wrong("has U+FFFD or half a surrogate pair, which stand for lost characters; give the original text")
	}
	return nil
}

// setList decodes a list of texts, each as setMember does.
func setList[T string | name](pointer string, value json.RawMessage, target *[]T) error {
	var values []json.RawMessage
	if err := json.Unmarshal(value, &values); err != nil {
		return publish.InvalidField(publish.ErrInvalidRequest, pointer, "must be a list of strings")
	}
	*target = make([]T, len(values))
	for i, value := range values {
		if err := setMember(fmt.Sprintf("%s/%d", pointer, i), value, &(*target)[i]); err != nil {
			return err
		}
	}
	return nil
}

// kindOf names the JSON type that a target takes.
func kindOf(target any) string {
	kind := reflect.TypeOf(target).Elem()
	for kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	switch kind.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int64:
		return "an integer in digits alone"
	default:
		return "a string"
	}
}
