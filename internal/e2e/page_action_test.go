package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// fillIn opens a dialog by its button, fills its form in and sends it as often as a hasty person clicks.
const fillIn = `(() => {
	const [name, fields, clicks] = %s;
	document.querySelector("[popovertarget=act-" + name + "]").click();
	const dialog = document.getElementById("act-" + name);
	if (!dialog.matches(":popover-open") || !dialog.contains(document.activeElement)) return "the dialog isn't open, or has no focus";
	const form = dialog.querySelector("form");
	for (const [field, value] of Object.entries(fields)) {
		if (form.elements[field].type === "checkbox") form.elements[field].checked = true;
		else form.elements[field].value = value;
	}
	if (!form.reportValidity()) return "a field is missing";
	for (let i = 0; i < clicks; i++) form.querySelector(".buttons button").click();
	return "";
})()`

// person does something to a key on its page.
type person struct {
	*testing.T
	tab *testenv.Tab
	s   *server
	key publish.Key
}

func (p person) does(name string, clicks int, fields map[string]string) {
	p.Helper()
	args, err := json.Marshal([]any{name, fields, clicks})
	if err != nil {
		p.Fatal(err)
	}
	p.tab.Open(p.s.url + "/k/" + string(p.key))
	if fault, err := testenv.Eval[string](p.tab, fmt.Sprintf(fillIn, args)); err != nil || fault != "" {
		p.Fatalf("%s: %q %v", name, fault, err)
	}
	p.sees(`location.search === "?done=`+name+`" && document.querySelector("main > .notice.good").innerText`, "")
}

// sees waits until an expression gives a text that holds what is wanted.
func (p person) sees(expression, want string) string {
	p.Helper()
	var text any
	testenv.Eventually(p, patience, func() error {
		var err error
		if text, err = testenv.Eval[any](p.tab, expression); err != nil {
			return err
		}
		if got, isText := text.(string); !isText || got == "" || !strings.Contains(got, want) {
			return fmt.Errorf("%s gives %v, want %q", expression, text, want)
		}
		return nil
	})
	return text.(string)
}

func (p person) wantVersion(token publish.Token, pinned bool) {
	p.Helper()
	pointer, err := p.s.api.Pointer(p.Context(), p.key)
	if err != nil || pointer.Token != token || (pointer.Pinned != nil) != pinned {
		p.Fatalf("current is %s, pinned %v, %v; want token %d, %v", pointer.Version(), pointer.Pinned, err, token, pinned)
	}
}

// A person rolls a key back with a double click, pins, unpins, breaks a lease and retires, with scripts and without.
func TestActionsInABrowser(t *testing.T) {
	t.Parallel()
	for name, scripts := range map[string]bool{"scripts": true, "no scripts": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, testenv.Postgres(t), directory(t))
			p := person{T: t, tab: testenv.Browser(t), s: s, key: "shots/010"}
			if !scripts {
				p.tab.DisableScripts()
			}
			s.ship(p.key, "a", "one")
			s.ship(p.key, "b", "two")
			p.does("rollback", 2, map[string]string{"reason": "<i>flickers</i>", "by": "mia"})
			p.wantVersion(3, false)
			p.does("pin", 1, map[string]string{"reason": "review", "by": "mia"})
			p.wantVersion(3, true)
			p.does("unpin", 1, map[string]string{})
			held := s.acquire(p.key, "worker-c")
			p.does("break-lease", 1, map[string]string{"reason": "the node is gone", "by": "mia"})
			if _, err := s.api.Renew(t.Context(), p.key, held.LeaseID, 0); err == nil || !strings.Contains(err.Error(), `"mia" has broken the lease of token 4 (the node is gone)`) {
				t.Errorf("the holder hears %v", err)
			}
			p.wantVersion(3, false)
			p.does("retire", 2, map[string]string{"reason": "cut", "confirm": "010", "by": "mia"})
			if _, err := s.api.Pointer(t.Context(), p.key); err == nil || !strings.Contains(err.Error(), `"mia" has retired the key under token 5 (cut)`) {
				t.Errorf("readers hear %v", err)
			}
			p.tab.CheckConsole()
		})
	}
}

const submitUpload = `document.querySelector("form.upload .primary").click()`

