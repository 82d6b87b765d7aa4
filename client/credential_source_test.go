package client

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/publish"
)

// A credential that changes is asked for anew, also for the repetition of a request.
func TestCredentialSource(t *testing.T) {
	t.Parallel()
	f := newFake(t, refuse(publish.Unavailable("Postgres", nil)))
	tokens := []string{"one", "two", ""}
	asked := 0
	c := f.client(t, Options{Credential: "not this one", CredentialSource: func() (string, error) {
		if asked == len(tokens) {
			return "", errors.New("no more of them")
		}
		asked++
		return tokens[asked-1], nil
	}})
	_, err := c.Lease(t.Context(), "a")
	if err == nil || !strings.Contains(err.Error(), "credential: no more of them") {
		t.Errorf("the call failed with %v", err)
	}
	var sent []string
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, request := range f.requests {
		sent = append(sent, strings.Join(request.Header[http.CanonicalHeaderKey("Authorization")], "+"))
	}
	if got := strings.Join(sent, ","); got != "Bearer one,Bearer two," {
		t.Errorf("sent were %q", got)
	}
}
