package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/pawlhq/pawl/publish"
)

// action is something that people do to a key on its page, by a form of its own. What it shares with the API is publish.Service alone.
type action struct {
	Name    string // in its address, and the word for its success in that of the key's page
	Title   string // of its form and of the button that opens it
	Button  string // what is pressed to do it
	Explain string
	Danger  bool
	// Reasoned says that it is given a reason, which Retire may lack.
	Reasoned bool
	// sees are the hidden fields that tell what the person saw. The action compares them, so its form must have them.
	sees []string
	done string
	// holds tells whether what done says is so.
	holds   func(publish.Overview) bool
	perform func(context.Context, *publish.Service, actionRequest) error
}

// actionRequest is a form that was sent.
type actionRequest struct {
	key     publish.Key
	by      publish.Operator
	reason  string
	request publish.LeaseID  // its repeat is a replay
	current *publish.Version // what was current on the page that the form stood on, the zero Version for none
	pinned  *publish.Time    // when the pin that stood there was set, zero for none
	form    url.Values
}

// actionFields are the fields of all forms. "request" was drawn with the form, so that a double click or a reload does nothing twice; "current" and
// "pinned" are what the person saw, and so are "token" and "break_lease", which name the grant whose lease is to end.
var actionFields = []string{"request", "current", "pinned", "token", "to", "reason", "break_lease", "pin", "confirm", "by"}

var (
	rollbackAction = &action{
		Name: "rollback", Title: "Roll back", Button: "Roll back", Reasoned: true,
		Explain: "The files of an earlier version are published again, under a new token. No bytes are copied. Whoever works on the key now is fenced.",
		done:    "The earlier version is current again.",
		sees:    []string{"request", "current", "pinned"},
		holds:   func(o publish.Overview) bool { return o.Pointer != nil && o.Counter == o.Fence && o.Lease == nil },
		perform: func(ctx context.Context, s *publish.Service, r actionRequest) error {
			to, err := publish.ParseVersion(r.form.Get("to"))
			if err != nil {
				return publish.InvalidField(publish.ErrInvalidRequest, "/to", "is missing; choose the version to bring back")
			}
			lease, err := r.lease()
			if err != nil {
				return err
			}
			_, err = s.Rollback(ctx, publish.RollbackRequest{
				Key: r.key, To: to, Reason: r.reason, By: r.by, RequestID: r.request, Current: r.current, PinnedAt: r.pinned,
				BreakLease: lease != 0, Lease: lease, Pin: r.form.Has("pin"),
			})
			return err
		},
	}
	pinAction = &action{
		Name: "pin", Title: "Pin", Button: "Pin", Reasoned: true,
		Explain: "The current version stays: publishes are refused until it is unpinned. Whoever works on the key keeps the lease.",
		done:    "The key is pinned to its current version.",
		sees:    []string{"current", "pinned"},
		holds:   func(o publish.Overview) bool { return o.Pinned != nil },
		perform: func(ctx context.Context, s *publish.Service, r actionRequest) error {
			_, err := s.Pin(ctx, publish.PinRequest{Key: r.key, Reason: r.reason, By: r.by, Current: r.current, PinnedAt: r.pinned})
			return err
		},
	}
	unpinAction = &action{
		Name: "unpin", Title: "Unpin", Button: "Unpin",
		Explain: "Publishes are accepted again.",
		done:    "The key isn't pinned any more.",
		sees:    []string{"pinned"},
		holds:   func(o publish.Overview) bool { return o.Pinned == nil },
		perform: func(ctx context.Context, s *publish.Service, r actionRequest) error {
			return s.Unpin(ctx, publish.UnpinRequest{Key: r.key, By: r.by, PinnedAt: r.pinned})
		},
	}
	retireAction = &action{
		Name: "retire", Title: "Retire", Button: "Retire", Danger: true, Reasoned: true,
		Explain: "The key has no current version then, and readers are told so. Its history and the permanent addresses of what is kept stay. Publishing again revives it.",
		done:    "The key is retired.",
		sees:    []string{"request", "current"},
		holds:   func(o publish.Overview) bool { return o.Retired != nil },
		perform: func(ctx context.Context, s *publish.Service, r actionRequest) error {
			if r.form.Get("confirm") != lastSegment(r.key) {
				return publish.InvalidField(publish.ErrInvalidRequest, "/confirm", fmt.Sprintf("isn't %q, the last part of the key; type it to confirm", lastSegment(r.key)))
			}
			lease, err := r.lease()
			if err != nil {
				return err
			}
			_, err = s.Retire(ctx, publish.RetireRequest{
				Key: r.key, Reason: r.reason, By: r.by, RequestID: r.request, Current: r.current, BreakLease: lease != 0, Lease: lease,
			})
			return err
		},
	}
	breakLeaseAction = &action{
		Name: "break-lease", Title: "Break the lease", Button: "Break the lease", Danger: true, Reasoned: true,
		Explain: "The lease ends now, and others get the key without waiting. Its holder hears so at the next renewal. Nobody is fenced by it: " +
			"until somebody newer has published, what the holder publishes is accepted.",
		done:  "The lease is broken.",
		sees:  []string{"token"},
		holds: func(o publish.Overview) bool { return o.Lease == nil },
		perform: func(ctx context.Context, s *publish.Service, r actionRequest) error {
			token, err := publish.ParseToken(r.form.Get("token"))
			if err != nil {
				return err
			}
			broken, err := s.BreakLease(ctx, publish.BreakLeaseRequest{Key: r.key, Token: token, Reason: r.reason, By: r.by})
			if err == nil && broken.Broken == nil { // It was over by itself. The API says so in its answer, people in a refusal.
				err = &publish.Error{Code: publish.ErrPreconditionFailed, Operation: publish.OperationBreak, Key: r.key, Token: token, Holder: broken.Holder}
			}
			return err
		},
	}
	keyActions = []*action{rollbackAction, pinAction, unpinAction, retireAction, breakLeaseAction}
)

