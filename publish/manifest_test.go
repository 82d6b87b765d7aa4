package publish_test

import (
	"crypto/sha256"
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pawlhq/pawl/publish"
)

// TestManifestDigest holds the form of a manifest: other programs compute it too, so it can't change.
func TestManifestDigest(t *testing.T) {
	t.Parallel()
	if got, want := publish.ManifestDigest(nil), publish.Digest(sha256.Sum256([]byte("pawl-manifest-1\n"))); got != want {
		t.Errorf("the empty manifest is %s, want %s", got, want)
	}
	files := []publish.File{
		{Path: "b/ä.png", Size: 12, SHA256: publish.Digest{0xab}, ContentType: "image/png"},
		{Path: "a b", Size: 0, SHA256: publish.Digest{0xcd}, ContentType: "text/plain; charset=utf-8"},
		{Path: "B", Size: 1 << 40, SHA256: publish.Digest{0xef}, ContentType: "application/octet-stream"},
	}
	zeros := strings.Repeat("0", 62)
	text := "pawl-manifest-1\n" +
		"ef" + zeros + "\t1099511627776\tapplication/octet-stream\tB\n" +
		"cd" + zeros + "\t0\ttext/plain; charset=utf-8\ta b\n" +
		"ab" + zeros + "\t12\timage/png\tb/ä.png\n"
	want := publish.Digest(sha256.Sum256([]byte(text)))
	if got := publish.ManifestDigest(files); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if files[0].Path != "b/ä.png" {
		t.Error("the caller's slice was sorted")
	}
}

// Computed file by file the digest is the same, and a listing in another order has none.
func TestManifestHash(t *testing.T) {
	t.Parallel()
	files := []publish.File{{Path: "B", Size: 1}, {Path: "a", SHA256: publish.Digest{7}}, {Path: "a/b", ContentType: "x/y"}}
	m := publish.NewManifestHash()
	for i, f := range files {
		m.Add(f)
		if got, err := m.Digest(); err != nil || got != publish.ManifestDigest(files[:i+1]) {
			t.Errorf("after %d files: %s, %v", i+1, got, err)
		}
	}
	for _, again := range []publish.Path{"a/b", "a", ""} {
		m.Add(publish.File{Path: again})
		if _, err := m.Digest(); err == nil {
			t.Errorf("%q after a/b has a digest", again)
		}
	}
}

// TestManifestDigestProperty: the order of files makes no difference, every fact of one does.
func TestManifestDigestProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		file := rapid.Custom(func(t *rapid.T) publish.File {
			return publish.File{
				Path:        publish.Path(rapid.StringMatching(`[a-c ]{1,3}(/[a-c]{1,2})?`).Draw(t, "path")),
				Size:        rapid.Int64Range(0, 1<<42).Draw(t, "size"),
				SHA256:      sha256.Sum256([]byte(rapid.String().Draw(t, "content"))),
				ContentType: rapid.SampledFrom([]string{"image/png", "text/plain"}).Draw(t, "type"),
			}
		})
		files := rapid.SliceOfNDistinct(file, 1, 8, func(f publish.File) publish.Path { return f.Path }).Draw(t, "files")
		digest := publish.ManifestDigest(files)
		if shuffled := rapid.Permutation(files).Draw(t, "shuffled"); publish.ManifestDigest(shuffled) != digest {
			t.Fatal("another order gives another digest")
		}
		changed := slices.Clone(files)
		one := &changed[rapid.IntRange(0, len(files)-1).Draw(t, "changed")]
		switch rapid.IntRange(0, 4).Draw(t, "fact") {
		case 0:
			one.Path += "x"
		case 1:
			one.Size++
		case 2:
			one.SHA256[31] ^= 1
		case 3:
			one.ContentType += "x"
		case 4:
			changed = changed[1:]
		}
		if publish.ManifestDigest(changed) == digest {
			t.Fatalf("%+v and %+v have the same digest", files, changed)
		}
	})
}

// TestPublishRequest: what a publish may say is checked before any store is asked.
func TestPublishRequest(t *testing.T) {
	t.Parallel()
	over, below := int64(publish.MaxToken)+1, int64(-1)
	service, r := &publish.Service{}, newRig(t) // Asking a store of service would panic.
	for name, req := range map[string]publish.PublishRequest{
		"reversed range":        {Expect: []string{"a.[2-1]"}},
		"metadata too large":    {Metadata: map[string]string{"a": strings.Repeat("x", publish.MaxMetadataBytes)}},
		"metadata without name": {Metadata: map[string]string{"": "x"}},
		"metadata with NUL":     {Metadata: map[string]string{"a": "x\x00"}},
		"metadata not UTF-8":    {Metadata: map[string]string{"a": "caf\xe9"}},
		"metadata name":         {Metadata: map[string]string{"a\n": "x"}},
		"source above":          {SourceRevision: &over},
		"source below":          {SourceRevision: &below},
		"both preconditions":    {IfMatch: &publish.Version{Token: 1, Revision: 1}, IfNoneMatch: true},
	} {
		if _, err := service.Publish(t.Context(), req); !errors.Is(err, publish.ErrInvalidRequest) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := r.UploadAndPublish(t.Context(), r.upload("content"), req); !errors.Is(err, publish.ErrInvalidRequest) || len(r.blobs.Names()) != 0 {
			t.Errorf("%s, with upload: %v, objects %v", name, err, r.blobs.Names())
		}
	}
}
