package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/publish/publishtest"
)

// refusing is a store that answers a look-up of the pointer "code" with an error of that kind.
type refusing struct{ publish.PointerStore }

func (refusing) Pointer(_ context.Context, key publish.Key) (publish.Pointer, error) {
	return publish.Pointer{}, &publish.Error{Code: publish.Code(key), Detail: "as the test wants it", Key: key, Token: 17, AcceptedToken: 18}
}

// Every kind of error crosses HTTP unchanged, through the real server, and so does one that only a newer server knows.
func TestEveryKindCrosses(t *testing.T) {
	t.Parallel()
	server := serve(refusing{publishtest.NewPointers()})
	t.Cleanup(server.Close)
	c := connect(t, server.URL, client.Options{RetryFor: -1})
	kinds := append(publish.Kinds(), publish.Code("of-tomorrow").Kind())
	for _, kind := range kinds {
		_, err := c.Pointer(t.Context(), publish.Key(kind.Code))
		refusal, ok := errors.AsType[*publish.Error](err)
		if !errors.Is(err, kind.Code) || !ok {
			t.Errorf("%s became %v", kind.Code, err)
			continue
		}
		for _, other := range kinds {
			if other.Code != kind.Code && errors.Is(err, other.Code) {
				t.Errorf("%s is a %s as well", kind.Code, other.Code)
			}
		}
		// A 5xx of the server's own tells its facts to the log alone.
		if kind.Status != http.StatusInternalServerError && (refusal.Token != 17 || refusal.AcceptedToken != 18 || refusal.Detail != "as the test wants it") {
			t.Errorf("%s lost its facts: %+v", kind.Code, refusal)
		}
	}
}

// A newer server's kinds keep their names and whether they may be repeated, whatever their status.
func TestNewerServer(t *testing.T) {
	t.Parallel()
	for _, retryable := range []bool{false, true} {
		asked := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked++
			if retryable && asked == 2 {
				_, _ = io.WriteString(w, `{"key":"k","token":1,"revision":1}`)
				return
			}
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusTeapot)
			_ = json.NewEncoder(w).Encode(map[string]any{"code": "of-tomorrow", "detail": "a new rule", "retryable": retryable, "unheard_of": []int{1}})
		}))
		t.Cleanup(server.Close)
		_, err := connect(t, server.URL, client.Options{RetryPause: 1}).Pointer(t.Context(), "k")
		switch {
		case retryable && (err != nil || asked != 2):
			t.Errorf("it wasn't repeated: %v after %d requests", err, asked)
		case !retryable && (!errors.Is(err, publish.Code("of-tomorrow")) || err.Error() != "of-tomorrow: a new rule" || asked != 1):
			t.Errorf("got %v after %d requests", err, asked)
		}
	}
}

// A key that holds "/-/" is refused, and not taken for another resource of a shorter key.
func TestKeyEndsWhereItEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t, client.Options{})
	ship(t, r.Client, key, "A", "made by A")
	for _, name := range []publish.Key{key + "/-/generations/1", key + "/-", "-/" + key} {
		if got, err := r.Pointer(t.Context(), name); !errors.Is(err, publish.ErrInvalidKey) {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
}

// Case 32: a name in the form that a Mac gives is refused with the cure, as a key and as a path.
func TestCase32DecomposedNames(t *testing.T) {
	t.Parallel()
	const decomposed, composed = "cafe\u0301.png", "caf\u00e9.png"
	r := newRig(t, client.Options{})
	work := func(path publish.Path) func(context.Context, *client.Lease) error {
		return func(ctx context.Context, lease *client.Lease) error {
			_, err := lease.Upload(ctx, path, strings.NewReader("pixels"))
			return err
		}
	}
	for _, test := range []struct {
		key  publish.Key
		path publish.Path
		want error
	}{
		{"thumbs/" + composed, composed, nil},
		{"thumbs/" + composed, decomposed, publish.ErrInvalidPath},
		{"thumbs/" + decomposed, composed, publish.ErrInvalidKey},
	} {
		err := r.Run(t.Context(), test.key, work(test.path))
		if !errors.Is(err, test.want) || test.want != nil && !strings.Contains(err.Error(), "NFC") {
			t.Errorf("%+q, %+q: got %v", test.key, test.path, err)
		}
	}
}
