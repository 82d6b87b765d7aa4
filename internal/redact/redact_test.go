package redact

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

const (
	someCredential = "pawl_c_0123456789ABCDEFGHIJabcdefghijKLMNOPQR"
	someLease      = "00112233445566778899aabbccddeeff"
)

// What looks like a secret is hidden, though nobody has named it.
func TestWhatLooksLikeASecretIsHidden(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"sent " + someCredential + ".":                       "sent pawl_c_[hidden].",
		"lease_id=" + someLease + " x":                       "lease_id=[hidden] x",
		`{"lease_id":"` + strings.ToUpper(someLease) + `"}`:  `{"lease_id":"[hidden]"}`,
		`body="{\"lease_id\": \"` + someLease + `\"}"`:       `body="{\"lease_id\": \"[hidden]\"}"`,
		"%22lease_id%22%3A%22" + someLease:                   "%22lease_id%22%3A%22[hidden]",
		"map[Pawl-Lease:[" + someLease + "]]":                "map[Pawl-Lease:[[hidden]]]",
		"PAWL_LEASE_ID='" + someLease + "'":                  "PAWL_LEASE_ID='[hidden]'",
		"Authorization: Bearer abc":                          "Authorization: Bearer [hidden]",
		`map[Authorization:[Basic bGVhc2U6eA==] Accept:[x]]`: `map[Authorization:[Basic [hidden]] Accept:[x]]`,
		`{"Authorization":["Bearer abc"]}`:                   `{"Authorization":["Bearer [hidden]"]}`,
		`"{\"authorization\":\"abc\"}"`:                      `"{\"authorization\":\"[hidden]\"}"`,
		"the token (Bearer eyJhbGciOiJSUzI1NiJ9.eyJ9.c2ln)":  "the token (Bearer [hidden])",
		"Authorization: AWS4-HMAC-SHA256 Credential=AK/2026/aws4_request, SignedHeaders=host, Signature=" + strings.Repeat("ab", 32): "Authorization: AWS4-HMAC-SHA256 [hidden], SignedHeaders=host, Signature=[hidden]",

		"https://s3/b/k?X-Amz-Credential=AK%2F2026&X-Amz-Date=2026&X-Amz-Security-Token=a%2Bb%3D&X-Amz-Signature=0a": "https://s3/b/k?X-Amz-Credential=[hidden]&X-Amz-Date=2026&X-Amz-Security-Token=[hidden]&X-Amz-Signature=[hidden]",
		`x\u0026X-Amz-Signature=0a\u0026y=1`:                              `x\u0026X-Amz-Signature=[hidden]\u0026y=1`,
		"X-Amz-Security-Token: abc/+=":                                    "X-Amz-Security-Token: [hidden]",
		"it is eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJtaWEifQ.c2ln, no?":         "it is [hidden], no?",
		`{"access_token":"abc","id_token": "d.e","expires_in":1}`:         `{"access_token":"[hidden]","id_token": "[hidden]","expires_in":1}`,
		"code=x&code_verifier=abc&client_secret=d%2Be&grant_type=y":       "code=x&code_verifier=[hidden]&client_secret=[hidden]&grant_type=y",
		"GET /pawl/sign-in/callback?code=abc&state=d HTTP/1.1":            "GET /pawl/sign-in/callback?[hidden] HTTP/1.1",
		`"url":"https://h/sign-in/callback?code=abc\u0026state=d","next"`: `"url":"https://h/sign-in/callback?[hidden]","next"`,
		"dial postgres://me:hush@db/pawl":                                 "dial postgres://me:[hidden]@db/pawl",
		"dial postgres://me:h@sh%40@db/pawl":                              "dial postgres://me:[hidden]@db/pawl",
		`"redis://:h\"ush@cache"`:                                         `"redis://:[hidden]@cache"`,
		"http://lease:" + someLease + "@h/x":                              "http://lease:[hidden]@h/x",
		"host=db password=hush user=me":                                   "host=db password=[hidden] user=me",
		"host=db password = 'hu sh' user=me":                              "host=db password = [hidden] user=me",
		"host=db sslpassword='hush":                                       "host=db sslpassword=[hidden]",
		"postgres://db/pawl?password=hush&x":                              "postgres://db/pawl?password=[hidden]&x",
	} {
		if got := Text(text, nil); got != want {
			t.Errorf("%s\n became %s,\n want   %s", text, got, want)
		}
		if again := Text(want, nil); again != want {
			t.Errorf("%s\n became %s", want, again)
		}
	}
}

// What is no secret stays as it is.
func TestHarmlessTextStays(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"key=thumbs/x@y.png operation=publish token=17",
		"sha256=" + strings.Repeat("0123456789abcdef", 4),
		"object=pawl/k/-/17/" + someLease + "/out.png",
		"request_id=BJZYSJKNRXR3G76WTZEGJRL3JD client=10.0.0.1",
		"http://127.0.0.1:8484/k/x@y http://[::1]:8484/a@b http://h:1?q=x@y mailto:a@b",
		"postgres://me@db/pawl", "pawl_t_k3j4h5k3j4h5k3j4", "credential=ci", "wrong password: try again",
		"Authorization is missing", "the lease of mia@ws-12 ran out", "route=/v1/keys/{key}/-/lease",
		"X-Amz-Date=20261130T000000Z&X-Amz-Expires=900", "a bearer token, as it is called", "signature=none", "",
		"/issuers/0/sign_in/client_secret_file: open /etc/x: no such file", "route=/sign-in/callback", "the id_token of mia", "eyJ is how they begin",
	} {
		if got := Text(text, nil); got != text {
			t.Errorf("%s\n became %s", text, got)
		}
	}
}

