package publish_test

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/publish"
)

// TestKinds holds the table of codes to the contract: statuses as documented, each code once, each explained.
func TestKinds(t *testing.T) {
	t.Parallel()
	statuses := map[publish.Code]int{
		publish.ErrInvalidKey: 400, publish.ErrInvalidPath: 400, publish.ErrInvalidToken: 400, publish.ErrInvalidRequest: 400,
		publish.ErrDigestMismatch: 400, publish.ErrLengthMismatch: 400, publish.ErrUnauthorized: 401, publish.ErrForbidden: 403, publish.ErrNotFound: 404, publish.ErrMethodNotAllowed: 405,
		publish.ErrStaleToken: 409, publish.ErrGenerationSealed: 409, publish.ErrGenerationIncomplete: 409, publish.ErrOlderSource: 409,
		publish.ErrLeaseLost: 410, publish.ErrGenerationCollected: 410, publish.ErrPreconditionFailed: 412, publish.ErrTooLarge: 413,
		publish.ErrRangeNotSatisfiable: 416, publish.ErrUnknownToken: 422, publish.ErrLeaseHeld: 423, publish.ErrLeaseRequired: 428, publish.ErrRateLimited: 429,
		publish.ErrInternal: 500, publish.ErrUnavailable: 503, publish.ErrOutcomeUnknown: 503, publish.ErrQuotaExceeded: 507,
		publish.ErrTokenExhausted: 507,
	}
	seen := map[publish.Code]bool{}
	last := 0
	for _, kind := range publish.Kinds() {
		if seen[kind.Code] {
			t.Errorf("%s stands in the table twice", kind.Code)
		}
		seen[kind.Code] = true
		if want, ok := statuses[kind.Code]; ok && kind.Status != want {
			t.Errorf("%s has status %d, want %d", kind.Code, kind.Status, want)
		}
		if kind.Status < last || kind.Title == "" || !strings.HasSuffix(kind.Explanation, ".") || kind.Code.Kind() != kind {
			t.Errorf("%+v is out of order or not described", kind)
		}
		last = kind.Status
	}
	for code := range statuses {
		if !seen[code] {
			t.Errorf("%s is not in the table", code)
		}
	}
	for _, code := range []publish.Code{publish.ErrStaleToken, publish.ErrLeaseLost, publish.ErrGenerationSealed, publish.ErrUnknownToken} {
		if code.Kind().Retryable {
			t.Errorf("%s tells a fenced worker to go on", code)
		}
	}
	if kind := publish.Code("of-a-newer-server").Kind(); kind.Status != 500 || kind.Code != "of-a-newer-server" || kind.Retryable {
		t.Errorf("an unlisted code is %+v", kind)
	}
}

func TestErrorUnwraps(t *testing.T) {
	t.Parallel()
	var err error = &publish.Error{Code: publish.ErrLengthMismatch, Detail: "cut short", Cause: io.ErrUnexpectedEOF}
	if !errors.Is(err, publish.ErrLengthMismatch) || !errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, publish.ErrDigestMismatch) {
		t.Errorf("%v is not what it is made of", err)
	}
	for _, part := range []string{"length-mismatch", "cut short", "unexpected EOF"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q lacks %q", err, part)
		}
	}
}

// TestErrorSaysEachFieldOnce: the detail of an error about one field is that field's.
func TestErrorSaysEachFieldOnce(t *testing.T) {
	t.Parallel()
	one := publish.InvalidField(publish.ErrInvalidKey, "key", "is empty; give one")
	if got, want := one.Error(), "invalid-key: key: is empty; give one"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	two := &publish.Error{Code: publish.ErrInvalidRequest, Detail: "two fields are wrong", Fields: []publish.Field{{Pointer: "/a", Detail: "x"}, {Pointer: "/b", Detail: "y"}}}
	if got, want := two.Error(), "invalid-request: two fields are wrong (/a: x) (/b: y)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestErrorJSON: an error crosses JSON with its facts, without what is for the log alone.
func TestErrorJSON(t *testing.T) {
	t.Parallel()
	refusal := publish.Error{
		Code: publish.ErrStaleToken, Detail: "stale", Key: "k", Operation: "publish", Token: 17, AcceptedToken: 19, GrantedToken: 20,
		Holder: "b", Repeat: 2, OverrunMillis: 9, Next: "acquire", Worker: "the late one", Cause: errors.New("dsn"),
	}
	data, err := json.Marshal(refusal)
	want := `{"code":"stale-token","detail":"stale","key":"k","operation":"publish","token":17,"accepted_token":19,"granted_token":20,` +
		`"holder":"b","repeat":2,"overrun_ms":9,"next":"acquire"}`
	if err != nil || string(data) != want {
		t.Fatalf("got  %s, %v\nwant %s", data, err, want)
	}
	var back publish.Error
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	refusal.Worker, refusal.Cause = "", nil
	if diff := cmp.Diff(refusal, back); diff != "" {
		t.Error(diff)
	}
	for _, code := range publish.Kinds() { // Without any facts: nothing is null, zero or refused when read back.
		data, err := json.Marshal(publish.Error{Code: code.Code})
		if want := `{"code":"` + string(code.Code) + `"}`; err != nil || string(data) != want {
			t.Errorf("%s, %v, want %s", data, err, want)
		}
	}
}
