package e2e

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// entry is a file of a set: its path and its bytes.
type entry struct{ path, body string }

// makes publishes a set under a key in as many revisions as there are sets, the last of which seals it. The first file is the primary one.
func (s *server) makes(key publish.Key, revisions ...[]entry) {
	s.t.Helper()
	ctx, lease := s.t.Context(), s.acquire(key, "maker")
	for n, files := range revisions {
		for _, file := range files {
			upload := publish.UploadRequest{Grant: lease.Grant(), Path: publish.Path(file.path), Size: int64(len(file.body)), Body: strings.NewReader(file.body)}
			if _, err := s.api.Upload(ctx, upload); err != nil {
				s.t.Fatal(err)
			}
		}
		last := n == len(revisions)-1
		if _, err := s.api.Publish(ctx, publish.PublishRequest{
			Grant: lease.Grant(), Final: last, Release: last, Primary: publish.Path(files[0].path), AllowEmpty: true, Metadata: map[string]string{"take": string(rune('a' + n))},
		}); err != nil {
			s.t.Fatal(err)
		}
	}
}

// exhibit adds to what the gallery has one key for each way in which a page can show one, under "ex/".
func exhibit(t *testing.T, s *server) {
	t.Helper()
	ctx := t.Context()
	grey := func(level uint8) string {
		var b bytes.Buffer
		picture := image.NewGray(image.Rect(0, 0, 64, 48))
		for x := range 32 {
			picture.SetGray(x, x%48, color.Gray{Y: level})
		}
		if err := png.Encode(&b, picture); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	film, err := exec.CommandContext(ctx, "ffmpeg", "-loglevel", "error", "-f", "lavfi", "-i", "testsrc=s=64x48:d=0.2", "-c:v", "libvpx", "-f", "webm", "-").Output()
	if err != nil {
		t.Fatalf("ffmpeg: %v", err)
	}
	silence := "RIFF\x24\x04\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00\x40\x1f\x00\x00\x01\x00\x08\x00data\x00\x04\x00\x00" + strings.Repeat("\x80", 1024)
	for _, one := range []struct {
		key   publish.Key
		files []entry
	}{
		{"ex/picture", []entry{{"p.png", grey(200)}}},
		{"ex/picture", []entry{{"p.png", grey(90)}}},
		{"ex/video", []entry{{"v.webm", string(film)}}},
		{"ex/audio", []entry{{"a.wav", silence}}},
		{"ex/hls", []entry{{"index.m3u8", "#EXTM3U\n#EXT-X-ENDLIST\n"}, {"1.ts", "segment"}}},
		{"ex/text", []entry{{"t.txt", strings.Repeat("one line\n", 40) + "the end\n"}}},
		{"ex/text", []entry{{"t.txt", strings.Repeat("one line\n", 39) + "another line\nthe end\n" + strings.Repeat("wide ", 200)}}},
		{"ex/json", []entry{{"j.json", `{"frames": [1, 2, 3], "by": "nightly"}`}}},
		{"ex/csv", []entry{{"c.csv", "shot,frames,hours\n010,240,31.5\n020,96\n"}}},
		{"ex/hex", []entry{{"h.bin", "\x00\x01\xfe\xff and some text that goes on"}}},
		{"ex/empty", []entry{{"e.txt", ""}}},
		{"ex/set", []entry{{"a.png", grey(10)}, {"deep/down/b.txt", "b"}, {"c.csv", "c"}, {"gone.txt", "x"}}},
		{"ex/set", []entry{{"a.png", grey(10)}, {"deep/down/b.txt", "b2"}, {"c.csv", "c"}, {"new.txt", "x"}}},
		{"ex/pinned", []entry{{"f.txt", "pinned"}}},
		{"ex/back", []entry{{"f.txt", "good"}}},
		{"ex/back", []entry{{"f.txt", "bad"}}},
		{"ex/given-up", []entry{{"f.txt", "1"}}},
		{"ex/given-up", []entry{{"f.txt", "2"}}},
	} {
		s.makes(one.key, one.files)
	}
	s.makes("ex/revised", []entry{{"f.txt", "first"}}, []entry{{"f.txt", "second"}})
	if _, err := s.api.Pin(ctx, publish.PinRequest{Key: "ex/pinned", Reason: "client review until Friday", By: "tom"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.api.Rollback(ctx, publish.RollbackRequest{Key: "ex/back", To: publish.Version{Token: 1}, Reason: "it flickers", By: "tom"}); err != nil {
		t.Fatal(err)
	}
	open := s.acquire("ex/open", "worker-b")
	if err := s.upload(open, "so far"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.api.Publish(ctx, publish.PublishRequest{Grant: open.Grant()}); err != nil {
		t.Fatal(err)
	}
	if err := s.upload(s.acquire("ex/unpublished", "worker-b"), "not yet"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.api.Acquire(ctx, publish.AcquireRequest{Key: "ex/expired", Holder: "worker-a", TTL: time.Second}); err != nil {
		t.Fatal(err)
	}
	s.awaitExpiry(t, "ex/expired")
	setPolicy(t, s, publish.Policy{Prefix: "ex/given-up", FenceMode: publish.FenceAccepted, KeepFor: seconds(1)})
	setPolicy(t, s, publish.Policy{Prefix: "wall", FenceMode: publish.FenceGranted, MaxTTL: seconds(7200)})
	collectUntil(t, s, 1)
}
