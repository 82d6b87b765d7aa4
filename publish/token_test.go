package publish_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/publish"
)

var (
	legalTokens = []string{"1", "7", "1000000001", "9007199254740991"}
	// illegalTokens are those of case 51 and their relatives.
	illegalTokens = []string{
		"0", "-1", "-0", "9007199254740992", "9223372036854775808", "99999999999999999999", "1e3", "1E3", "1.0", "1.5", "007", "01",
		`"7"`, `"007"`, "null", "true", "+1", "0x7", "1_000", " 1", "1 ", "", "NaN", "[1]", "{}", "٣",
	}
)

// TestCase51: a token is a JSON integer from 1 to 2^53-1, in digits alone.
func TestCase51(t *testing.T) {
	t.Parallel()
	for _, text := range legalTokens {
		token, err := publish.ParseToken(text)
		if err != nil || strconv.FormatInt(int64(token), 10) != text {
			t.Errorf("%s: %d, %v", text, token, err)
		}
		var body struct{ Token publish.Token }
		if err := json.Unmarshal([]byte(`{"Token":`+text+`}`), &body); err != nil || body.Token != token {
			t.Errorf("%s in JSON: %d, %v", text, body.Token, err)
		}
		if data, err := json.Marshal(token); err != nil || string(data) != text {
			t.Errorf("%s to JSON: %s, %v", text, data, err)
		}
	}
	for _, text := range illegalTokens {
		_, err := publish.ParseToken(text)
		refusedField(t, text, err, publish.ErrInvalidToken, "token")
		var body struct{ Token publish.Token }
		if err := json.Unmarshal([]byte(`{"Token":`+text+`}`), &body); json.Valid([]byte(`{"Token":`+text+`}`)) && strings.TrimSpace(text) == text && err == nil {
			t.Errorf("%s in JSON became %d", text, body.Token)
		}
	}
}

func TestParseVersion(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"17.1", "1.1", "9007199254740991.9007199254740991"} {
		if version, err := publish.ParseVersion(text); err != nil || version.String() != text {
			t.Errorf("%s: %s, %v", text, version, err)
		}
	}
	for _, text := range []string{"", ".", "17", "17.", ".1", "17.0", "0.1", "17.1.1", "17.01", "-1.1", "1e1.1", "17,1", " 17.1", `"17.1"`, "17.1\n", "9007199254740992.1"} {
		_, err := publish.ParseVersion(text)
		refusedField(t, text, err, publish.ErrInvalidRequest, "version")
	}
}

// TestLeaseIDHides: a lease_id that slips into a log or a message shows nothing of itself (case 50).
func TestLeaseIDHides(t *testing.T) {
	t.Parallel()
	id := publish.NewLeaseID()
	grant := publish.Grant{Key: "k", Token: 7, LeaseID: id}
	var b bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X"} {
		fmt.Fprintf(&b, verb+"\n"+verb+"\n"+verb+"\n"+verb+"\n", id, &id, grant, &grant)
	}
	for _, handler := range []slog.Handler{slog.NewTextHandler(&b, nil), slog.NewJSONHandler(&b, nil)} {
		slog.New(handler).Info("granted", "lease_id", id, slog.Group("g", "lease_id", id))
	}
	_, err := publish.ParseLeaseID(id.Hex() + "0")
	fmt.Fprint(&b, err)
	raw, source := make([]string, 4), make([]string, 4) // The bytes as %v and %#v of an array print them.
	for i := range raw {
		n, err := strconv.ParseUint(id.Hex()[2*i:2*i+2], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		raw[i], source[i] = strconv.FormatUint(n, 10), fmt.Sprintf("%#x", n)
	}
	text := strings.ToLower(b.String())
	for _, secret := range []string{id.Hex(), id.Hex()[:12], strings.Join(raw, " "), strings.Join(source, ", ")} {
		if strings.Contains(text, secret) {
			t.Errorf("%q shows in:\n%s", secret, b.String())
		}
	}
}