// saidDone gives the sentence for what has just been done to a key, by its word in the address of the key's page; "" for other words, and where
// it isn't so: a link could say anything, and an address is kept for longer than what it says is true.
func saidDone(word string, overview publish.Overview) string {
	for _, a := range keyActions {
		if a.Name == word && a.holds(overview) {
			return a.done
		}
	}
	if word == uploadDone && overview.Pointer != nil && strings.HasPrefix(overview.Pointer.Publisher, pageHolder) {
		return "What you uploaded is current."
	}
	return ""
}

// showAction serves the page of an action's form, for browsers that can't show it on the key's page, and for links to it.
func showAction(a *action) func(*Handler, *call) error {
	return func(h *Handler, c *call) error {
		query, err := c.query("to")
		if err != nil {
			return err
		}
		return h.renderAction(c, a, http.StatusOK, query, "")
	}
}

// doAction does what a form asks for and leads back to the key, or shows the form again, with what was typed, what is current now, and the refusal.
func doAction(a *action) func(*Handler, *call) error {
	return func(h *Handler, c *call) error {
		if _, err := c.query(); err != nil {
			return err
		}
		if _, _, err := c.operator(); err != nil {
			return err
		}
		form, err := readForm(c, actionFields)
		if err != nil {
			return err
		}
		err = a.send(c, h.service, form)
		var refusal *publish.Error
		switch {
		case err == nil:
			return c.Redirect(http.StatusSeeOther, h.links.keyDone(c.key, a.Name))
		case errors.As(err, &refusal) && refusal.Code.Kind().Status < http.StatusInternalServerError && refusal.Code != publish.ErrNotFound:
			if len(refusal.Fields) > 0 && refusal.Fields[0].Pointer == headerIdempotency {
				form.Del("request") // What is typed now is another request than the one that was made.
			}
			return h.renderAction(c, a, refusal.Code.Kind().Status, form, saidRefusal(refusal))
		}
		return err
	}
}

