//go:build unix

package testenv

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/security"
	"github.com/chromedp/chromedp"
)

// browserTime bounds what one test does with its browser, the start included.
const browserTime = 10 * time.Minute

// loadTime bounds the loading of a page.
const loadTime = time.Minute

// Tab is an open tab of a real Chromium, headless and with a profile of its own. Its methods may be called from many goroutines.
type Tab struct {
	t   testing.TB
	ctx context.Context

	mu       sync.Mutex
	console  []chromedp.ConsoleMessage
	requests []string // the addresses of all, in their order
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
	messages, requests := chromedp.Console(ctx), chromedp.Events(ctx, network.RequestWillBeSent)
	listening.Go(func() {
		for request, err := range requests {
			if err != nil {
				return // The tab is closed.
			}
			tab.mu.Lock()
			tab.requests = append(tab.requests, request.Request.URL)
			tab.mu.Unlock()
		}
	})
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

var errLoading = errors.New("the page is still loading")

// left marks the page that a tab is about to leave.
const left = "pawlTestLeft"

// Open loads a page, and returns when all of it is there. What the browser tells of a load that is just over can be taken for the end of the next one,
// so it looks whether the tab still shows the page before.
func (tab *Tab) Open(url string) {
	tab.t.Helper()
	if _, err := Eval[bool](tab, "window."+left+" = true"); err != nil {
		tab.t.Fatalf("leaving for %s: %v", url, err)
	}
	if err := chromedp.Do(tab.ctx, chromedp.Navigate(url)); err != nil {
		tab.t.Fatalf("opening %s: %v", url, err)
	}
	Eventually(tab.t, loadTime, func() error {
		// Between two pages there may be none to ask.
		if there, err := Eval[bool](tab, `!window.`+left+` && document.readyState === "complete"`); err != nil || !there {
			return errors.Join(errLoading, err)
		}
		return nil
	})
}

// Press types keys, each for itself, at whatever has the focus; "\r" is Enter.
func (tab *Tab) Press(keys string) {
	tab.t.Helper()
	if err := chromedp.Do(tab.ctx, chromedp.KeyEvent(keys)); err != nil {
		tab.t.Fatalf("pressing %q: %v", keys, err)
	}
}

// Resize gives the tab another size, in CSS pixels.
func (tab *Tab) Resize(width, height int64) {
	tab.t.Helper()
	if err := chromedp.Do(tab.ctx, chromedp.EmulateViewport(width, height)); err != nil {
		tab.t.Fatalf("resizing to %d × %d: %v", width, height, err)
	}
}

// Visit loads a page that may refuse to be one: a browser that saves a file instead of showing it stays where it was, which is an error.
func (tab *Tab) Visit(url string) error {
	return chromedp.Do(tab.ctx, chromedp.Navigate(url))
}

// Eval evaluates an expression in the page and decodes its value, or what its promise gives. It does so as the page's developer tools
// do: the page's script-src doesn't bind it, but its connect-src does.
func Eval[T any](tab *Tab, expression string) (T, error) {
	return chromedp.Run(tab.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// TrustAnyCertificate makes the tab take certificates of authorities that nobody knows, such as an Issuer's.
func (tab *Tab) TrustAnyCertificate() {
	tab.t.Helper()
	if _, err := chromedp.Call(tab.ctx, security.SetIgnoreCertificateErrors, security.SetIgnoreCertificateErrorsParams{Ignore: true}); err != nil {
		tab.t.Fatalf("trusting any certificate: %v", err)
	}
}

// Prefer makes the tab one of somebody who prefers a look: "light" or "dark".
func (tab *Tab) Prefer(look string) {
	tab.t.Helper()
	media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: look}}}
	if _, err := chromedp.Call(tab.ctx, emulation.SetEmulatedMedia, media); err != nil {
		tab.t.Fatalf("preferring what is %s: %v", look, err)
	}
}

// Picture is what the tab shows, as a PNG.
func (tab *Tab) Picture() []byte {
	tab.t.Helper()
	picture, err := chromedp.Run(tab.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		tab.t.Fatalf("taking a picture: %v", err)
	}
	return picture
}

// Requests returns the addresses of all requests that the tab has made so far.
func (tab *Tab) Requests() []string {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	return slices.Clone(tab.requests)
}

// CheckConsole fails the test if the browser's console has an error, a warning or an exception. That a page of the refused addresses was answered
// with the status of an error is none.
func (tab *Tab) CheckConsole(refused ...string) {
	tab.t.Helper()
	tab.mu.Lock()
	defer tab.mu.Unlock()
	found := 0
	for _, message := range tab.console {
		if strings.HasPrefix(message.Text, "Failed to load resource") && slices.Contains(refused, message.URL) {
			continue
		}
		switch message.Type {
		case chromedp.ConsoleError, chromedp.ConsoleException, chromedp.ConsoleWarning:
			if found++; found <= 3 { // A page in a loop says the same again and again.
				tab.t.Errorf("the browser's console says: %s (%s)", message, message.URL)
			}
		}
	}
	if found > 3 {
		tab.t.Errorf("and %d messages more", found-3)
	}
}
