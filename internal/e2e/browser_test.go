package e2e

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// playInPage is a player of HLS for the browser: it does what play does, in the page's own origin and with the browser's cache.
const playInPage = `(async (start) => {
	const result = {token: "", files: {}, broken: []};
	const names = /\/-\/generations\/([0-9]+)\/files\/(.*)$/;
	const hex = (buffer) => Array.from(new Uint8Array(buffer), (b) => b.toString(16).padStart(2, "0")).join("");
	const play = async (address) => {
		const answer = await fetch(address);
		const body = await answer.arrayBuffer();
		const found = names.exec(decodeURIComponent(new URL(answer.url).pathname));
		if (!answer.ok || !found) {
			result.broken.push(answer.status + " " + answer.url);
			return;
		}
		result.token ||= found[1];
		if (result.token !== found[1]) {
			result.broken.push("generation " + found[1] + " after " + result.token + ": " + answer.url);
		}
		result.files[found[2]] = hex(await crypto.subtle.digest("SHA-256", body));
		if (!answer.url.endsWith(".m3u8")) {
			return;
		}
		const links = new TextDecoder().decode(body).split("\n").map((l) => l.trim()).filter((l) => l && !l.startsWith("#"));
		await Promise.all(links.map((link) => play(new URL(link, answer.url))));
	};
	await play(start);
	return result;
})(%q)`

// Case 21 in a browser, at the page's own address: while the next generation fails, for the network has broken one of its segments, and
// then succeeds, no request for a segment breaks and no generations mix.
func TestCase21InABrowser(t *testing.T) {
	t.Parallel()
	tab := testenv.Browser(t)
	s := serve(t, testenv.Postgres(t), directory(t))
	const key = publish.Key("vod/browser")
	run := func(quality int) presentation {
		t.Helper()
		job := s.transcode(key)
		ended(t, job.variants(s.addr, quality))
		receipt := job.finish("master.m3u8")
		p := presentation{token: fmt.Sprint(receipt.Token), files: map[string]string{}, ended: true}
		for file, err := range s.api.AllFiles(t.Context(), key, publish.Version{Token: receipt.Token, Revision: receipt.Revision}) {
			if err != nil {
				t.Fatal(err)
			}
			p.files[string(file.Path)] = file.SHA256.String()
		}
		if err := p.whole(); err != nil {
			t.Fatal(err)
		}
		return p
	}
	held := map[string]presentation{"1": run(30)}

	tab.Open(s.url + "/")
	if text, err := testenv.Eval[string](tab, `document.querySelector("main").innerText`); err != nil || text == "" {
		t.Errorf("the page says %q, %v", text, err)
	}
	player := attend(t, func() (presentation, error) {
		result, err := testenv.Eval[struct {
			Token  string            `json:"token"`
			Files  map[string]string `json:"files"`
			Broken []string          `json:"broken"`
		}](tab, fmt.Sprintf(playInPage, "/v1/keys/"+string(key)+"/-/current"))
		if err == nil && len(result.Broken) > 0 {
			err = fmt.Errorf("broken requests: %v", result.Broken)
		}
		return presentation{token: result.Token, files: result.Files}, err
	})

	failing := s.transcode(key)
	ended(t, failing.variants(breakUploads(t, s.addr, "/v2/003.ts "), 32))
	if refusal := failing.refused("master.m3u8"); refusal.Code != publish.ErrGenerationIncomplete || fmt.Sprint(refusal.Failed) != "[v2/003.ts]" {
		t.Errorf("the failing publish: %v", refusal)
	}
	if err := s.api.Release(t.Context(), key, failing.lease.LeaseID); err != nil {
		t.Fatal(err)
	}
	held["3"] = run(34)
	if tokens := player.finish(t); !slices.Equal(tokens, []string{"1", "3"}) {
		t.Errorf("the page has played the generations %v", tokens)
	}
	for _, p := range player.seen {
		if !maps.Equal(p.files, held[p.token].files) {
			t.Errorf("the page was given %d files of generation %s that aren't what it holds", len(p.files), p.token)
		}
	}
	tab.CheckConsole()
}
