package web

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// query reads the query parameters that a route has. Others, repeated ones, those without a value and broken encodings are refused: a
// misspelt parameter, or a bare "?publish", would otherwise be a wish silently not granted.
func (c *call) query(names ...string) (url.Values, error) {
	values, err := url.ParseQuery(c.Request().URL.RawQuery)
	if err != nil {
		return nil, publish.InvalidField(publish.ErrInvalidRequest, "query", "is not well-formed; percent-encode its values, & and ; too")
	}
	return values, checkQuery(values, names)
}

// formQuery reads the query that a page's form of filters makes. A browser sends its empty fields too: these are left out, and reported, so that
// the page can go on to the address that says the same without them.
func (c *call) formQuery(names ...string) (values url.Values, blank bool, err error) {
	if values, err = url.ParseQuery(c.Request().URL.RawQuery); err != nil {
		return nil, false, publish.InvalidField(publish.ErrInvalidRequest, "query", "is not well-formed; percent-encode its values, & and ; too")
	}
	maps.DeleteFunc(values, func(name string, all []string) bool {
		empty := slices.Contains(names, name) && len(all) == 1 && strings.TrimSpace(all[0]) == ""
		blank = blank || empty
		return empty
	})
	return values, blank, checkQuery(values, names)
}

func checkQuery(values url.Values, names []string) error {
	for name, all := range values {
		if !slices.Contains(names, name) {
			return publish.InvalidField(publish.ErrInvalidRequest, "query", "has a parameter that this route doesn't know: "+strconv.QuoteToASCII(shorten(name)))
		}
		if len(all) > 1 {
			return publish.InvalidField(publish.ErrInvalidRequest, name, "stands twice; send it once")
		}
		if all[0] == "" && !emptyMeansNone(name) {
			return publish.InvalidField(publish.ErrInvalidRequest, name, "has no value; give it one, or leave the parameter out")
		}
	}
	return nil
}

// emptyMeansNone tells the parameters of which the empty text is a value of its own: every key begins with the empty prefix and
// follows the empty name.
func emptyMeansNone(name string) bool {
	return name == "prefix" || name == "after" || name == "delimiter"
}

// shorten bounds a text of the client's that an error repeats.
func shorten(text string) string {
	const most = 40
	if len(text) > most {
		return text[:most] + "..."
	}
	return text
}

// limitOf reads the limit of a page; 0 means that the query has none.
func limitOf(query url.Values) (int, error) {
	text := query.Get("limit")
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, publish.InvalidField(publish.ErrInvalidRequest, "limit", "must be an integer from 1 to "+strconv.Itoa(publish.MaxPageSize))
	}
	return n, nil
}

// waitOf reads a duration such as "55s"; 0 means that the query has none.
func waitOf(query url.Values) (time.Duration, error) {
	text := query.Get("wait")
	if text == "" {
		return 0, nil
	}
	wait, err := time.ParseDuration(text)
	if err != nil || wait < 0 || wait > publish.MaxPointerWait {
		return 0, publish.InvalidField(publish.ErrInvalidRequest, "wait", fmt.Sprintf(`must be a duration from 0s to %s, such as "30s"`, publish.MaxPointerWait))
	}
	return wait, nil
}

// flagOf reads a parameter that is true or false; false when the query doesn't have it.
func flagOf(query url.Values, name string) (bool, error) {
	switch query.Get(name) {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	}
	return false, publish.InvalidField(publish.ErrInvalidRequest, name, "must be true or false")
}
