package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/pointer"
	"github.com/pawlhq/pawl/publish"
)

// issue makes a credential on a database, and returns its text.
func issue(t *testing.T, dsn, name, scopes string) (string, *publish.Service) {
	t.Helper()
	store, err := pointer.Open(t.Context(), dsn, pointer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	service := &publish.Service{Pointers: store}
	t.Cleanup(func() { service.Close(); store.Close() })
	parsed, err := publish.ParseScopes(scopes)
	if err != nil {
		t.Fatal(err)
	}
	made, err := service.CreateCredential(t.Context(), publish.CreateCredentialRequest{Name: name, Scopes: parsed, By: "test", Admin: publish.Everything})
	if err != nil {
		t.Fatal(err)
	}
	return made.Secret.Reveal(), service
}

// A browser whose person has signed in is known to the pages, their scripts and streams, and the files that they show. It acts under the name of the credential.
func TestPageWithACredential(t *testing.T) {
	t.Parallel()
	tab := testenv.Browser(t)
	dsn := testenv.Postgres(t)
	s := serve(t, dsn, directory(t), "PAWL_AUTH=required")
	secret, service := issue(t, dsn, "mia", "operate:press/")
	put := func(text string) {
		t.Helper()
		p := startReading(t, strings.NewReader(text), []string{"PAWL_URL=" + s.url, "PAWL_CREDENTIAL=" + secret}, binary(t), "put", "press/x", "-", "--path", "out.txt")
		if code := p.exit(); code != 0 {
			t.Fatalf("put exits %d: %s", code, p.errs.String())
		}
	}
	put("one")

	signIn(t, tab, s.url+"/k/press/x", secret)
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

// ffmpeg writes with the lease_id alone, by itself and under pawl run; what it can't do is publish. Players read what is public.
func TestFFmpegWithALeaseAlone(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	s := serve(t, dsn, directory(t), "PAWL_AUTH=required", "PAWL_PUBLIC_READ=vod/")
	secret, _ := issue(t, dsn, "encoder", "publish:vod/")
	var err error
	if s.api, err = client.New(s.url, client.Options{Credential: secret}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.api.Close)
	const key = "vod/talk"
	job := s.transcode(key)
	ended(t, job.variants(s.addr, 30))
	job.finish("master.m3u8")

	run := start(t, []string{"PAWL_URL=" + s.url, "PAWL_CREDENTIAL=" + secret}, binary(t), append([]string{
		"run", "--key", key, "--primary", "master.m3u8", "--expect", "master.m3u8", "--", "sh", "-c", encode, "sh",
	}, append(ffmpegArgs(), variantArgs("FILES/", 34)...)...)...)
	if code := run.exit(); code != 0 {
		t.Fatalf("the run exits %d: %s", code, run.errs.String())
	}
	for _, playlist := range []string{job.files("", s.addr) + "master.m3u8", s.url + "/v1/keys/" + key + "/-/current/master.m3u8"} {
		if shown, err := play(playlist); err != nil || len(shown.files) <= segments {
			t.Errorf("playing %s: %d files, %v", playlist, len(shown.files), err)
		}
	}
	if log := s.errs.String(); strings.Contains(log, secret) || strings.Contains(log, job.lease.LeaseID.Hex()) {
		t.Error("a secret is in the log")
	}
}
