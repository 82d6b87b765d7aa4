package publish

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestParseEffectName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"n", "-", "~", "...", ".a", "a.", "A0._~:@+=,-", strings.Repeat("x", MaxEffectNameBytes)} {
		if got, err := ParseEffectName(name); err != nil || string(got) != name {
			t.Errorf("%q: got %q, %v", name, got, err)
		}
	}
	for r := rune(0); r < 256; r++ {
		legal := strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._~:@+=,-", r)
		if _, err := ParseEffectName("a" + string(r) + "b"); (err == nil) != legal {
			t.Errorf("%q: %v", r, err)
		}
	}
	for name, why := range map[string]string{
		"": "is empty", ".": "lost in URLs", "..": "lost in URLs", strings.Repeat("x", MaxEffectNameBytes+1): "shorten it",
		"a/b": "replace it", "a\xff": "replace it", "\u212a": "replace it", "n\n": "replace it",
	} {
		_, err := ParseEffectName(name)
		var refusal *Error
		if !errors.As(err, &refusal) || refusal.Code != ErrInvalidRequest || len(refusal.Fields) != 1 ||
			refusal.Fields[0].Pointer != "name" || !strings.Contains(refusal.Detail, why) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// What isn't known of a pending effect is absent.
func TestPendingEffectJSON(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(Effect{Key: "k", Name: "n", IdempotencyKey: "p-n", State: EffectPending, FirstToken: 1, Token: 1})
	const want = `{"key":"k","name":"n","idempotency_key":"p-n","state":"pending",` +
		`"first_token":1,"first_at":"0001-01-01T00:00:00.000Z","token":1,"asked_at":"0001-01-01T00:00:00.000Z"}`
	if err != nil || string(text) != want {
		t.Errorf("got %s, %v", text, err)
	}
}