func TestLeaseID(t *testing.T) {
	t.Parallel()
	id := publish.NewLeaseID()
	if id.IsZero() || id == publish.NewLeaseID() {
		t.Error("a new lease id is zero, or twice the same")
	}
	data, err := json.Marshal(id)
	var back publish.LeaseID
	if err := errors.Join(err, json.Unmarshal(data, &back)); err != nil || back != id || string(data) != `"`+id.Hex()+`"` {
		t.Errorf("%s became %s: %v", data, back.Hex(), err)
	}
	if upper, err := publish.ParseLeaseID(strings.ToUpper(id.Hex())); err != nil || upper != id {
		t.Errorf("in capitals: %v", err)
	}
	for _, text := range []string{"", "7", strings.Repeat("0", 32), strings.Repeat("g", 32), id.Hex()[:30], id.Hex() + "00", " " + id.Hex()[1:]} {
		if _, err := publish.ParseLeaseID(text); !errors.Is(err, publish.ErrInvalidRequest) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestDigest(t *testing.T) {
	t.Parallel()
	const empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" // SHA-256 of nothing, FIPS 180-4.
	digest, err := publish.ParseDigest(empty)
	if err != nil || digest.String() != empty || digest.IsZero() {
		t.Errorf("%s, %v", digest, err)
	}
	data, err := json.Marshal(digest)
	var back publish.Digest
	if err := errors.Join(err, json.Unmarshal(data, &back)); err != nil || back != digest {
		t.Errorf("%s became %s: %v", data, back, err)
	}
	for _, text := range []string{"", empty[1:], empty + "00", strings.Repeat("g", 64)} {
		if _, err := publish.ParseDigest(text); !errors.Is(err, publish.ErrInvalidRequest) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestTime: times in JSON are RFC 3339 in UTC with milliseconds, from whichever zone they came (case 11).
func TestTime(t *testing.T) {
	t.Parallel()
	for zone, offset := range map[string]int{"UTC": 0, "New York": -5 * 3600, "Kiritimati": 14 * 3600} {
		at := time.Date(2026, 7, 1, 12, 0, 0, 7_999_999, time.UTC).In(time.FixedZone(zone, offset))
		data, err := json.Marshal(publish.Time{Time: at})
		if want := `"2026-07-01T12:00:00.007Z"`; err != nil || string(data) != want {
			t.Errorf("%s: %s, %v, want %s", zone, data, err, want)
		}
		var back publish.Time
		if err := json.Unmarshal(data, &back); err != nil || !back.Equal(at.Truncate(time.Millisecond)) {
			t.Errorf("%s became %s: %v", data, back, err)
		}
	}
}

// FuzzParseToken: an accepted token is the canonical text of an integer in range, and JSON reads it the same.
func FuzzParseToken(f *testing.F) {
	for _, text := range append(illegalTokens, legalTokens...) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		token, err := publish.ParseToken(text)
		var fromJSON publish.Token
		if jsonErr := json.Unmarshal([]byte(text), &fromJSON); (jsonErr == nil) != (err == nil) && strings.TrimSpace(text) == text || err == nil && fromJSON != token {
			t.Fatalf("%q: %d, %v; as JSON %d, %v", text, token, err, fromJSON, jsonErr)
		}
		if err == nil && (token < 1 || token > 1<<53-1 || fmt.Sprint(int64(token)) != text) {
			t.Fatalf("%q became %d", text, token)
		}
	})
}

// FuzzParseVersion: an accepted version prints as it was written.
func FuzzParseVersion(f *testing.F) {
	for _, text := range []string{"17.1", "17", "17.0", "1.1.1", "01.1", "9007199254740991.1", ""} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if version, err := publish.ParseVersion(text); err == nil && (version.String() != text || version.Token < 1 || version.Revision < 1) {
			t.Fatalf("%q became %s", text, version)
		}
	})
}

// FuzzParseLeaseID: an accepted lease id is 32 hex digits, not all of them zero; a refusal and a print never show what was sent.
func FuzzParseLeaseID(f *testing.F) {
	for _, text := range []string{"000102030405060708090a0b0c0d0e0f", "000102030405060708090A0B0C0D0E0F", strings.Repeat("0", 32), strings.Repeat("g", 32), "0001", ""} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		id, err := publish.ParseLeaseID(text)
		if err != nil {
			if len(text) >= 12 && strings.Contains(err.Error(), text) {
				t.Fatalf("%q shows in %v", text, err)
			}
			return
		}
		if id.IsZero() || id.Hex() != strings.ToLower(text) || strings.Contains(fmt.Sprintf("%v %+v %#v %s", id, id, id, err), text) {
			t.Fatalf("%q became %s", text, id.Hex())
		}
	})
}
