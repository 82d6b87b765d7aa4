package web

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/publish"
)

var simpleRange = regexp.MustCompile(`^bytes=([0-9]{1,9})-([0-9]{1,9})?$`)

// FuzzRange: whatever Range says, a file is answered whole, in one part or as not satisfiable; and a simple range gets just its bytes.
func FuzzRange(f *testing.F) {
	for _, seed := range []string{
		"bytes=0-4", "bytes=-3", "bytes=5-", "bytes=-0", "bytes=9-2", "bytes=0-0,2-3", "BYTES = 1-2", "lines=1-2", "bytes=99999999999999999999-", "bytes=1-99999999999999999999", "bytes=", "bytes=-",
	} {
		f.Add(seed, uint8(10))
	}
	f.Add("bytes=0-", uint8(0))
	f.Fuzz(func(t *testing.T, text string, size uint8) {
		content := bytes.Repeat([]byte("0123456789"), 26)[:size]
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header["Range"] = []string{text}
		w := httptest.NewRecorder()
		http.ServeContent(w, oneRange(r, int64(size)), "f", time.Time{}, bytes.NewReader(content))
		body := w.Body.Bytes()
		switch w.Code {
		case http.StatusOK:
			if !bytes.Equal(body, content) {
				t.Fatalf("%q of %d bytes: all is %q", text, size, body)
			}
		case http.StatusPartialContent:
			if !bytes.Contains(content, body) || strings.Contains(w.Header().Get("Content-Type"), "multipart") {
				t.Fatalf("%q of %d bytes: %v, %q", text, size, w.Header(), body)
			}
		case http.StatusRequestedRangeNotSatisfiable:
		default:
			t.Fatalf("%q of %d bytes: status %d", text, size, w.Code)
		}
		simple := simpleRange.FindStringSubmatch(text)
		if simple == nil {
			return
		}
		from, _ := strconv.Atoi(simple[1])
		to := int(size) - 1
		if simple[2] != "" {
			last, _ := strconv.Atoi(simple[2])
			if last < from {
				return // Not a range: to be ignored.
			}
			to = min(to, last)
		}
		switch {
		case from >= int(size) && w.Code != http.StatusRequestedRangeNotSatisfiable && size > 0:
			t.Fatalf("%q of %d bytes: status %d", text, size, w.Code)
		case from < int(size) && (w.Code != http.StatusPartialContent || !bytes.Equal(body, content[from:to+1])):
			t.Fatalf("%q of %d bytes: status %d, %q", text, size, w.Code, body)
		}
	})
}

// FuzzDigestHeader: a digest that is taken from a header stands in it, and is read from what it is written as.
func FuzzDigestHeader(f *testing.F) {
	good := reprDigest(publish.Digest{1, 2, 3})
	for _, seed := range []string{
		good, "SHA-256" + good[7:], "md5=:AAAA:, " + good, good + ", " + good, good + ";q=1", "sha-256=::", "sha256=" + good[8:], good + "," + reprDigest(publish.Digest{9}), "", ",", reprDigest(publish.Digest{}),
	} {
		f.Add(seed, "")
	}
	f.Add(good, good)
	f.Fuzz(func(t *testing.T, repr, content string) {
		header := http.Header{}
		for name, value := range map[string]string{"Repr-Digest": repr, "Content-Digest": content} {
			if value != "" {
				header[name] = []string{value}
			}
		}
		promised, err := promisedDigest(header)
		if err != nil || promised.IsZero() {
			if err == nil && len(header) > 0 {
				t.Fatalf("%v promises nothing", header)
			}
			return
		}
		for name := range header {
			if !strings.Contains(header.Get(name), promised.ByteSequence()) {
				t.Fatalf("%v promises %s", header, promised)
			}
		}
		if again, why := sha256Of(reprDigest(promised)); again != promised {
			t.Fatalf("%s is read as %s: %s", promised, again, why)
		}
	})
}

// FuzzEntityTags: a version that is taken from a tag is written as that tag.
func FuzzEntityTags(f *testing.F) {
	for _, seed := range []string{`"17.1"`, `W/"17.1"`, `"17.1", "18.2"`, "*", `"17"`, "17.1", `"17.1`, `w/"1.1"`, ` "9007199254740991.1" `, `"1.1",*`, ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if version, ok := taggedVersion(text); ok {
			if tag := pointerTag(version); strings.TrimPrefix(strings.TrimSpace(text), "W/") != tag {
				t.Fatalf("%q is %v", text, version)
			}
		}
		header := http.Header{"If-None-Match": {text}, "If-Match": {text}}
		seen, wildcard := seenVersions(header)
		for _, version := range seen {
			if !strings.Contains(text, pointerTag(version)) {
				t.Fatalf("%q has %v", text, version)
			}
		}
		if wildcard && !strings.Contains(text, "*") {
			t.Fatalf("%q is any", text)
		}
		if match, _, err := preconditions(header); err == nil {
			t.Fatalf("%q is both the version %v and any", text, match)
		}
	})
}

