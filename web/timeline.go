package web

import (
	"fmt"
	"slices"

	"github.com/pawlhq/pawl/publish"
)

// The kinds of moments in a key's history, as their badges name them.
const (
	momentGranted     = "granted"
	momentTakenOver   = "taken over"
	momentPublished   = "published"
	momentRejected    = "refused"
	momentUnpublished = "never current"
	momentRolledBack  = "rolled back"
	momentRetired     = "retired"
	momentPinned      = "pinned"
	momentUnpinned    = "unpinned"
	momentBroken      = "lease broken"
	momentEpoch       = "new epoch"
)

// moment is one thing that happened to a key.
type moment struct {
	Kind string
	At   publish.Time
	// Token is what it is about, 0 for none; Revision is set for what was published.
	Token    publish.Token
	Revision int64
	Said     sentence
	// Notes are further sentences.
	Notes []sentence
	// Reason is what an operator gave.
	Reason string
	// Previous is what was current before a publish.
	Previous *publish.Version
	// Current marks the version that is current, Collected one whose bytes are gone or going.
	Current, Collected bool
	// Lost marks what is about a token of which nothing is known.
	Lost bool
	// Looping marks a stale request that is repeated as if it could succeed.
	Looping bool
}

// Version is the version that was published.
func (m moment) Version() publish.Version {
	return publish.Version{Token: m.Token, Revision: m.Revision}
}

func (m *moment) note(parts ...any) { m.Notes = append(m.Notes, say(parts...)) }

// Tone is how the kind looks, as a class of the style sheet.
func (m moment) Tone() string {
	switch m.Kind {
	case momentPublished:
		return "good"
	case momentRejected:
		return "bad"
	case momentTakenOver, momentRetired, momentEpoch, momentBroken:
		return "warn"
	case momentRolledBack, momentPinned, momentUnpinned:
		return "held"
	}
	return "plain"
}

// timeline tells the history of a key, newest first. generations are a page of it, newest first; older is the one that follows, nil at the
// beginning of the key. newer says that pages with newer generations come before, and with it what holds for the key as a whole is left out.
// epoch is the one in force, nil if it was never raised.
func timeline(page publish.HistoryPage, older *publish.Generation, newer bool, epoch *publish.Epoch) []moment {
	var told []moment
	for i, g := range page.Generations {
		before := older
		if i+1 < len(page.Generations) {
			before = &page.Generations[i+1]
		}
		// What came last is told first, so that the sort, which is stable, leaves moments of one and the same time in their order.
		told = append(told, refusals(g.Rejections, g.Refused)...)
		told = append(told, unpublished(g, newer || i > 0)...)
		for _, receipt := range g.Receipts {
			told = append(told, published(g, before, receipt))
		}
		switch g.Kind {
		case publish.KindRollback: // Its receipt tells.
		case publish.KindRetire:
			told = append(told, retirement(g, before))
		default:
			told = append(told, broken(g)...)
			told = append(told, grant(g, before))
		}
		if before != nil && epochOf(g.Token) > epochOf(before.Token) {
			told = append(told, newEpoch(g, epoch))
		}
	}
	if !newer {
		told = append(told, refusals(page.Lost, nil)...)
		if page.Pinned != nil {
			told = append(told, moment{
				Kind: momentPinned, At: page.Pinned.At, Reason: page.Pinned.Reason,
				Said: say(theirs(page.Pinned.By), " pinned the key to what was current: publishes are refused until it is unpinned"),
			})
		}
	}
	slices.SortStableFunc(told, func(a, b moment) int { return b.At.Compare(a.At.Time) })
	return told
}

// grant tells that a worker was granted a key, and from whom it took it over.
func grant(g publish.Generation, before *publish.Generation) moment {
	m := moment{Kind: momentGranted, At: g.GrantedAt, Token: g.Token, Collected: collected(g)}
	if before != nil && before.LeaseEndedAt != nil && before.SealedAt == nil && before.Kind == "" {
		m.Kind = momentTakenOver
		m.Said = tookOver(who(g.Holder, g.Actor), g.Token, g.GrantedAt, before.Holder, before.Token, before.LeaseEndedAt)
	} else {
		m.Said = say(who(g.Holder, g.Actor), " was granted token ", g.Token)
	}
	switch {
	case g.Broken != nil: // That is told by itself.
	case g.ReleasedAt != nil:
		m.note("It held the key for ", span(g.ReleasedAt.Sub(g.GrantedAt.Time)), " and gave it back.")
	case g.LeaseEndedAt != nil:
		m.note("It held the key for ", span(g.LeaseEndedAt.Sub(g.GrantedAt.Time)), " and never gave it back.")
	}
	return m
}

// broken tells that an operator has ended the lease of a grant.
func broken(g publish.Generation) []moment {
	if g.Broken == nil {
		return nil
	}
	return []moment{{Kind: momentBroken, At: g.Broken.At, Token: g.Token, Reason: g.Broken.Reason, Said: brokeLease(string(g.Broken.By), g.Holder, g.Token)}}
}

// brokeLease says that an operator has ended a lease.
func brokeLease(by, holder string, token publish.Token) sentence {
	return say(theirs(by), " ended the lease of ", theirs(holder), " (token ", token, ")")
}

