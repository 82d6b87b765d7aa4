//go:build unix

package testenv

import (
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
)

// SetFiles chooses files in the first input that the selector matches, as a person would.
func (tab *Tab) SetFiles(selector string, paths ...string) {
	tab.t.Helper()
	if err := chromedp.Do(tab.ctx, chromedp.SetUploadFiles(selector, paths)); err != nil {
		tab.t.Fatalf("choosing files in %s: %v", selector, err)
	}
}

// Drop drops files and folders of this machine at a point of the page, in CSS pixels.
func (tab *Tab) Drop(x, y float64, paths ...string) {
	tab.t.Helper()
	const copies = 1
	dragged := input.DragData{Items: []*input.DragDataItem{}, Files: paths, DragOperationsMask: copies}
	for _, step := range []input.DispatchDragEventType{input.DispatchDragEventTypeDragEnter, input.DispatchDragEventTypeDragOver, input.DispatchDragEventTypeDrop} {
		if _, err := chromedp.Call(tab.ctx, input.DispatchDragEvent, input.DispatchDragEventParams{Type: step, X: x, Y: y, Data: &dragged}); err != nil {
			tab.t.Fatalf("dropping %q: %v", paths, err)
		}
	}
}

// DisableScripts keeps pages that are opened from now on from running scripts. Eval goes on working.
func (tab *Tab) DisableScripts() {
	tab.t.Helper()
	if _, err := chromedp.Call(tab.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
		tab.t.Fatalf("switching scripts off: %v", err)
	}
}
