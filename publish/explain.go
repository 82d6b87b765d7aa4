package publish

import (
	"fmt"
	"strings"
)

// explain gives the sentence for people that a refusal's facts amount to. Stores return facts; the sentence is made
// here, once, so that every store says the same.
func explain(e *Error) string {
	if e.ReuseFrom != 0 {
		return explainReuse(e)
	}
	switch e.Code {
	case ErrNotFound:
		switch {
		case e.Revision != 0:
			return fmt.Sprintf("generation %d of this key has no published revision %d", e.Token, e.Revision)
		case e.Path != "":
			return fmt.Sprintf("there is no file %q in generation %d of this key", e.Path, e.Token)
		case e.Token != 0:
			return fmt.Sprintf("there is no generation %d of this key", e.Token)
		}
		return "there is no such key"
	case ErrStaleToken:
		return explainStale(e)
	case ErrUnknownToken:
		return fmt.Sprintf("token %d was never granted for this key; the newest is %d", e.Token, e.GrantedToken)
	case ErrLeaseLost:
		if e.Released() {
			return fmt.Sprintf("the lease of token %d was given back under its own lease_id, and nobody was granted the key since; acquire the key again", e.Token)
		}
		if e.Token == 0 || e.Token == e.GrantedToken {
			return fmt.Sprintf("this lease_id isn't the running grant of the key, whose newest token is %d; acquire the key again", e.GrantedToken)
		}
		return fmt.Sprintf("the grant of token %d is over: the key's newest token is %d; acquire the key again", e.Token, e.GrantedToken)
	case ErrLeaseHeld:
		return fmt.Sprintf("%q holds the key under token %d", e.Holder, e.Token)
	case ErrTokenExhausted:
		return "the key's counter is at its end; use another key"
	case ErrGenerationSealed:
		return fmt.Sprintf("generation %d had its final publish; its files can't change any more", e.Token)
	case ErrGenerationCollected:
		return fmt.Sprintf("generation %d was given up by the retention policy", e.Token)
	case ErrGenerationIncomplete:
		return explainIncomplete(e)
	case ErrOlderSource:
		return fmt.Sprintf("the current version %s was made from a newer source_revision", current(e))
	case ErrPreconditionFailed:
		return fmt.Sprintf("the current version is %s, not the one that the request asked for", current(e))
	case ErrDigestMismatch:
		return "the manifest is not the promised one; nothing was published"
	default:
		return e.Code.Kind().Title
	}
}

func explainStale(e *Error) string {
	switch {
	case e.AcceptedToken > e.Token:
		return fmt.Sprintf("token %d is stale: token %d of %q was accepted; this is final for token %d", e.Token, e.AcceptedToken, e.Holder, e.Token)
	case e.GrantedToken > e.Token:
		return fmt.Sprintf("token %d is stale: token %d was granted to %q; this is final for token %d", e.Token, e.GrantedToken, e.Holder, e.Token)
	default:
		return fmt.Sprintf("token %d is stale: it was granted in a history that the database has lost", e.Token)
	}
}

func explainIncomplete(e *Error) string {
	var why []string
	add := func(paths []Path, format string) {
		if len(paths) > 0 {
			why = append(why, fmt.Sprintf(format, len(paths), paths[0]))
		}
	}
	add(e.Missing, "%d paths are missing, e.g. %q")
	add(e.Empty, "%d expected files are empty, e.g. %q; upload them again, or allow it with allow_empty")
	add(e.Failed, "%d uploads failed, e.g. %q; upload these paths again or delete them")
	add(e.Pending, "%d uploads are not complete, e.g. %q; finish them, upload these paths again or delete them")
	if why == nil {
		return "the generation has no complete file; upload one first"
	}
	return strings.Join(why, "; ")
}

// explainReuse is about the generation that a publish wanted to carry files over from.
func explainReuse(e *Error) string {
	switch e.Code {
	case ErrNotFound:
		return fmt.Sprintf("reuse_from: generation %d of this key doesn't exist, or nothing was published in it; name a published one", e.ReuseFrom)
	case ErrGenerationCollected:
		return fmt.Sprintf("reuse_from: generation %d was given up by the retention policy; reuse another one", e.ReuseFrom)
	}
	switch {
	case e.Current != nil && e.Current.Token == e.Token:
		return fmt.Sprintf("reuse_from names generation %d, which isn't the one that generation %d has replaced by its first publish; reuse that one, or say reuse_stale to carry other files over nevertheless",
			e.ReuseFrom, e.Token)
	case e.Current == nil:
		return fmt.Sprintf("reuse_from names generation %d, but the key has no current version", e.ReuseFrom)
	default:
		return fmt.Sprintf("reuse_from names generation %d, but the current version is %s; reuse that one, or say reuse_stale to carry older files over nevertheless",
			e.ReuseFrom, current(e))
	}
}

func current(e *Error) string {
	if e.Current == nil {
		return "none"
	}
	return e.Current.String()
}