// tookOver says that a holder was granted a key that another one hadn't given back. ended is when that one's lease was over, nil if that isn't known.
func tookOver(holder sentence, token publish.Token, at publish.Time, from string, old publish.Token, ended *publish.Time) sentence {
	s := say(holder, " took the key over with token ", token, ": the lease of ", theirs(from), " (token ", old, ") had ended")
	if ended != nil && at.After(ended.Time) {
		s = s.and(" ", span(at.Sub(ended.Time)), " before")
	}
	return s
}

// publishedAs says what a worker has published.
func publishedAs(publisher sentence, version publish.Version, files, bytes int64) sentence {
	return say(publisher, " published ", version, ": ", plural(files, "file"), ", ", humanBytes(bytes))
}

// broughtBack says what an operator has published again.
func broughtBack(by sentence, to, version publish.Version) sentence {
	return say(by, " brought ", to, " back as ", version)
}

// retiredUnder says that an operator took a key's pointer away. previous is what was current, nil for nothing.
func retiredUnder(by sentence, token publish.Token, previous *publish.Version) sentence {
	s := say(by, " retired the key under token ", token)
	if previous != nil {
		s = s.and(": ", *previous, " was current until then")
	}
	return s
}

// published tells of one receipt: the publish of a worker, or a rollback.
func published(g publish.Generation, before *publish.Generation, r publish.Receipt) moment {
	m := moment{
		Kind: momentPublished, At: r.PublishedAt, Token: r.Token, Revision: r.Revision, Previous: r.Previous,
		Current: g.Current && r.Revision == g.Revision, Collected: collected(g),
	}
	if r.RollbackTo != nil {
		m.Kind, m.Reason = momentRolledBack, r.Reason
		m.Said = broughtBack(who(r.Publisher, r.Actor), *r.RollbackTo, r.Version())
		m.noteBroken(g, before)
		return m
	}
	m.Said = publishedAs(who(r.Publisher, r.Actor), r.Version(), r.Files, r.Bytes)
	if r.Revision == 1 {
		m.Said = m.Said.and(", ", span(r.PublishedAt.Sub(g.GrantedAt.Time)), " after its grant")
	}
	if r.ReusedFiles > 0 {
		from := ""
		if r.ReuseFrom != 0 {
			from = fmt.Sprintf(" from generation %d", r.ReuseFrom)
		}
		m.note(plural(r.ReusedFiles, "file"), " (", humanBytes(r.ReusedBytes), ") carried over", from, ".")
	}
	if r.LeaseExpired {
		m.note("Its lease had run out, but nobody newer had published, so this was accepted.")
	}
	if !r.Final {
		m.note("Not the last one of its generation: more may follow.")
	}
	return m
}

// retirement tells that a key's pointer was taken away.
func retirement(g publish.Generation, before *publish.Generation) moment {
	m := moment{Kind: momentRetired, At: g.GrantedAt, Token: g.Token, Reason: g.Reason, Said: retiredUnder(who(g.Holder, g.Actor), g.Token, g.Target)}
	m.noteBroken(g, before)
	return m
}

// noteBroken tells whose lease an operator's grant has ended. One that had run out before had ended by itself.
func (m *moment) noteBroken(g publish.Generation, before *publish.Generation) {
	if before != nil && before.LeaseEndedAt != nil && !before.LeaseEndedAt.Before(g.GrantedAt.Time) {
		m.note("This ended the lease of ", theirs(before.Holder), " (token ", before.Token, ").")
	}
}

// unpublished tells of a worker's uploads that never became current, or of a grant that came to nothing. superseded says that a newer
// generation follows; until then they may yet be published.
func unpublished(g publish.Generation, superseded bool) []moment {
	left := g.Uploads.Unpublished + g.Uploads.Pending + g.Uploads.Failed
	over := superseded || g.ReleasedAt != nil
	if g.Kind != "" || !over || g.Revision > 0 && left == 0 {
		return nil
	}
	m := moment{Kind: momentUnpublished, At: endOf(g), Token: g.Token, Collected: collected(g)}
	switch {
	case g.Revision > 0:
		m.Said = say(plural(left, "upload"), " of ", theirs(g.Holder), " under token ", g.Token, " came after its last publish and never became current")
	case left > 0:
		m.Said = say(plural(left, "upload"), " of ", theirs(g.Holder), " under token ", g.Token, " never became current")
	default:
		m.Said = say(theirs(g.Holder), " published nothing under token ", g.Token)
	}
	if broken := g.Uploads.Pending + g.Uploads.Failed; broken > 0 {
		m.note(broken, " of them had not arrived whole.")
	}
	return []moment{m}
}

// endOf is when a grant was over, as far as its generation tells.
func endOf(g publish.Generation) publish.Time {
	switch {
	case g.ReleasedAt != nil:
		return *g.ReleasedAt
	case g.LeaseEndedAt != nil:
		return *g.LeaseEndedAt
	}
	return g.GrantedAt
}

// newEpoch tells that tokens have leapt before a grant.
func newEpoch(g publish.Generation, epoch *publish.Epoch) moment {
	m := moment{
		Kind: momentEpoch, At: g.GrantedAt,
		Said: say("Epoch ", epochOf(g.Token), ": the database had lost a part of its history, so tokens leapt above all that can have been granted in it"),
	}
	if epoch != nil && epoch.Epoch == epochOf(g.Token) {
		m.Reason = epoch.Reason
	}
	return m
}

// epochOf is the epoch that a token was granted in: its tokens lie above its number times 10^9.
func epochOf(token publish.Token) int64 { return (int64(token) - 1) / 1_000_000_000 }

func collected(g publish.Generation) bool {
	return g.State == publish.StateCondemned || g.State == publish.StateCollected
}
