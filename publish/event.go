package publish

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// EventKind says what happened to a key.
type EventKind string

// The kinds of events. More may come; readers pass over those that they don't know.
const (
	EventPublished  EventKind = "published"
	EventRolledBack EventKind = "rolled-back"
	EventRetired    EventKind = "retired"
	// EventRejected is a stale request that was refused: once for each, however often it is repeated.
	EventRejected EventKind = "rejected"
	// EventTakenOver is a grant of a key whose lease the holder before had not given back.
	EventTakenOver   EventKind = "taken-over"
	EventPinned      EventKind = "pinned"
	EventUnpinned    EventKind = "unpinned"
	EventLeaseBroken EventKind = "lease-broken"
	// EventRestored begins an epoch: the database was restored or a standby was promoted. What follows the cursor of a reader may never have happened
	// in this history, so it should look at the current versions anew. It has no key, and every prefix includes it.
	EventRestored EventKind = "restored"
)

// EventCursor is the place of an event: the epoch in which it was numbered, and its number. Numbers go on one by one, over epochs too.
// Cursors are compared as pairs, so that of a lost history precedes everything of the next epoch.
type EventCursor struct{ Epoch, N int64 }

var (
	// OldestEvent precedes every event.
	OldestEvent = EventCursor{}
	// NewestEvent follows every event.
	NewestEvent = EventCursor{Epoch: int64(MaxToken), N: int64(MaxToken)}
)

// Compare orders cursors, as cmp.Compare does.
func (c EventCursor) Compare(other EventCursor) int {
	return cmp.Or(cmp.Compare(c.Epoch, other.Epoch), cmp.Compare(c.N, other.N))
}

// String gives the cursor as "<epoch>-<n>".
func (c EventCursor) String() string { return fmt.Sprintf("%d-%d", c.Epoch, c.N) }

// ParseEventCursor reads "<epoch>-<n>", in digits alone. The error is an *Error of kind invalid-request.
func ParseEventCursor(text string) (EventCursor, error) {
	epoch, n, _ := strings.Cut(text, "-")
	var c EventCursor
	var errs [2]error
	c.Epoch, errs[0] = strconv.ParseInt(epoch, 10, 64)
	c.N, errs[1] = strconv.ParseInt(n, 10, 64)
	if errs[0] != nil || errs[1] != nil || c.String() != text || c.Epoch < 0 || c.N < 0 || c.Compare(NewestEvent) > 0 || c.N > NewestEvent.N {
		return EventCursor{}, invalid("cursor", `must be the cursor of an event, such as "0-17"; 0-0 begins at the oldest event that is kept`)
	}
	return c, nil
}

// MarshalText writes "<epoch>-<n>".
func (c EventCursor) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads "<epoch>-<n>".
func (c *EventCursor) UnmarshalText(text []byte) error {
	parsed, err := ParseEventCursor(string(text))
	if err != nil {
		return err
	}
	*c = parsed
	return nil
}

// Event is one thing that happened. Members beside the first ones are set only where the kind has them.
type Event struct {
	Cursor EventCursor `json:"cursor"`
	Kind   EventKind   `json:"kind"`
	// Key is empty for restored alone.
	Key Key `json:"key,omitempty"`
	// Token and Revision are what the event is about: the version that was published, pinned or unpinned; the grant that took over or
	// retired; the token that was rejected, or whose lease was broken.
	Token    Token `json:"token,omitempty"`
	Revision int64 `json:"revision,omitempty"`
	// At is when it happened, by the database's clock. It may be a little earlier than that of an event of another key before it.
	At Time `json:"at"`
	// By is who did it: the publisher, the operator, the holder of the new lease, or the holder of the rejected token ("" when nothing is known of it).
	By string `json:"by,omitempty"`
	// Reason is that of an operator, or why the epoch was raised.
	Reason string `json:"reason,omitempty"`

	// Previous is the version that was current before: of published, rolled-back and retired.
	Previous *Version `json:"previous,omitempty"`
	// RollbackTo is the version that was brought back.
	RollbackTo     *Version `json:"rollback_to,omitempty"`
	ManifestDigest *Digest  `json:"manifest_digest,omitempty"`
	Final          bool     `json:"final,omitempty"`
	Primary        Path     `json:"primary,omitempty"`
	ContentType    string   `json:"content_type,omitempty"`
	Files          int64    `json:"files,omitempty"`
	Bytes          int64    `json:"bytes,omitempty"`
	LeaseExpired   bool     `json:"lease_expired,omitempty"`
	// URL is the permanent address of the primary file, set by the server.
	URL string `json:"url,omitempty"`

	// Operation, Path and what follows are of rejected; see Rejection. The record counts repeats, which are no events.
	Operation     string `json:"operation,omitempty"`
	Path          Path   `json:"path,omitempty"`
	AcceptedToken Token  `json:"accepted_token,omitempty"`
	GrantedToken  Token  `json:"granted_token,omitempty"`
	SupersededBy  string `json:"superseded_by,omitempty"`
	SupersededAt  *Time  `json:"superseded_at,omitempty"`
	OverrunMillis int64  `json:"overrun_ms,omitempty"`

	// From is whose lease ended without being given back: of taken-over and lease-broken.
	From *EndedLease `json:"from,omitempty"`
}

// Version is the version that the event is about; its Revision is 0 where it is about a grant.
func (e Event) Version() Version { return Version{Token: e.Token, Revision: e.Revision} }

// EndedLease is a lease that its holder didn't give back.
type EndedLease struct {
	Token  Token  `json:"token"`
	Holder string `json:"holder"`
	// EndedAt is when it ran out or was ended.
	EndedAt *Time `json:"lease_ended_at,omitempty"`
}