type secretive struct{ text string }

func (s secretive) String() string { return s.text }

type valuer struct{ text string }

func (v valuer) LogValue() slog.Value {
	return slog.GroupValue(slog.Any("inner", errors.New(v.text)), slog.String("text", v.text))
}

// No kind of attribute takes a secret past the log, in either form of it.
func TestSecretsInEveryKindOfAttribute(t *testing.T) {
	t.Parallel()
	const known = "ca\"na\\ry\nпароль /&?@ 1"
	for _, secret := range []string{known, someCredential} {
		for _, format := range []string{"text", "json"} {
			var out strings.Builder
			to := NewWriter(&out, func() []string { return []string{known} })
			log := slog.New(slog.NewTextHandler(to, nil))
			if format == "json" {
				log = slog.New(slog.NewJSONHandler(to, nil))
			}
			log.With("with", secret).WithGroup(secret).Warn(secret, secret, secret) //nolint:sloglint // A message that holds a secret is what this is about.
			log.Warn("kinds",
				"error", fmt.Errorf("dialing %w", errors.New(secret)), "quoted", fmt.Errorf("dialing %q", secret), "stringer", secretive{secret},
				slog.Group("group", "any", []string{secret}, "struct", struct{ Text string }{secret}, "map", map[string]any{secret: secret}),
				"valuer", valuer{secret}, "bytes", []byte(secret), "raw", json.RawMessage(`{"x":`+mustJSON(t, secret)+`}`),
				"url", &url.URL{Scheme: "https", User: url.UserPassword("me", secret), Host: "h", RawQuery: url.Values{"q": {secret}}.Encode()},
				"header", http.Header{"X": {secret}}, "pointer", &secret)
			slog.NewLogLogger(log.Handler(), slog.LevelWarn).Printf("http: %s %q", secret, secret)
			text := out.String()
			for _, form := range append(formsOf(known), someCredential, "пароль", "ca\\\"na", "Y2EibmF", url.QueryEscape("пароль")) {
				if strings.Contains(text, form) {
					t.Errorf("%s: %q shows in %s", format, form, text)
				}
			}
			if n := strings.Count(text, hidden); n < 15 {
				t.Errorf("%s: %d secrets were hidden: %s", format, n, text)
			}
		}
	}
}

func mustJSON(t *testing.T, text string) string {
	t.Helper()
	raw, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// secretPlaces are where a secret may stand that nobody has named; %s is the secret, in hex.
var secretPlaces = []string{
	"pawl_c_%s", "lease_id=%.32s", `"lease_id":"%.32s"`, "Pawl-Lease: %.32s", "Authorization: Bearer %s", `Authorization:[Basic %s]`, "authorization=%s",
	"bearer %s", "X-Amz-Signature=%s", "x-amz-security-token=%s", "X-Amz-Credential%%3D%s", "://me:%s@host", "password=%s", "password='%s'",
}

// Whatever else stands in a line, no secret shows, known or not, and a line that was redacted stays as it is.
func FuzzRedact(f *testing.F) {
	for i := range secretPlaces {
		f.Add("msg=\"failed\" ", "hush", " at=http://me:pw@host/x", uint8(i))
	}
	f.Add("aaaa", "aaa[", "hidden]", uint8(0))
	f.Add("://a:b", "b c", "c@", uint8(3))
	f.Add("[hidden]", "n]ab", "ab", uint8(7))
	f.Add("password='", "\\", "'", uint8(12))
	f.Fuzz(func(t *testing.T, before, known, after string, place uint8) {
		sum := sha256.Sum256([]byte(before + "\x00" + after))
		unknown := hex.EncodeToString(sum[:])
		format := secretPlaces[int(place)%len(secretPlaces)]
		if strings.Contains(format, ".32s") {
			unknown = unknown[:32]
		}
		text := before + known + " " + fmt.Sprintf(format, unknown) + " " + known + after
		clean := Text(text, []string{known})
		if strings.Contains(clean, unknown) {
			t.Errorf("%q shows in %q", unknown, clean)
		}
		if len(formsOf(known)) > 0 && !strings.ContainsAny(known, "[]") && strings.Contains(clean, known) {
			t.Errorf("%q shows in %q", known, clean)
		}
		if strings.ContainsAny(known, "[]") {
			return // It may overlap the word that hides it.
		}
		if again := Text(clean, []string{known}); again != clean {
			t.Errorf("%q\n became %q,\n then   %q", text, clean, again)
		}
	})
}

// A line of the log that has no secret costs about as much as to look for the needles.
func BenchmarkRedact(b *testing.B) {
	to := NewWriter(io.Discard, func() []string { return []string{"postgres://me:hush@db/pawl", "hush", "access-key", "secret-key"} })
	line := []byte("time=2026-11-30T09:17:33.278Z level=INFO msg=request method=POST route=/v1/keys/{key}/-/generations/{token}/publish " +
		"key=renders/shot-010/beauty status=200 ms=2 bytes=406 client=127.0.0.1 request_id=RUCHZQPI53VQV6OQ2EGSITM7T4\n")
	for b.Loop() {
		_, _ = to.Write(line)
	}
}
