package publish

import (
	"context"
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

// AuditEntry is one change that a person made, or one request that was refused.
type AuditEntry struct {
	ID int64    `json:"id"`
	At Time     `json:"at"`
	By Operator `json:"by"`
	// Action is "rollback", "retire", "pin", "unpin", "break-lease", "policy", "create-credential", "rotate-credential", "revoke-credential" or "sign-out"; Subject
	// is the key, the prefix of the policy, or the id of the credential or of who was signed out.
	Action  string `json:"action"`
	Subject string `json:"subject"`
	// Before and After are what was changed, as JSON; absent where there was or is nothing.
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
	// From is the address of the client, "" for what was done on the database itself.
	From string `json:"from,omitempty"`
	// Token is the fencing token that the change was made with; of a pin that of the version which is kept, of a broken lease that of its grant.
	Token Token `json:"token,omitempty"`
	// Refused is why nothing was changed; "" is for a change. There is one entry a minute at most for the same By, Action and Subject.
	Refused Code `json:"refused,omitempty"`
}

// AuditPage is one page of entries, newest first.
type AuditPage struct {
	Entries []AuditEntry `json:"entries"`
	// Next is the before of the next page, 0 on the last one. A page may hold fewer entries than its limit, and none, before the last one.
	Next int64 `json:"next,omitempty"`
}

// namedActions are those of entries whose subject is a key or a prefix.
var namedActions = []string{"rollback", "retire", "pin", "unpin", "break-lease", "policy"}

// NamedAuditActions lists the actions of entries whose subject is a key or a prefix.
func NamedAuditActions() []string { return slices.Clone(namedActions) }

// In reports whether an entry is for somebody with a reach: one about a key or a prefix, and one of a refusal, is when the reach holds the key of that name, with which it
// also holds all that is below; one about something that has scopes, as its After says, or else its Before, when these are within the reach; any other one when it holds every key.
func (e AuditEntry) In(reach Reach) bool {
	if e.Refused != "" || slices.Contains(namedActions, e.Action) {
		return reach.Has(Key(e.Subject))
	}
	facts := e.After
	if facts == nil {
		facts = e.Before
	}
	var about struct {
		Scopes Scopes `json:"scopes"`
	}
	if json.Unmarshal(facts, &about) != nil || about.Scopes == nil {
		return reach.All()
	}
	return about.Scopes.Within(reach)
}

// AuditKind is a kind of entries.
type AuditKind string

// The kinds of entries; "" is all of them.
const (
	AuditChanges  AuditKind = "changed"
	AuditRefusals AuditKind = "refused"
)

// ParseAuditKind reads one of these words, or "". The error is an *Error of kind invalid-request that names the field only.
func ParseAuditKind(text string) (AuditKind, error) {
	switch kind := AuditKind(text); kind {
	case "", AuditChanges, AuditRefusals:
		return kind, nil
	}
	return "", invalid("only", "must be %s or %s; leave it out for both", AuditChanges, AuditRefusals)
}

// AuditRequest asks for a page of the audit.
type AuditRequest struct {
	// Reach is whose entries are looked for; see AuditEntry.In.
	Reach Reach
	// Prefix is how the Subject begins, "" for any.
	Prefix string
	Only   AuditKind
	// Before is the Next of the page before, 0 for the newest entries.
	Before int64
	// Limit is 1 to MaxPageSize; 0 is DefaultPageSize.
	Limit int
}

// Chosen reports whether an entry is one that is asked for.
func (r AuditRequest) Chosen(e AuditEntry) bool {
	return e.In(r.Reach) && strings.HasPrefix(e.Subject, r.Prefix) && (r.Only == "" || (r.Only == AuditRefusals) == (e.Refused != ""))
}

// Selective reports whether some entries may not be Chosen, so that more must be looked at than are answered.
func (r AuditRequest) Selective() bool { return !r.Reach.All() || r.Prefix != "" || r.Only != "" }

// MaxAuditSearched bounds how many entries one page of the audit looks at: where few are such as are asked for, a page is short and yet has a Next.
const MaxAuditSearched = 2000

// RefusedAction is what somebody was not allowed to do.
type RefusedAction struct {
	By     Operator // the name of the credential
	Action string   // as in AuditEntry, or what else was asked for, such as "publish": 1 to MaxActionBytes
	// Subject is the key, or "" for an action that is about none.
	Subject string
	Code    Code // why, such as ErrForbidden
}

// MaxActionBytes bounds the Action of a RefusedAction.
const MaxActionBytes = 64

// AuditStore is the part of PointerStore that keeps the record of who changed what. Entries are made by the calls that change something, in their own transactions, with the
// address that WithClient has put into the context; they are kept for ever, and none changes.
type AuditStore interface {
	// Audit returns entries that are chosen (AuditRequest.Chosen), newest first.
	Audit(ctx context.Context, req AuditRequest) (AuditPage, error)
	// RecordRefusal makes an entry of a refused request, unless there is one of the same By, Action and Subject in this minute.
	RecordRefusal(ctx context.Context, refused RefusedAction) error
}

type clientKey struct{}

// WithClient tells the calls under a context for whom they work: the address stands in the audit. The zero Addr is nobody known.
func WithClient(ctx context.Context, client netip.Addr) context.Context {
	return context.WithValue(ctx, clientKey{}, client)
}

// ClientOf returns what WithClient has put into a context, or the zero Addr.
func ClientOf(ctx context.Context) netip.Addr {
	client, _ := ctx.Value(clientKey{}).(netip.Addr) //nolint:errcheck // Nobody known is the zero Addr.
	return client
}

// Audit returns one page of what people changed, and were refused.
func (s *Service) Audit(ctx context.Context, req AuditRequest) (AuditPage, error) {
	var err error
	if req.Limit, err = pageLimit(req.Limit); err != nil {
		return AuditPage{}, err
	}
	if req.Prefix, err = ParsePrefix(req.Prefix); err != nil {
		return AuditPage{}, err
	}
	page, err := s.Pointers.Audit(ctx, req)
	return page, s.refused(ctx, err)
}

// RecordRefusal puts a refused request into the audit. Call it for callers whose name is known alone: others could fill the audit. The refusal itself
// holds, whatever comes of the record. Repeats within a minute cost no round trip, and of one caller no more than 100 different ones are
// recorded a minute: what is beyond them is one line of the log.
func (s *Service) RecordRefusal(ctx context.Context, refused RefusedAction) error {
	if err := refused.By.validate(); err != nil {
		return err
	}
	if refused.Action == "" || len(refused.Action) > MaxActionBytes || textFault(refused.Action) != "" {
		return invalid("action", "must have 1 to %d bytes of text", MaxActionBytes)
	}
	if refused.Code == "" {
		return invalid("code", "is missing")
	}
	switch s.refusals.add(refused, time.Now()) {
	case refusalKnown:
		return nil
	case refusalBeyond:
		s.log().WarnContext(ctx, "refusals_not_audited", "by", string(refused.By), "limit", maxRefusals)
		return nil
	}
	err := s.Pointers.RecordRefusal(ctx, refused)
	if err != nil {
		s.refusals.forget(refused)
	}
	return s.refused(ctx, err)
}

// Bounds of what is recorded, and remembered, of one minute: for one caller, and for all.
const (
	maxRefusals      = 100
	maxRefusalMemory = 10_000
)

type refusalVerdict int

const (
	refusalNew refusalVerdict = iota
	refusalKnown
	refusalBeyond // for the first time in this minute; later ones are known
)

// refusalMemory holds what was refused in this minute, so that a flood of refusals is none of transactions. The zero value is ready.
type refusalMemory struct {
	mu     sync.Mutex
	minute int64
	seen   map[RefusedAction]struct{}
	counts map[Operator]int
}

func (m *refusalMemory) add(refused RefusedAction, now time.Time) refusalVerdict {
	m.mu.Lock()
	defer m.mu.Unlock()
	if minute := now.Unix() / 60; m.seen == nil || minute != m.minute {
		m.minute, m.seen, m.counts = minute, map[RefusedAction]struct{}{}, map[Operator]int{}
	}
	if _, known := m.seen[refused]; known {
		return refusalKnown
	}
	if m.counts[refused.By] >= maxRefusals || len(m.seen) >= maxRefusalMemory {
		m.counts[refused.By]++
		if m.counts[refused.By] == maxRefusals+1 {
			return refusalBeyond
		}
		return refusalKnown
	}
	m.seen[refused] = struct{}{}
	m.counts[refused.By]++
	return refusalNew
}

// forget lets a refusal be recorded that could not be.
func (m *refusalMemory) forget(refused RefusedAction) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.seen[refused]; known {
		delete(m.seen, refused)
		m.counts[refused.By]--
	}
}
