package e2e

import (
	"bytes"
	"flag"
	"fmt"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/internal/testenv"
)

// pictures is where `make screenshots` wants them; without it they are taken all the same, of a story whose
// pictures are tiny, and thrown away.
var pictures = flag.String("pictures", "", "folder that takes the pictures of the README")

// pictureBytes bounds all pictures of the README together.
const pictureBytes = 1_000_000

// TestScreenshots takes the pictures of the README: a `pawl dev` of its own is filled with the day of a small studio by the story's commands.
func TestScreenshots(t *testing.T) {
	t.Parallel()
	tab := testenv.Browser(t)
	_, url := dev(t, devData(t))
	scene, err := filepath.Abs("testdata/still.pov")
	if err != nil {
		t.Fatal(err)
	}
	script, err := filepath.Abs("testdata/story.sh")
	if err != nil {
		t.Fatal(err)
	}
	dir, scale := *pictures, "100"
	if dir == "" {
		dir, scale = t.TempDir(), "20"
	}
	story := exec.CommandContext(t.Context(), "sh", script)
	story.Dir = t.TempDir()
	story.Env = append(os.Environ(), "PAWL_URL="+url, "SCENE="+scene, "SCALE="+scale, "PATH="+filepath.Dir(binary(t))+":"+os.Getenv("PATH"))
	if out, err := story.CombinedOutput(); err != nil {
		t.Fatalf("the story ended with %v:\n%s", err, out)
	}
	for name, path := range map[string]string{
		"browse": "/?sort=age", "key": "/k/shots/010/comp", "history": "/k/shots/010/comp/-/history", "compare": "/k/shots/010/comp/-/compare",
	} {
		for _, width := range []int64{1280, 390} {
			tab.Resize(width, map[int64]int64{1280: 800, 390: 844}[width])
			for _, look := range []string{"light", "dark"} {
				tab.Prefer(look)
				tab.Open(url + path)
				awaitPage(t, tab, `document.readyState === "complete" && [...document.images].every((i) => i.complete) && (document.querySelector(".live")?.dataset.is ?? "on") === "on"`)
				shot := filepath.Join(t.TempDir(), "shot.png")
				if err := os.WriteFile(shot, tab.Picture(), 0o600); err != nil {
					t.Fatal(err)
				}
				// A palette of 256 colours, not dithered, makes them a third as large.
				file := filepath.Join(dir, fmt.Sprintf("%s-%s-%d.png", name, look, width))
				if out, err := exec.CommandContext(t.Context(), "vips", "pngsave", shot, file, "--palette", "--dither", "0", "--compression", "9", "--effort", "10").CombinedOutput(); err != nil {
					t.Fatalf("vips: %v: %s", err, out)
				}
			}
		}
	}
	checkPictures(t, dir, 16)
	tab.CheckConsole()
}

// checkPictures checks that a folder has so many pictures, each of the width in its name, and that they are small together.
func checkPictures(t *testing.T, dir string, want int) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*-*-*.png"))
	if err != nil || len(files) != want {
		t.Fatalf("%s has %d pictures, %v; want %d", dir, len(files), err, want)
	}
	all := 0
	for _, file := range files {
		picture, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all += len(picture)
		config, err := png.DecodeConfig(bytes.NewReader(picture))
		if err != nil || !strings.HasSuffix(file, fmt.Sprintf("-%d.png", config.Width)) {
			t.Errorf("%s is %d pixels wide, %v", file, config.Width, err)
		}
	}
	if all > pictureBytes {
		t.Errorf("the pictures have %d bytes together, want at most %d", all, pictureBytes)
	}
}

// The pictures that the README shows are there, and all that are there are shown, in both looks.
func TestReadmePictures(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, match := range regexp.MustCompile(`(?:src|srcset)="(docs/pictures/[^"]+)"`).FindAllStringSubmatch(string(readme), -1) {
		shown[filepath.Base(match[1])] = true
		if _, err := os.Stat("../../" + match[1]); err != nil {
			t.Error(err)
		}
	}
	checkPictures(t, "../../docs/pictures", len(shown))
	if len(shown) != 16 {
		t.Errorf("the README shows %d pictures, want 16", len(shown))
	}
}
