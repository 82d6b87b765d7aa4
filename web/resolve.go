package web

import (
	"fmt"
	"net/http"

	"github.com/pawlhq/pawl/publish"
)

// resolveAnswer has one entry for each key, in the order that was asked for.
type resolveAnswer struct {
	Keys []publish.Resolved `json:"keys"`
}

// resolve gives the permanent addresses of many keys at one point in time. What is wrong with any of the keys is told of all of them.
func (h *Handler) resolve(c *call) error {
	if _, err := c.query(); err != nil {
		return err
	}
	var names []string
	if err := readJSONWithin(c, maxResolveJSONBytes, members{"keys": &names}); err != nil {
		return err
	}
	var wrong []publish.Field
	keys := make([]publish.Key, len(names))
	for i, name := range names {
		key, why := nameOfKey(name)
		if why != "" {
			wrong = append(wrong, publish.Field{Pointer: fmt.Sprintf("/keys/%d", i), Detail: why})
		}
		keys[i] = key
	}
	if wrong != nil && len(names) <= publish.MaxResolveKeys {
		return publish.InvalidFields(publish.ErrInvalidKey, wrong)
	}
	resolved, err := h.service.Resolve(c.Request().Context(), c.reach(), keys)
	if err != nil {
		return err
	}
	for i := range resolved {
		resolved[i].URL = h.links.resolved(resolved[i])
	}
	return respond(c, http.StatusOK, resolveAnswer{Keys: notNil(resolved)})
}

// nameOfKey reads a key, or says what is wrong with it.
func nameOfKey(name string) (_ publish.Key, why string) {
	key, err := parseKey(name)
	if refusal := refusalOf(err); err != nil && len(refusal.Fields) == 1 {
		return "", refusal.Fields[0].Detail
	}
	return key, ""
}
