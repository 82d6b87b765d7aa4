package e2e

import (
	"bytes"
	"context"
	"fmt"
	"image/png"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// Cases 22 and 23 with real frames: POV-Ray renders a sequence. With one frame missing or empty it is refused with the exact list and
// nothing is current; complete it is published; two frames are rendered again and the others carried over.
func TestCase22RenderedFrames(t *testing.T) {
	t.Parallel()
	store := filepath.Join(t.TempDir(), "blobs")
	s := serve(t, testenv.Postgres(t), "file://"+store)
	const key = "shots/ball"
	scene, err := filepath.Abs("testdata/ball.pov")
	if err != nil {
		t.Fatal(err)
	}
	// It writes frame01.png and so on; -D opens no window, and what it prints is of interest only when it fails.
	const render = `cd "$PAWL_OUT"
povray -D +I"$SCENE" +Oframe.png +W64 +H48 +WT1 "$ANTIALIAS" +KFF10 +SF"$1" +EF"$2" >"$TMPDIR/log" 2>&1 || { cat "$TMPDIR/log"; exit 1; }
`
	run := func(antialias, first, last, after string, flags ...string) *process {
		args := append([]string{"run", "--key", key, "--wait", "30s", "--expect", "frame[01-10].png"}, flags...)
		return start(t, []string{"PAWL_URL=" + s.url, "SCENE=" + scene, "ANTIALIAS=" + antialias, "TMPDIR=" + t.TempDir()}, binary(t),
			append(args, "--", "sh", "-c", render+after, "sh", first, last)...)
	}
	for what, refused := range map[string]*process{
		`missing: "frame07.png"`: run("-A", "1", "10", "rm frame07.png"),
		`empty: "frame03.png"`:   run("-A", "1", "10", ": >frame03.png"),
	} {
		if code := refused.exit(); code != 66 || !strings.Contains(refused.errs.String(), what+"\n") {
			t.Errorf("it exits %d, want 66 with %s", code, what)
		}
	}
	if _, err := get(s.url + "/v1/keys/" + key); err == nil {
		t.Error("there is a current version")
	}

	if code := run("-A", "1", "10", "").exit(); code != 0 {
		t.Fatalf("the complete sequence exits %d", code)
	}
	first := s.frames(key, 3)
	before := objects(t, store)
	if code := run("+A0.1", "3", "4", "", "--reuse-from", "3").exit(); code != 0 {
		t.Fatalf("the second render of two frames exits %d", code)
	}
	if after := objects(t, store); after != before+2 {
		t.Errorf("the store has %d objects after %d, want two more", after, before)
	}
	for path, frame := range s.frames(key, 4) {
		if again := path == "frame03.png" || path == "frame04.png"; again == bytes.Equal(frame, first[path]) {
			t.Errorf("%s: rendered again is %v, but that isn't what its bytes say", path, again)
		}
	}
}

// frames returns the ten frames of a generation, which must be pictures of the right size and is current.
func (s *server) frames(key publish.Key, token publish.Token) map[string][]byte {
	s.t.Helper()
	if p, err := s.api.Pointer(context.Background(), key); err != nil || p.Token != token || p.Files != 10 {
		s.t.Errorf("current is %+v, %v; want ten files of token %d", p, err, token)
	}
	frames := map[string][]byte{}
	for n := 1; n <= 10; n++ {
		path := fmt.Sprintf("frame%02d.png", n)
		body, err := get(s.api.FileURL(key, token, publish.Path(path)))
		if err != nil {
			s.t.Fatal(err)
		}
		picture, err := png.DecodeConfig(bytes.NewReader(body))
		if err != nil || picture.Width != 64 || picture.Height != 48 {
			s.t.Errorf("%s is %+v, %v", path, picture, err)
		}
		frames[path] = body
	}
	return frames
}
