package e2e

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// halves is a picture whose left half has a grey of its own and whose right half is white.
func halves(t *testing.T, grey uint8) string {
	t.Helper()
	picture := image.NewGray(image.Rect(0, 0, 640, 400))
	draw.Draw(picture, picture.Bounds(), image.White, image.Point{}, draw.Src)
	draw.Draw(picture, image.Rect(0, 0, 320, 400), image.NewUniform(color.Gray{Y: grey}), image.Point{}, draw.Src)
	var b bytes.Buffer
	if err := png.Encode(&b, picture); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Two pictures are compared by a slider that a mouse or the keyboard moves, by blinking, which stops when it is asked to, and by their difference.
func TestPicturesAreCompared(t *testing.T) {
	t.Parallel()
	s, tab := serve(t, testenv.Postgres(t), directory(t)), testenv.Browser(t)
	s.makes("k", []entry{{"p.png", halves(t, 200)}})
	s.makes("k", []entry{{"p.png", halves(t, 90)}})
	tab.Resize(1280, 1200)
	tab.Open(s.url + "/k/k/-/compare")
	awaitPage(t, tab, `[...document.querySelectorAll(".pair img")].filter((i) => i.complete && i.naturalWidth).length === 2`)

	// grey is what stands at a part of the width of the picture, from 0 to 1.
	grey := func(part float64) uint8 {
		t.Helper()
		at := eval[[]float64](t, tab, fmt.Sprintf(`(() => { const r = document.querySelector(".pair img").getBoundingClientRect(); return [r.left + %g * r.width, r.top + r.height / 2] })()`, part))
		shown, err := png.Decode(bytes.NewReader(tab.Picture()))
		if err != nil {
			t.Fatal(err)
		}
		return color.GrayModel.Convert(shown.At(int(at[0]), int(at[1]))).(color.Gray).Y
	}
	near := func(part float64, want uint8, what string) {
		t.Helper()
		if got := grey(part); max(got, want)-min(got, want) > 3 {
			t.Errorf("%s: the grey is %d, want %d", what, got, want)
		}
	}

	press(t, tab, "[value=slider]")
	eval[bool](t, tab, `{ const s = document.querySelector(".slide"); s.value = 25; s.dispatchEvent(new Event("input")) } true`)
	near(0.15, 200, "before the slider")
	near(0.35, 90, "behind the slider")
	eval[bool](t, tab, `{
		const pair = document.querySelector(".pair"), { left, width } = pair.getBoundingClientRect();
		pair.dispatchEvent(new PointerEvent("pointermove", { buttons: 1, clientX: left + width * 0.4 }));
		pair.dispatchEvent(new PointerEvent("pointermove", { buttons: 0, clientX: left }));
	} true`)
	near(0.35, 200, "before where the mouse has drawn the slider")
	near(0.45, 90, "behind where the mouse has drawn the slider")

	const hidden = `getComputedStyle(document.querySelector(".pair figure + figure")).visibility === "hidden"`
	press(t, tab, "[value=blink]")
	awaitPage(t, tab, hidden)
	awaitPage(t, tab, "!("+hidden+")")
	awaitPage(t, tab, hidden)
	press(t, tab, "[name=blinking]")
	if eval[bool](t, tab, hidden) {
		t.Error("blinking that was stopped leaves the picture before")
	}
	if n := eval[int](t, tab, `new Promise((done) => {
		let n = 0;
		new MutationObserver((all) => (n += all.length)).observe(document.querySelector(".pair"), { attributes: true });
		setTimeout(() => done(n), 1500);
	})`); n != 0 {
		t.Errorf("blinking that was stopped has blinked %d times", n)
	}

	press(t, tab, "[value=difference]")
	near(0.25, 110, "the difference of what differs")
	near(0.75, 0, "the difference of what is the same")
	tab.CheckConsole()
}

// A folder that is dropped keeps the paths of its files, also of folders in it.
func TestFolderIsDropped(t *testing.T) {
	t.Parallel()
	s, tab := serve(t, testenv.Postgres(t), directory(t)), testenv.Browser(t)
	folder := filepath.Join(t.TempDir(), "site")
	want := map[string]string{"site/index.html": "<p>", "site/a/b.css": "p{}", "site/a/deep/c d.txt": "three"}
	for name, content := range want {
		file := filepath.Join(filepath.Dir(folder), filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := person{T: t, tab: tab, s: s, key: "drops/site"}
	tab.Open(s.url + "/upload")
	tab.Drop(200, 300, folder)
	p.sees(`document.querySelector(".dropped").innerText`, "3 file(s)")
	eval[bool](t, tab, `{ const f = document.querySelector("form.upload"); f.key.value = "drops/site"; f.primary.value = "site/index.html"; } true`)
	eval[bool](t, tab, submitUpload+"; true")
	p.sees(`document.querySelector(".result").innerText`, "Published as 1.1: 3 file(s), 11 bytes.")
	for file, err := range s.api.AllFiles(t.Context(), p.key, publish.Version{Token: 1, Revision: 1}) {
		if err != nil {
			t.Fatal(err)
		}
		if content, known := want[string(file.Path)]; !known || int64(len(content)) != file.Size {
			t.Errorf("the set has %s of %d bytes", file.Path, file.Size)
		}
		delete(want, string(file.Path))
	}
	if len(want) > 0 {
		t.Errorf("the set lacks %v", want)
	}
	tab.CheckConsole()
}
