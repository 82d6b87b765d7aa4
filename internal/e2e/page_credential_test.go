package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/pointer"
	"github.com/pawlhq/pawl/publish"
)

// A browser that was told a credential once has it for the pages, their scripts and streams, and the files that they show. It acts under the credential's name.
func TestPageWithACredential(t *testing.T) {
	t.Parallel()
	tab := testenv.Browser(t)
	dsn := testenv.Postgres(t)
	s := serve(t, dsn, directory(t), "PAWL_AUTH=required")
	store, err := pointer.Open(t.Context(), dsn, pointer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	service := &publish.Service{Pointers: store}
	t.Cleanup(func() { service.Close(); store.Close() })
	made, err := service.CreateCredential(t.Context(), publish.CreateCredentialRequest{
		Name: "mia", Scopes: publish.Scopes{{Verb: publish.VerbOperate, Prefix: "press/"}}, By: "test", Admin: publish.Everything,
	})
	if err != nil {
		t.Fatal(err)
	}
	secret := made.Secret.Reveal()
	put := func(text string) {
		t.Helper()
		p := startReading(t, strings.NewReader(text), []string{"PAWL_URL=" + s.url, "PAWL_CREDENTIAL=" + secret}, binary(t), "put", "press/x", "-", "--path", "out.txt")
		if code := p.exit(); code != 0 {
			t.Fatalf("put exits %d: %s", code, p.errs.String())
		}
	}
	put("one")

	// The page of a key, not "/": what a browser sends by itself it sends below the folder of the page that it was asked on, and /v1 is elsewhere.
	tab.Open(strings.Replace(s.url, "http://", "http://pawl:"+secret+"@", 1) + "/k/press/x")
	openLive(t, tab, s.url+"/k/press/x")
	awaitPage(t, tab, `document.querySelector("main").textContent.includes("You act as mia")`)
	put("two")
	awaitPage(t, tab, fresh)
	got, err := testenv.Eval[string](tab, `(async () => {
		const lease = await fetch("/v1/keys/press/y/-/lease", { method: "POST", body: '{"holder":"page"}', headers: { "Content-Type": "application/json" } });
		const file = await fetch("/v1/keys/press/x/-/current");
		const other = await fetch("/v1/keys/other/-/lease", { method: "POST", body: '{"holder":"page"}', headers: { "Content-Type": "application/json" } });
		return [lease.status, file.status, await file.text(), other.status].join(" ");
	})()`)
	if err != nil || got != "201 200 two 404" {
		t.Errorf("the scripts of the page get %q, %v", got, err)
	}
	pinned, err := testenv.Eval[bool](tab, `(async () => {
		const form = document.querySelector('form[action$="/-/pin"]');
		form.reason.value = "r";
		form.current.value = "2.1";
		return (await fetch(form.action, { method: "POST", body: new URLSearchParams(new FormData(form)) })).ok;
	})()`)
	if err != nil || !pinned {
		t.Errorf("the form is refused: %v", err)
	}
	overview, err := service.Overview(t.Context(), "press/x")
	if err != nil || overview.Pinned == nil || overview.Pinned.By != "mia" {
		t.Errorf("the pin is %s, %v", fmt.Sprint(overview.Pinned), err)
	}
}
