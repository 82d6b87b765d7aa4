package web_test

import (
	"testing"

	"github.com/pawlhq/pawl/web"
)

// What other sites may show is files and the redirects to them, and only where that was set.
func TestEmbed(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "same-origin", "same-site", "cross-origin"} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			embed, err := web.ParseEmbed(text)
			if err != nil {
				t.Fatal(err)
			}
			r := newRig(t, web.Options{Embed: embed})
			w := r.grant("k")
			w.put("a.png", pngHead).want(201)
			w.publish(`{"primary": "a.png"}`).want(200)
			const header = "Cross-Origin-Resource-Policy"
			for address, want := range map[string]string{
				w.generation() + "/files/a.png": string(embed), "/v1/keys/k/-/current": string(embed), "/v1/keys/k/-/current/a.png": string(embed),
				"/v1/keys/k": "same-origin", "/k/k": "same-origin", w.generation() + ".zip": "same-origin", "/v1/keys": "same-origin",
			} {
				if got := r.call("GET", address, "").header.Get(header); got != want {
					t.Errorf("%s may be shown by %q, want %q", address, got, want)
				}
			}
		})
	}
	if _, err := web.ParseEmbed("*"); err == nil {
		t.Error("* is taken")
	}
}
