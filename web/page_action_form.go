package web

import (
	"context"
	"net/url"
	"slices"
	"strconv"

	"github.com/pawlhq/pawl/publish"
)

// offeredVersions is how many versions the form of a rollback offers, of as many of the newest grants.
const offeredVersions = 20

// actionsView is what the page of a key offers to do.
type actionsView struct {
	Forms  []actionForm
	Upload *uploadForm // nil for who may not
}

// actionForm is the form of one action on one key.
type actionForm struct {
	*action
	Key     publish.Key
	URL     string
	Back    string
	Request string
	// Pointer is what is current, Lease the one that runs, Pinned the pin; nil where there is none.
	Pointer  *publish.Pointer
	Lease    *publish.Holding
	Pinned   *publish.Pin
	Grantee  publish.Actor // of the lease
	Versions []offeredVersion
	Confirm  string
	// By is the name of the credential of who acts; "" where people say who they are.
	By      string
	Form    url.Values
	Problem string
	// Nothing says why there is nothing to do; "" otherwise.
	Nothing string
}

// Breakable tells whether the action may end the lease that runs.
func (f actionForm) Breakable() bool {
	return f.Lease != nil && (f.action == rollbackAction || f.action == retireAction)
}

// Current and PinnedAt are what the hidden fields say was seen.
func (f actionForm) Current() string {
	if f.Pointer == nil {
		return none
	}
	return f.Pointer.Version().String()
}

// PinnedAt is the time of the pin.
func (f actionForm) PinnedAt() string {
	if f.Pinned == nil {
		return none
	}
	return f.Pinned.At.Text()
}

// Sees tells whether the action compares that hidden field.
func (f actionForm) Sees(name string) bool { return slices.Contains(f.sees, name) }

// Breaks tells whether the form that was typed agrees to end the lease that runs, not one that another grant had.
func (f actionForm) Breaks() bool {
	return f.Form.Get("break_lease") == strconv.FormatInt(int64(f.Lease.Token), 10)
}

// offeredVersion is a version that can be brought back.
type offeredVersion struct {
	Version publish.Version
	Receipt *publish.Receipt // nil for one that only a link has named
	Chosen  bool
}

// actionPage is the page of one form.
type actionPage struct {
	frame
	Crumbs []link
	Action actionForm
}

// keyState is what the forms of a key need to know.
type keyState struct {
	pointer  *publish.Pointer
	lease    *publish.Holding // that runs
	grantee  publish.Actor    // who was granted the newest lease
	pinned   *publish.Pin
	versions []offeredVersion
	receipts []publish.Receipt // of the newest versions
}

func (h *Handler) keyState(ctx context.Context, overview publish.Overview) (state keyState, err error) {
	state = keyState{pointer: overview.Pointer, pinned: overview.Pinned}
	if overview.Lease != nil && overview.Lease.Live {
		state.lease = overview.Lease
	}
	history, err := h.service.History(ctx, overview.Key, 0, offeredVersions)
	if err != nil {
		return state, err
	}
	for _, g := range history.Generations {
		if overview.Lease != nil && g.Token == overview.Lease.Token {
			state.grantee = g.Actor
		}
	}
	state.receipts = receiptsOf(history)
	for _, receipt := range state.receipts {
		if state.pointer != nil && receipt.Version() == state.pointer.Version() || len(state.versions) == offeredVersions {
			continue
		}
		state.versions = append(state.versions, offeredVersion{Version: receipt.Version(), Receipt: &receipt})
	}
	return state, nil
}

// actions gives the forms that make sense for a key as it is, and that the caller may send.
func (h *Handler) actions(c *call, state keyState) *actionsView {
	view := &actionsView{}
	if c.allowed(publish.VerbPublish).Has(c.key) {
		upload := h.uploadForm(c)
		view.Upload = &upload
	}
	if !c.allowed(publish.VerbOperate).Has(c.key) {
		return view
	}
	for _, a := range keyActions {
		if form := h.form(c, a, state, nil, ""); form.Nothing == "" {
			view.Forms = append(view.Forms, form)
		}
	}
	return view
}

func (h *Handler) form(c *call, a *action, state keyState, typed url.Values, problem string) actionForm {
	f := actionForm{
		action: a, Key: c.key, By: c.caller.Name, URL: h.links.action(c.key, a.Name), Back: h.links.keyPage(c.key), Request: typed.Get("request"),
		Pointer: state.pointer, Lease: state.lease, Pinned: state.pinned, Grantee: state.grantee, Form: typed, Problem: problem,
	}
	if f.Request == "" {
		f.Request = publish.NewLeaseID().Hex()
	}
	switch {
	case a == rollbackAction && len(state.versions) == 0 && !typed.Has("to"):
		f.Nothing = "There is no other version that could be brought back."
	case a == pinAction && state.pointer == nil, a == retireAction && state.pointer == nil:
		f.Nothing = "The key has no current version."
	case a == pinAction && state.pinned != nil && problem == "":
		f.Nothing = "The key is pinned already."
	case a == unpinAction && state.pinned == nil:
		f.Nothing = "The key isn't pinned."
	case a == breakLeaseAction && state.lease == nil:
		f.Nothing = "Nobody holds the key."
	case a == retireAction:
		f.Confirm = lastSegment(c.key)
	case a == rollbackAction:
		f.Versions = choose(state.versions, typed.Get("to"))
	}
	return f
}

// choose marks the version that a form, or a link to it, names. It is offered also when it isn't one of the newest.
func choose(versions []offeredVersion, text string) []offeredVersion {
	offered := append([]offeredVersion(nil), versions...)
	named, err := publish.ParseVersion(text)
	if err != nil {
		return offered
	}
	for i := range offered {
		if offered[i].Version == named {
			offered[i].Chosen = true
			return offered
		}
	}
	return append(offered, offeredVersion{Version: named, Chosen: true})
}

func (h *Handler) renderAction(c *call, a *action, status int, typed url.Values, problem string) error {
	overview, err := h.service.Overview(c.Request().Context(), c.key)
	if err != nil {
		return err
	}
	state, err := h.keyState(c.Request().Context(), overview)
	if err != nil {
		return err
	}
	page := actionPage{
		frame: h.frame(c, a.Title+" "+string(c.key)), Crumbs: h.crumbs(string(c.key)), Action: h.form(c, a, state, typed, problem),
	}
	return renderAs(c, status, "action", page)
}

// action is the address of an action on a key, and of its form.
func (l links) action(key publish.Key, name string) string { return l.keyPage(key) + "/-/" + name }

// keyDone is the page of a key, which says what has just been done.
func (l links) keyDone(key publish.Key, word string) string {
	return l.keyPage(key) + "?done=" + url.QueryEscape(word)
}