// FuzzBasic: a lease_id that is taken from a request stands in one of its two headers, and what is refused isn't repeated.
func FuzzBasic(f *testing.F) {
	const id = "00112233445566778899aabbccddeeff"
	for _, user := range []string{"lease", "pawl", "Lease", "", "le:ase"} {
		f.Add("Basic "+base64.StdEncoding.EncodeToString([]byte(user+":"+id)), "")
		f.Add("basic "+base64.StdEncoding.EncodeToString([]byte(user+":"+id)), id)
	}
	f.Add("Bearer x", "zz")
	f.Add("Basic !!", strings.ToUpper(id))
	f.Fuzz(func(t *testing.T, authorization, lease string) {
		r := httptest.NewRequest(http.MethodPut, "/", nil)
		r.Header["Authorization"] = []string{authorization}
		if lease != "" {
			r.Header[headerLease] = []string{lease}
		}
		got, err := fileLeaseID(r)
		_, password, _ := r.BasicAuth()
		if err != nil {
			for _, secret := range []string{password, lease} {
				if len(secret) >= 32 && strings.Contains(err.Error(), secret) {
					t.Fatalf("%v repeats %q", err, secret)
				}
			}
			return
		}
		if !got.IsZero() && !strings.EqualFold(got.Hex(), lease) && !strings.EqualFold(got.Hex(), password) {
			t.Fatalf("%s is in neither %q nor %q", got.Hex(), lease, password)
		}
	})
}

// FuzzClientAddress: the client is the connection, unless that is a trusted proxy: then it is the rightmost entry that is none.
func FuzzClientAddress(f *testing.F) {
	for _, seed := range [][2]string{
		{"192.0.2.1:5", "10.0.0.1"},
		{"10.0.0.1:5", "6.6.6.6, 192.0.2.7, 10.0.0.2"},
		{"10.0.0.1:5", "junk, 10.0.0.2"},
		{"[::ffff:10.0.0.1]:5", "[2001:db8::1]:80"},
		{"10.0.0.1:5", ""},
		{"@", "1.2.3.4"},
		{"10.0.0.1:5", "fe80::1%eth0"},
		{"10.0.0.1:5", ",,1.2.3.4,"},
	} {
		f.Add(seed[0], seed[1])
	}
	proxies, err := ParseProxies("10.0.0.0/8")
	if err != nil {
		f.Fatal(err)
	}
	h := &Handler{proxies: proxies}
	f.Fuzz(func(t *testing.T, remote, forwarded string) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr, r.Header[headerForwardedFor] = remote, []string{forwarded}
		got, want := h.clientAddress(r), parseAddress(remote)
		entries := strings.Split(forwarded, ",")
		slices.Reverse(entries)
		for _, entry := range entries {
			next := parseAddress(strings.TrimSpace(entry))
			if !proxies[0].Contains(want) || !next.IsValid() {
				break
			}
			want = next
		}
		if got != want || got.Is4In6() || got.Zone() != "" {
			t.Fatalf("%q, %q: %s, want %s", remote, forwarded, got, want)
		}
		if got.IsValid() && parseAddress(got.String()) != got {
			t.Fatalf("%s isn't read as it is written", got)
		}
	})
}

// FuzzHosts: a host has one form, which is read as itself; and so have lists of hosts and of proxies.
func FuzzHosts(f *testing.F) {
	for _, seed := range []string{
		"pawl.example.com:443", "LOCALHOST.", "[::1]:80", "::ffff:127.0.0.1", "127.0.0.1.", "a..b", "[fe80::1%25eth0]", "a, b,10.0.0.0/8", "fd00::/8,192.0.2.7", "10.1.2.3/8", "xn--a.b", "::ffff:10.0.0.0/104", "",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if host, ok := hostName(text); ok {
			if again, ok := canonicalHost(host); !ok || again != host {
				t.Fatalf("%q is %q, which is %q, %t", text, host, again, ok)
			}
		}
		if hosts, err := ParseHosts(text); err == nil {
			if again, err := ParseHosts(strings.Join(hosts, ",")); err != nil || !slices.Equal(again, hosts) {
				t.Fatalf("%q is %q, which is %q, %v", text, hosts, again, err)
			}
		}
		proxies, err := ParseProxies(text)
		if err != nil {
			return
		}
		var written []string
		for _, proxy := range proxies {
			written = append(written, proxy.String())
		}
		if again, err := ParseProxies(strings.Join(written, ",")); err != nil || !slices.EqualFunc(again, proxies, func(a, b netip.Prefix) bool { return a == b }) {
			t.Fatalf("%q is %v, which is %v, %v", text, proxies, again, err)
		}
	})
}
