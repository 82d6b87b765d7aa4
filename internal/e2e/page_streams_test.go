package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/internal/testenv"
)

// awaitStreams waits until so many event streams are open at a server.
func (s *server) awaitStreams(want int) {
	s.t.Helper()
	testenv.Eventually(s.t, patience, func() error {
		metrics, err := get(s.url + "/metrics")
		if err == nil && !strings.Contains(string(metrics), fmt.Sprintf("\npawl_event_streams %d\n", want)) {
			_, rest, _ := strings.Cut(string(metrics), "\npawl_event_streams ")
			open, _, _ := strings.Cut(rest, "\n")
			err = fmt.Errorf("%s event streams are open, not %d", open, want)
		}
		return err
	})
}

// follow clicks a link to an address and waits until its page listens.
func follow(t *testing.T, tab *testenv.Tab, address string) {
	t.Helper()
	before, err := testenv.Eval[float64](tab, `performance.timeOrigin`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := testenv.Eval[bool](tab, fmt.Sprintf(`(Object.assign(document.createElement("a"), {href: %q}).click(), true)`, address)); err != nil {
		t.Fatal(err)
	}
	awaitPage(t, tab, fmt.Sprintf(`performance.timeOrigin > %f && document.querySelector(".live")?.dataset.is === "on"`, before))
}

// A page that is left may live on in the browser's cache, to be shown again by the button Back. It keeps no stream open there: a browser has six
// connections to a server, and the seventh page would wait for one of them.
func TestPageLeftBehindKeepsNoStream(t *testing.T) {
	t.Parallel()
	tab := testenv.Browser(t)
	s := serve(t, testenv.Postgres(t), directory(t))
	s.putOne("worker-a", "left/one", "one")
	s.awaitEvent("left/one", 1)
	openLive(t, tab, s.url+"/b/left/")
	addresses := []string{"/activity", "/rejections", "/leases", "/", "/k/left/one", "/k/left/one/-/history", "/b/left/", "/k/left/one", "/activity", "/k/left/one"}
	for _, address := range addresses {
		follow(t, tab, address)
		s.awaitStreams(1)
	}

	// Back on a page that was left it listens again, and offers what happened meanwhile.
	s.putOne("worker-b", "left/two", "two")
	s.awaitEvent("left/two", 1)
	if _, err := testenv.Eval[bool](tab, `(window.left = true, history.back(), true)`); err != nil {
		t.Fatal(err)
	}
	awaitPage(t, tab, `!window.left && location.pathname === "/activity" && document.querySelector(".live")?.dataset.is === "on"`)
	awaitPage(t, tab, fresh+` === "1 new · show"`)
	s.awaitStreams(1)
	tab.CheckConsole()
}