// Files are chosen or dropped, uploaded with progress, and are current then; without scripts by the form alone.
func TestUploadInABrowser(t *testing.T) {
	t.Parallel()
	s := serve(t, testenv.Postgres(t), directory(t))
	p := person{T: t, tab: testenv.Browser(t), s: s, key: "drops/ä b"}
	folder := t.TempDir()
	for name, content := range map[string]string{"page.html": "<p>one", "a b.txt": "two"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	eval := func(expression string) {
		t.Helper()
		if _, err := testenv.Eval[any](p.tab, expression); err != nil {
			t.Fatalf("%s: %v", expression, err)
		}
	}
	p.tab.Open(s.url + "/upload")
	p.tab.SetFiles("form.upload [type=file]", filepath.Join(folder, "page.html"), filepath.Join(folder, "a b.txt"))
	eval(`{const f = document.querySelector("form.upload"); f.key.value = "drops/a\u0308 b"; f.by.value = "mia"; f.primary.value = "page.html"}`)
	eval(submitUpload)
	p.sees(`document.querySelector(".result").innerText`, "Published as 1.1: 2 file(s), 9 bytes.")
	eval(`document.querySelector(".result a").click()`)
	p.sees(`document.readyState === "complete" && location.pathname`, "/k/drops/%C3%A4%20b")
	if pointer, err := s.api.Pointer(t.Context(), p.key); err != nil || pointer.Primary != "page.html" || pointer.Publisher != "page: mia" || pointer.Files != 2 {
		t.Errorf("current is %+v, %v", pointer, err)
	}

	// Dropped anywhere on the page of the key. Who it is, is remembered.
	eval(`{
		const moved = new DataTransfer();
		moved.items.add(new File([new Uint8Array(64 << 20)], "big.bin"));
		window.values = [];
		new MutationObserver(() => values.push(document.querySelector("progress").value)).observe(document.querySelector("progress"), {attributes: true});
		document.body.dispatchEvent(new DragEvent("drop", {dataTransfer: moved, bubbles: true, cancelable: true}));
	}`)
	p.sees(`document.querySelector("#act-upload:popover-open .dropped").innerText`, "big.bin")
	eval(submitUpload)
	p.sees(`document.querySelector(".result").innerText`, "Published as 2.1: 1 file(s), 67108864 bytes.")
	p.sees(`values.some((v) => v > 0 && v < 1) && values.every((v, i) => !i || v >= values[i - 1]) ? "it grew" : JSON.stringify(values)`, "it grew")
	if pointer, err := s.api.Pointer(t.Context(), p.key); err != nil || pointer.Publisher != "page: mia" || pointer.Primary != "big.bin" {
		t.Errorf("current is %+v, %v", pointer, err)
	}
	p.tab.CheckConsole()

	p.tab.DisableScripts()
	p.tab.Open(s.url + "/k/drops/%C3%A4%20b/-/upload")
	p.tab.SetFiles("form.upload [type=file]", filepath.Join(folder, "a b.txt"))
	eval(submitUpload)
	p.sees(`location.search === "?done=uploaded" && document.querySelector("main > .notice.good").innerText`, "What you uploaded is current.")
	p.wantVersion(3, false)
	p.tab.CheckConsole()
}

// holdRequest stops the next request to an address with that ending before it is sent, until go() is called.
const holdRequest = `(() => {
	const open = XMLHttpRequest.prototype.open, send = XMLHttpRequest.prototype.send;
	window.go = null;
	XMLHttpRequest.prototype.open = function (...args) { this.to = args[1]; return open.apply(this, args); };
	XMLHttpRequest.prototype.send = function (...args) {
		if (!this.to.endsWith("%s") || window.go) return send.apply(this, args);
		window.go = () => { send.apply(this, args); };
	};
})()`

// The lease of an upload from the page is broken, and somebody newer publishes: the page says that it was refused, and by whom. So it says who holds
// the key, and a cancelled upload gives it back.
func TestFencedUploadInABrowser(t *testing.T) {
	t.Parallel()
	s := serve(t, testenv.Postgres(t), directory(t))
	p := person{T: t, tab: testenv.Browser(t), s: s, key: "k"}
	s.ship("k", "worker-a", "one")
	file := filepath.Join(t.TempDir(), "out.txt")
	if err := os.WriteFile(file, []byte("from the page"), 0o600); err != nil {
		t.Fatal(err)
	}
	begin := func(hold string) {
		t.Helper()
		p.tab.Open(s.url + "/k/k/-/upload")
		p.tab.SetFiles("form.upload [type=file]", file)
		if _, err := testenv.Eval[any](p.tab, fmt.Sprintf(holdRequest, hold)+";"+submitUpload); err != nil {
			t.Fatal(err)
		}
	}
	begin("/publish")
	p.sees(`window.go ? "held" : ""`, "held")
	if _, err := s.api.BreakLease(t.Context(), publish.BreakLeaseRequest{Key: "k", Token: 2, Reason: "too slow", By: "mia"}); err != nil {
		t.Fatal(err)
	}
	s.ship("k", "worker-b", "newer")
	if _, err := testenv.Eval[any](p.tab, `go()`); err != nil {
		t.Fatal(err)
	}
	p.sees(`document.querySelector(".result.bad").innerText`, "Somebody newer, \u2068worker-b\u2069 with token 3, has published meanwhile; yours was refused, nothing was overwritten.")
	p.wantVersion(3, false)

	begin("/files/out.txt")
	p.sees(`window.go ? "held" : ""`, "held")
	if _, err := testenv.Eval[any](p.tab, `document.querySelector(".cancel").click()`); err != nil {
		t.Fatal(err)
	}
	var lease client.Lease
	testenv.Eventually(t, patience, func() error {
		var err error
		if lease.Lease, err = s.api.Lease(t.Context(), "k"); err == nil && lease.Held {
			err = fmt.Errorf("%q still holds the key", lease.Holder)
		}
		return err
	})

	held, err := s.api.Acquire(t.Context(), publish.AcquireRequest{Key: "k", Holder: "worker-c", TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	begin("nothing")
	p.sees(`document.querySelector(".result.bad").innerText`, "\u2068worker-c\u2069 holds the key under token "+fmt.Sprint(held.Token)+" until")
	if err := s.api.Release(t.Context(), "k", held.LeaseID); err != nil {
		t.Fatal(err)
	}
	p.sees(`document.querySelector("form.upload .primary").innerText`, "Try again")
	if _, err := testenv.Eval[any](p.tab, submitUpload); err != nil {
		t.Fatal(err)
	}
	p.sees(`document.querySelector(".result").innerText`, "Published as 6.1")
}