func (a *action) send(c *call, service *publish.Service, form url.Values) error {
	req := actionRequest{key: c.key, reason: form.Get("reason"), form: form}
	var err error
	if req.by, err = c.formOperator(form); err != nil {
		return err
	}
	if text := form.Get("request"); text != "" {
		if req.request, err = publish.ParseLeaseID(text); err != nil {
			return pointAt("/request", err)
		}
	}
	for _, name := range a.sees {
		if !form.Has(name) {
			return publish.InvalidField(publish.ErrInvalidRequest, "/"+name, "is missing: the form doesn't say what you saw; send this one")
		}
		switch text := form.Get(name); name {
		case "current":
			req.current, err = versionOf("/current", &text)
		case "pinned":
			req.pinned, err = pinOf("/pinned", &text)
		}
		if err != nil {
			return err
		}
	}
	return a.perform(c.Request().Context(), service, req)
}

// lease gives the grant whose lease the form agrees to end, 0 for none.
func (r actionRequest) lease() (publish.Token, error) {
	if !r.form.Has("break_lease") {
		return 0, nil
	}
	token, err := publish.ParseToken(r.form.Get("break_lease"))
	if err != nil {
		return 0, pointAt("/break_lease", err)
	}
	return token, nil
}

// saidRefusal tells people why nothing was done, in the words of the page rather than in those of the API.
func saidRefusal(e *publish.Error) string {
	switch {
	case e.Code == publish.ErrLeaseHeld:
		return fmt.Sprintf("%q holds the key under token %d until %s UTC, unless it renews. Nothing was done.", e.Holder, e.Token, e.ExpiresAt.UTC().Format("15:04:05"))
	case e.Code == publish.ErrPreconditionFailed && e.Operation == publish.OperationBreak && e.GrantedToken == 0:
		return fmt.Sprintf("The lease of %q is over already: it was given back, or ran out. Nothing was done.", e.Holder)
	case e.Code == publish.ErrPreconditionFailed && e.Operation == publish.OperationBreak:
		return fmt.Sprintf("That lease is over already. %q holds the key now, under token %d. Nothing was done.", e.Holder, e.GrantedToken)
	case e.Code == publish.ErrPreconditionFailed && e.Pinned != nil:
		return fmt.Sprintf("%q has pinned the key since (%s). Nothing was done; look at it, then decide.", e.Pinned.By, e.Pinned.Reason)
	case e.Code == publish.ErrPreconditionFailed && e.Current == nil:
		return "The version that you saw isn't current any more, the key has none now. Nothing was done."
	case e.Code == publish.ErrPreconditionFailed:
		return fmt.Sprintf("The version that you saw isn't current any more: %s is. Nothing was done; look at it, then decide.", e.Current)
	case e.Code == publish.ErrPinned && e.Pinned != nil:
		return fmt.Sprintf("%q has pinned the key (%s). Nothing was done; unpin it first.", e.Pinned.By, e.Pinned.Reason)
	case e.Code == publish.ErrGenerationCollected:
		return "That version was given up by the retention policy. Nothing was done; choose another one."
	}
	return saidField(e)
}

// saidField is the detail of a refusal. A field of it is named as it is in the form, where it is no header and no pointer into JSON.
func saidField(e *publish.Error) string {
	if len(e.Fields) == 0 {
		return e.Detail
	}
	switch field := e.Fields[0]; field.Pointer {
	case publish.HeaderBy, "/holder":
		return "by: " + field.Detail
	case headerIdempotency:
		return "This form has done something else already. Nothing was done now; send it again to do this too."
	}
	return strings.TrimPrefix(e.Detail, "/")
}

func lastSegment(key publish.Key) string {
	return string(key[strings.LastIndexByte(string(key), '/')+1:])
}
