//go:build unix

package testenv

import (
	"context"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// browserTime bounds what one test does with its browser, the start included.
const browserTime = 3 * time.Minute

// Tab is an open tab of a real Chromium, headless and with a profile of its own. Its methods may be called from many goroutines.
type Tab struct {
	t   testing.TB
	ctx context.Context

	mu      sync.Mutex
	console []chromedp.ConsoleMessage
}

// Browser starts a Chromium for one test and opens an empty tab in it. It ends with the test. Without Chromium the test is skipped,
// in CI it fails.
func Browser(t testing.TB) *Tab {
	t.Helper()
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if found, err := exec.LookPath(name); err == nil {
			program = found
			break
		}
	}
	if program == "" {
		skipOrFatal(t, "there is no Chromium; install Debian's package chromium (.ci/setup test does)")
	}
	limited, cancelTime := context.WithTimeout(context.Background(), browserTime)
	// The sandbox doesn't run under root, as CI does; the pages are our own.
	allocator, stop := chromedp.NewExecAllocator(limited, append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.DisableGPU)...)
	ctx, closeTab := chromedp.NewContext(allocator)
	tab := &Tab{t: t, ctx: ctx}
	var listening sync.WaitGroup
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Logf("closing the browser: %v", err)
		}
		closeTab()
		stop()
		cancelTime()
		listening.Wait()
	})
	if err := chromedp.Do(ctx); err != nil { // This starts it.
		t.Fatalf("starting %s: %v", program, err)
	}
	messages := chromedp.Console(ctx)
	listening.Go(func() {
		for message, err := range messages {
			if err != nil {
				return // The tab is closed.
			}
			tab.mu.Lock()
			tab.console = append(tab.console, message)
			tab.mu.Unlock()
		}
	})
	return tab
}

// Open loads a page.
func (tab *Tab) Open(url string) {
	tab.t.Helper()
	if err := chromedp.Do(tab.ctx, chromedp.Navigate(url)); err != nil {
		tab.t.Fatalf("opening %s: %v", url, err)
	}
}

// Eval evaluates an expression in the page and decodes its value, or what its promise gives. It does so as the page's developer tools
// do: the page's script-src doesn't bind it, but its connect-src does.
func Eval[T any](tab *Tab, expression string) (T, error) {
	return chromedp.Run(tab.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// CheckConsole fails the test if the browser's console has an error, a warning or an exception.
func (tab *Tab) CheckConsole() {
	tab.t.Helper()
	tab.mu.Lock()
	defer tab.mu.Unlock()
	found := 0
	for _, message := range tab.console {
		switch message.Type {
		case chromedp.ConsoleError, chromedp.ConsoleException, chromedp.ConsoleWarning:
			if found++; found <= 3 { // A page in a loop says the same again and again.
				tab.t.Errorf("the browser's console says: %s", message)
			}
		}
	}
	if found > 3 {
		tab.t.Errorf("and %d messages more", found-3)
	}
}
