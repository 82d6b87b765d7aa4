package web

import (
	"strings"

	"github.com/pawlhq/pawl/publish"
)

// ofEvent tells an event in the words of a key's history.
func ofEvent(e publish.Event) moment {
	m := moment{At: e.At, Token: e.Token, Revision: e.Revision, Reason: e.Reason, Previous: e.Previous}
	switch e.Kind {
	case publish.EventPublished:
		m.Kind, m.Said = momentPublished, publishedAs(say(theirs(e.By)), e.Version(), e.Files, e.Bytes)
	case publish.EventRolledBack:
		m.Kind, m.Said = momentRolledBack, say(theirs(e.By), " brought an earlier version back as ", e.Version())
		if e.RollbackTo != nil {
			m.Said = broughtBack(say(theirs(e.By)), *e.RollbackTo, e.Version())
		}
	case publish.EventRetired:
		m.Kind, m.Said = momentRetired, retiredUnder(say(theirs(e.By)), e.Token, e.Previous)
	case publish.EventRejected:
		m = refusal(refusedOnce(publish.Rejection{
			Token: e.Token, Operation: e.Operation, Path: e.Path, Holder: e.By, AcceptedToken: e.AcceptedToken, GrantedToken: e.GrantedToken,
			SupersededBy: e.SupersededBy, SupersededAt: e.SupersededAt, FirstAt: e.At, LastAt: e.At, Repeat: 1, OverrunMillis: e.OverrunMillis,
		}), false)
	case publish.EventTakenOver:
		m.Kind, m.Said = momentTakenOver, say(theirs(e.By), " took the key over with token ", e.Token)
		if e.From != nil {
			m.Said = tookOver(say(theirs(e.By)), e.Token, e.At, e.From.Holder, e.From.Token, e.From.EndedAt)
		}
	case publish.EventPinned:
		m.Kind, m.Said = momentPinned, say(theirs(e.By), " pinned the key to ", e.Version())
	case publish.EventUnpinned:
		m.Kind, m.Said = momentUnpinned, say(theirs(e.By), " unpinned the key")
	case publish.EventLeaseBroken:
		m.Kind, m.Said = momentBroken, say(theirs(e.By), " ended the lease of token ", e.Token)
		if e.From != nil {
			m.Said = brokeLease(e.By, e.From.Holder, e.From.Token)
		}
	case publish.EventRestored:
		m.Kind, m.Said = momentEpoch, say("Epoch ", e.Cursor.Epoch, " begins: the database has lost a part of its history, and what was told before may not have happened in this one")
	default: // Servers of a later version may tell of more.
		m.Kind, m.Said = strings.ReplaceAll(string(e.Kind), "-", " "), say("by ", theirs(e.By))
	}
	return m
}
