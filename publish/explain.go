package publish

import (
	"cmp"
	"fmt"
	"strings"
)

// explain gives the sentence for people that a refusal's facts amount to. Stores return facts; the sentence is made
// here, once, so that every store says the same.
func explain(e *Error) string {
	if e.ReuseFrom != 0 {
		return explainReuse(e)
	}
	if e.Operation == KindRollback && e.Token != 0 {
		return explainRollback(e)
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
		if e.Operation == OperationCredential {
			return "there is no such credential"
		}
		if e.Operation == OperationPin {
			return "nothing was published under this key; there is nothing to pin"
		}
		return "there is no such key"
	case ErrUnauthorized:
		return "this credential is not known here, was revoked or has expired"
	case ErrStaleToken:
		return explainStale(e)
	case ErrUnknownToken:
		return fmt.Sprintf("token %d was never granted for this key; the newest is %d", e.Token, e.GrantedToken)
	case ErrLeaseLost:
		if e.Broken != nil {
			return fmt.Sprintf("%q has broken the lease of token %d (%s); acquire the key again", e.Broken.By, e.Token, e.Broken.Reason)
		}
		if e.Released() {
			return fmt.Sprintf("the lease of token %d was given back under its own lease_id, and nobody was granted the key since; acquire the key again", e.Token)
		}
		if e.Token == 0 || e.Token == e.GrantedToken {
			return fmt.Sprintf("this lease_id isn't the running grant of the key, whose newest token is %d; acquire the key again", e.GrantedToken)
		}
		return fmt.Sprintf("the grant of token %d is over: the key's newest token is %d; acquire the key again", e.Token, e.GrantedToken)
	case ErrLeaseHeld:
		if e.Operation == KindRetire {
			return fmt.Sprintf("%q holds the key under token %d; say break_lease to end that lease", e.Holder, e.Token)
		}
		return fmt.Sprintf("%q holds the key under token %d", e.Holder, e.Token)
	case ErrTokenExhausted:
		return fmt.Sprintf("the key's counter is at its end, %d: no more tokens can be granted, and it can't be set back; publish under another key, and point readers there",
			MaxToken)
	case ErrGenerationSealed:
		return fmt.Sprintf("generation %d had its final publish; its files can't change any more", e.Token)
	case ErrGenerationCollected:
		if e.Operation != "" {
			return fmt.Sprintf("generation %d was given up by the retention policy: nothing comes of it any more; acquire the key again to work on it anew", e.Token)
		}
		return fmt.Sprintf("generation %d was given up by the retention policy", e.Token)
	case ErrGenerationIncomplete:
		return explainIncomplete(e)
	case ErrPinned:
		return explainPinned(e)
	case ErrCursorExpired:
		if e.Newest != nil {
			return fmt.Sprintf("this cursor is ahead of the newest event, %s: it is of another database, or of one that was put back; look at the current versions anew, then go on after %[1]s", e.Newest)
		}
		return fmt.Sprintf("events after this cursor were removed, so some would be missed; look at the current versions anew, then go on after %s", e.Oldest)
	case ErrRetired:
		if e.Retired == nil {
			return "the key is retired"
		}
		return fmt.Sprintf("%q has retired the key under token %d (%s); publishing it again revives it",
			e.Retired.By, e.Retired.Token, cmp.Or(e.Retired.Reason, "no reason given"))
	case ErrOlderSource:
		return fmt.Sprintf("the current version %s was made from a newer source_revision", current(e))
	case ErrPreconditionFailed:
		if e.Pinned != nil {
			return fmt.Sprintf("%q has pinned the key (%s) at %s, which isn't the pin that the request saw", e.Pinned.By, e.Pinned.Reason, e.Pinned.At.Text())
		}
		if e.Operation == OperationBreak {
			return fmt.Sprintf("the lease of token %d is over, and %q holds the key under token %d, whose lease was not broken", e.Token, e.Holder, e.GrantedToken)
		}
		return fmt.Sprintf("the current version is %s, not the one that the request asked for", current(e))
	case ErrInvalidRequest, ErrCredentialConflict:
		if len(e.Fields) > 0 {
			return e.Fields[0].Pointer + ": " + e.Fields[0].Detail
		}
		return e.Code.Kind().Title
	case ErrTooLarge:
		switch {
		case e.Unit == UnitFiles:
			return fmt.Sprintf("generation %d would have %s files, more than the %d that PAWL_LIMIT_FILES allows", e.Token, e.Came, e.Limit)
		case e.Operation == OperationUpload:
			return fmt.Sprintf("generation %d would have %s bytes, more than the %d that PAWL_LIMIT_GENERATION allows; delete files of it, or upload less", e.Token, e.Came, e.Limit)
		case e.Operation == OperationPublish:
			return fmt.Sprintf("generation %d has uploaded %s bytes, more than the %d that the key's policy, or PAWL_LIMIT_GENERATION, allows", e.Token, e.Came, e.Limit)
		}
		return fmt.Sprintf("the file is larger than %d bytes, which the key's policy allows", e.Limit)
	case ErrQuotaExceeded:
		switch e.Unit {
		case UnitLeases:
			return fmt.Sprintf("%d leases of yours are open, which is all that PAWL_LIMIT_LEASES allows one credential; release some, or acquire again once some have run out", e.Limit)
		case UnitUploads:
			return fmt.Sprintf("%d direct uploads of yours are open, which is all that PAWL_LIMIT_DIRECT allows one credential; complete or abort some, or PUT the file instead", e.Limit)
		}
		return e.Code.Kind().Title
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

func explainPinned(e *Error) string {
	cure := "unpin it first"
	if e.Operation == KindRollback {
		cure = "say pin to let the pin move along, or unpin it first"
	}
	if e.Pinned == nil {
		return "the key is pinned; " + cure
	}
	return fmt.Sprintf("%q has pinned the key to version %s (%s); %s", e.Pinned.By, current(e), e.Pinned.Reason, cure)
}

// explainRollback is about the version that a rollback wanted to bring back.
func explainRollback(e *Error) string {
	switch e.Code {
	case ErrGenerationCollected:
		return fmt.Sprintf("to: generation %d was given up by the retention policy; bring another one back", e.Token)
	case ErrNotFound:
		if e.Revision != 0 {
			return fmt.Sprintf("to: generation %d of this key has no published revision %d", e.Token, e.Revision)
		}
		return fmt.Sprintf("to: generation %d of this key doesn't exist, or nothing was published in it; bring a published one back", e.Token)
	case ErrLeaseHeld:
		return fmt.Sprintf("%q holds the key under token %d; say break_lease to end that lease", e.Holder, e.Token)
	}
	return e.Code.Kind().Title
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
