package publish_test

import (
	"mime"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/publish"
)

// TestCase41: files that are sent without a type, or with a lie, get the right type from the table.
func TestCase41(t *testing.T) {
	t.Parallel()
	for extension, want := range map[string]string{
		".m3u8": "application/vnd.apple.mpegurl", ".ts": "video/mp2t", ".m4s": "video/iso.segment", ".mpd": "application/dash+xml",
		".glb": "model/gltf-binary", ".b3dm": "application/octet-stream", ".wasm": "application/wasm", ".exr": "image/x-exr",
		".avif": "image/avif", ".safetensors": "application/octet-stream", ".png": "image/png", ".svg": "image/svg+xml",
	} {
		for _, claimed := range []string{"", want, "text/html", "nonsense", "application/x-www-form-urlencoded"} {
			for _, path := range []string{"f" + extension, "F" + strings.ToUpper(extension), "dir.html/a.b" + extension, extension} {
				if got := publish.ContentType(publish.Path(path), claimed); got != want {
					t.Errorf("%s claimed as %q is %s, want %s", path, claimed, got, want)
				}
			}
		}
	}
}

// TestClaimedType: for other extensions the claim stands if it is a media type, in one form.
func TestClaimedType(t *testing.T) {
	t.Parallel()
	const octets = "application/octet-stream"
	for claimed, want := range map[string]string{
		"": octets, "image/x-foo": "image/x-foo", "Image/X-Foo": "image/x-foo", "text/plain;charset=UTF-8": "text/plain; charset=UTF-8",
		" text/plain ; a=\"b c\"": `text/plain; a="b c"`, "text": octets, "text/": octets, "/plain": octets, "text/plain; charset": octets, "a b/c": octets,
		"text/plain\r\nSet-Cookie: a=b": octets, "text/plain; a=\"\x00\"": "text/plain; a*=utf-8''%00", "text/plain; a=\"b\tc\"": octets, "text/" + strings.Repeat("x", 200): octets,
	} {
		for _, path := range []publish.Path{"f", "f.unknown", "png", "dir.png/f"} {
			got := publish.ContentType(path, claimed)
			if got != want {
				t.Errorf("%s claimed as %q is %q, want %q", path, claimed, got, want)
			}
			if strings.ContainsAny(got, "\r\n\t\x00") {
				t.Errorf("%q would break the form of a manifest", got)
			}
		}
	}
}

// FuzzContentType: whatever was claimed, a file has a media type that fits into a header as it is, and that stays the same when it is claimed again.
func FuzzContentType(f *testing.F) {
	for _, claimed := range []string{
		"image/png", "text/html; charset=utf-8", "TEXT/Plain", "a/b; x=\"y\\\"z\"", "a/b; x*=utf-8''%0d%0a", "a/b\r\nSet-Cookie: c", "a/b;", "/", "a", "", "multipart/form-data; boundary=x",
	} {
		f.Add("f", claimed)
		f.Add("f.png", claimed)
	}
	f.Fuzz(func(t *testing.T, name, claimed string) {
		file := publish.Path(name)
		got := publish.ContentType(file, claimed)
		if kind, _, err := mime.ParseMediaType(got); err != nil || !strings.Contains(kind, "/") || len(got) > 1000 {
			t.Fatalf("%q for %q became %q: %v", claimed, name, got, err)
		}
		if strings.ContainsFunc(got, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Fatalf("%q for %q became %q", claimed, name, got)
		}
		if again := publish.ContentType(file, got); again != got && len(got) <= 200 {
			t.Fatalf("%q for %q became %q, and that %q", claimed, name, got, again)
		}
	})
}
