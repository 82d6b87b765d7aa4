package publish

import (
	"fmt"
	"net/http"
	"strings"
)

// Code is the machine-readable kind of an error, as it stands in the `code` member of a problem document.
// A Code is itself an error, so it serves as the sentinel of its kind:
//
//	errors.Is(err, publish.ErrStaleToken)
//
// The same codes are used by the server, the Go client and the command line.
type Code string

// The kinds of error. Their HTTP statuses stand in the table below, which server and client share.
const (
	ErrInvalidKey           Code = "invalid-key"
	ErrInvalidPath          Code = "invalid-path"
	ErrInvalidToken         Code = "invalid-token"
	ErrInvalidRequest       Code = "invalid-request"
	ErrDigestMismatch       Code = "digest-mismatch"
	ErrLengthMismatch       Code = "length-mismatch"
	ErrUnauthorized         Code = "unauthorized"
	ErrForbidden            Code = "forbidden"
	ErrNotFound             Code = "not-found"
	ErrMethodNotAllowed     Code = "method-not-allowed"
	ErrStaleToken           Code = "stale-token"
	ErrGenerationSealed     Code = "generation-sealed"
	ErrGenerationIncomplete Code = "generation-incomplete"
	ErrPinned               Code = "pinned"
	ErrOlderSource          Code = "older-source"
	ErrCredentialConflict   Code = "credential-conflict"
	ErrLeaseLost            Code = "lease-lost"
	ErrGenerationCollected  Code = "generation-collected"
	ErrRetired              Code = "retired"
	ErrCursorExpired        Code = "cursor-expired"
	ErrPreconditionFailed   Code = "precondition-failed"
	ErrTooLarge             Code = "too-large"
	ErrRangeNotSatisfiable  Code = "range-not-satisfiable"
	ErrUnknownToken         Code = "unknown-token"
	ErrLeaseHeld            Code = "lease-held"
	ErrLeaseRequired        Code = "lease-required"
	ErrRateLimited          Code = "rate-limited"
	ErrInternal             Code = "internal"
	ErrUnavailable          Code = "unavailable"
	ErrOutcomeUnknown       Code = "outcome-unknown"
	ErrQuotaExceeded        Code = "quota-exceeded"
	ErrTokenExhausted       Code = "token-exhausted"
)

// Kind describes one Code: what HTTP says for it, its title, and whether repeating the very same request can help.
type Kind struct {
	Code      Code
	Status    int
	Title     string
	Retryable bool
	// Explanation is the text of the page /problems/<code>: what happened and what to do about it.
	Explanation string
}

// kinds is the one table of codes and statuses. Server and client both read it, so an error crosses HTTP unchanged.
var kinds = []Kind{
	{ErrInvalidKey, http.StatusBadRequest, "Invalid key", false, "The key breaks the naming rule: 1 to 400 bytes of UTF-8 in NFC; segments split by / of at most 200 bytes; no empty, '.', '..' or '-' segment; no control character, backslash or bidi control."},
	{ErrInvalidPath, http.StatusBadRequest, "Invalid path", false, "The path of the file breaks the naming rule: like a key's, except that '-' is allowed as a segment."},
	{ErrInvalidToken, http.StatusBadRequest, "Invalid token", false, "A fencing token is a JSON integer from 1 to 9007199254740991, written in digits alone."},
	{ErrInvalidRequest, http.StatusBadRequest, "Invalid request", false, "A field of the request is missing or wrong; the member errors names it and says what is expected."},
	{ErrDigestMismatch, http.StatusBadRequest, "Digest mismatch", false, "The bytes or the manifest are not those that the request promised. Nothing was stored or published."},
	{ErrLengthMismatch, http.StatusBadRequest, "Length mismatch", true, "The body ended before, or went on after, its declared length. Nothing was stored; send it again."},
	{ErrUnauthorized, http.StatusUnauthorized, "Unauthorized", false, "This call needs a credential, or another one: the one that came was never made, was revoked, or has expired. Send it as Authorization: Bearer pawl_c_…, or by Basic authentication as the password of the user pawl. For the files of an open generation the lease_id of its grant will do, as the password of the user lease; a server that asks for no credentials also takes it in the header Pawl-Lease."},
	{ErrForbidden, http.StatusForbidden, "Forbidden", false, "The caller may not do this: its credential lacks the scope that the member scope names, it is a page of another site, or the request came for a host that this server doesn't answer to. Names that lead here by a proxy are listed in the server's setting PAWL_HOSTS."},
	{ErrNotFound, http.StatusNotFound, "Not found", false, "There is no such key, generation, file or route."},
	{ErrMethodNotAllowed, http.StatusMethodNotAllowed, "Method not allowed", false, "The route exists, but not with this method; the Allow header names those that it has."},
	{ErrStaleToken, http.StatusConflict, "Stale token", false, "A newer grant of this key has fenced this token. This is an expected outcome for a worker that was paused: its result is out of date. Drop this output; to work on the key again, acquire it again."},
	{ErrGenerationSealed, http.StatusConflict, "Generation sealed", false, "The generation had its final publish; its files can't change any more. Acquire the key again to publish something else."},
	{ErrGenerationIncomplete, http.StatusConflict, "Generation incomplete", false, "A final publish needs every file complete, and every file that expect names present and not empty unless allow_empty says so. Upload the listed paths again, or delete what isn't wanted, then publish."},
	{ErrPinned, http.StatusConflict, "Pinned", false, "Somebody has pinned the key to its current version; the member pinned says who, when and why. A worker keeps its lease and may publish once the pin is taken away."},
	{ErrOlderSource, http.StatusConflict, "Older source", false, "The current version was made from a newer source_revision than this one."},
	{ErrCredentialConflict, http.StatusConflict, "Credential conflict", false, "The name belongs to another credential, which is neither revoked, expired nor replaced; or the credential to be replaced was revoked, has expired or was replaced already. The member errors says which, and what to do."},
	{ErrLeaseLost, http.StatusGone, "Lease lost", false, "The lease_id is not the grant of this token: it was released, superseded, or never this key's. Acquire the key again."},
	{ErrGenerationCollected, http.StatusGone, "Generation collected", false, "The generation was given up by the retention policy; its files are deleted or about to be. A worker whose own generation it is has lost its lease with it, and acquires the key again to work on it anew."},
	{ErrRetired, http.StatusGone, "Retired", false, "The key was retired: it has no current version. Its history stays, and publishing it again revives it. The member retired says who retired it, when and why."},
	{ErrCursorExpired, http.StatusGone, "Cursor expired", false, "Events behind this cursor were removed, as PAWL_EVENTS_KEEP says, or it is ahead of all events, so it is of another database or of one that was put back. A reader of it would miss some. Look at the current versions anew, then go on from the cursor that the member oldest, or newest, gives."},
	{ErrPreconditionFailed, http.StatusPreconditionFailed, "Precondition failed", false, "The current version is not the one that If-Match or If-None-Match asked for, or not the generation that reuse_from names, or the lease to be broken is over and another grant's runs. For reuse_from: look at what is current now, and reuse that, or say reuse_stale."},
	{ErrTooLarge, http.StatusRequestEntityTooLarge, "Too large", false, "The body, or all that one generation holds, is more than the limit that the member limit gives: in bytes, or in files where the member unit says so. An upload that is refused for it is not stored."},
	{ErrRangeNotSatisfiable, http.StatusRequestedRangeNotSatisfiable, "Range not satisfiable", false, "The Range lies outside the file; Content-Range gives its size."},
	{ErrUnknownToken, http.StatusUnprocessableEntity, "Unknown token", false, "This token was never granted for this key."},
	{ErrLeaseHeld, http.StatusLocked, "Lease held", true, "Another holder has the lease of this key. Try again after Retry-After, or ask with wait."},
	{ErrLeaseRequired, http.StatusPreconditionRequired, "Lease required", false, "This call changes a generation: send the lease_id of its grant in the header Pawl-Lease."},
	{ErrRateLimited, http.StatusTooManyRequests, "Rate limited", true, "You send more requests in a short time, or have more uploads open at once, than this server takes from one caller. Nothing was changed; send it again after Retry-After, and fewer at a time."},
	{ErrInternal, http.StatusInternalServerError, "Internal error", false, "The server failed; its log has the cause under this request_id."},
	{ErrUnavailable, http.StatusServiceUnavailable, "Unavailable", true, "Postgres or the blob store can't be reached just now. Nothing was changed; try again."},
	{ErrOutcomeUnknown, http.StatusServiceUnavailable, "Outcome unknown", true, "The connection to Postgres was lost before its answer came: the change may or may not have happened. Repeating the same request is safe and tells."},
	{ErrQuotaExceeded, http.StatusInsufficientStorage, "Quota exceeded", false, "The blob store has no space left for this body; or, where the member unit is leases, the caller holds as many open as the server allows one credential: release some, or acquire again once some have run out; or, where it is uploads, as many direct uploads: complete or abort some, or PUT the file instead."},
	{ErrTokenExhausted, http.StatusInsufficientStorage, "Token exhausted", false, "The key's counter has reached 9007199254740991, the greatest token. Tokens never wrap; use another key."},
}

// Kinds returns the table of all error kinds, in the order of their statuses. The slice is the caller's own.
func Kinds() []Kind { return append([]Kind(nil), kinds...) }

// Kind returns the description of c. An unlisted code, as a newer server may send, is described as internal
// but keeps its own name.
func (c Code) Kind() Kind {
	for _, k := range kinds {
		if k.Code == c {
			return k
		}
	}
	return Kind{Code: c, Status: http.StatusInternalServerError, Title: "Error " + string(c)}
}

// Error makes a Code usable as a sentinel.
func (c Code) Error() string { return string(c) }

// Field points at one wrong member of a request and says how to cure it.
type Field struct {
	// Pointer is a JSON pointer into the body ("/ttl"), or the name of a header, query parameter or part of the URL.
	Pointer string `json:"pointer"`
	Detail  string `json:"detail"`
}

// Error is a refusal or a failure with its facts. Its Code is the kind, and errors.Is finds it through Unwrap.
// Every member but Code and Detail is set only where its kind has it; in JSON absent facts are left out.
// Error values are immutable once returned.
type Error struct {
	Code   Code   `json:"code"`
	Detail string `json:"detail,omitempty"`

	Key Key `json:"key,omitempty"`
	// Path is that of a file, or the name of an effect.
	Path      Path   `json:"path,omitempty"`
	Operation string `json:"operation,omitempty"`
	// Token is the token that the request named.
	Token Token `json:"token,omitempty"`
	// Revision is the revision of Token's generation that a reader asked for and that was never published.
	Revision int64 `json:"revision,omitempty"`
	// AcceptedToken is the fence: the greatest token that the pointer has accepted, 0 if none.
	AcceptedToken Token `json:"accepted_token,omitempty"`
	// GrantedToken is the key's counter: the greatest token ever granted.
	GrantedToken Token `json:"granted_token,omitempty"`
	// Holder is who has superseded the caller, or who holds the lease that the caller asked for.
	Holder       string `json:"holder,omitempty"`
	SupersededAt *Time  `json:"superseded_at,omitempty"`
	ExpiresAt    *Time  `json:"expires_at,omitempty"`
	// RetryAfterMillis is how long a held lease lasts at most unless it is renewed, by the database's clock; or after which time a request that was
	// one too many may be sent again.
	RetryAfterMillis int64 `json:"retry_after_ms,omitempty"`
	// Repeat counts how often this same stale request was refused, this time included.
	Repeat int `json:"repeat,omitempty"`
	// OverrunMillis is how long after the end of its lease the stale request came.
	OverrunMillis int64 `json:"overrun_ms,omitempty"`
	// Worker is the holder of the stale grant: who came back late. It goes to the log, not to the answer.
	Worker string `json:"-"`
	// Next names what a worker may do instead, e.g. "acquire".
	Next string `json:"next,omitempty"`
	// Scope is what the caller's credential lacks, such as publish:renders/x.
	Scope string `json:"scope,omitempty"`
	// ReuseFrom is the generation that a publish wanted to carry files over from, when it is that one which the refusal is about.
	ReuseFrom Token `json:"reuse_from,omitempty"`

	Current *Version `json:"current,omitempty"`
	// Pinned is the pin that keeps the pointer where it is, Retired what has taken it away.
	Pinned  *Pin        `json:"pinned,omitempty"`
	Retired *Retirement `json:"retired,omitempty"`
	// Oldest is the first cursor that events can be read after.
	Oldest *EventCursor `json:"oldest,omitempty"`
	// Newest is the cursor of the newest event, set instead of Oldest where the one that was asked for is ahead of it.
	Newest *EventCursor `json:"newest,omitempty"`
	// Broken says who broke the lease of Token.
	Broken *Break `json:"broken,omitempty"`
	// Missing, Empty, Failed and Pending list paths that keep a generation from its final publish. Missing are those that
	// were asked for and have no complete file, whatever became of their uploads; Empty were expected to have bytes.
	Missing []Path `json:"missing,omitempty"`
	Empty   []Path `json:"empty,omitempty"`
	Failed  []Path `json:"failed,omitempty"`
	Pending []Path `json:"pending,omitempty"`
	// Promised and Came are digests or lengths as text.
	Promised string `json:"promised,omitempty"`
	Came     string `json:"came,omitempty"`
	// Limit is what would have to be no more than it: bytes, or what Unit says, such as "files".
	Limit  int64   `json:"limit,omitempty"`
	Unit   string  `json:"unit,omitempty"`
	Fields []Field `json:"errors,omitempty"`
	// Paths lists what a set without a primary file holds.
	Paths []Path `json:"paths,omitempty"`

	// Cause is for the log alone; it never reaches a client.
	Cause error `json:"-"`
}

// Error says the code and the detail, and of the fields those that the detail doesn't name.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(string(e.Code))
	if e.Detail != "" {
		b.WriteString(": ")
		b.WriteString(e.Detail)
	}
	for _, f := range e.Fields {
		if text := f.Pointer + ": " + f.Detail; !strings.Contains(e.Detail, text) {
			b.WriteString(" (" + text + ")")
		}
	}
	if e.Cause != nil {
		fmt.Fprintf(&b, ": %v", e.Cause)
	}
	return b.String()
}

// Released reports whether a lease-lost is about the key's newest grant, named by its own lease_id: nobody has taken the lease, its
// holder gave it back and nobody broke it. Uploads and publishes name their Operation, and are refused for another's lease_id alone.
func (e *Error) Released() bool {
	return e.Code == ErrLeaseLost && e.Broken == nil && e.Operation == "" && e.Token != 0 && e.Token == e.GrantedToken
}

// Unwrap joins the error to its sentinel and to its cause.
func (e *Error) Unwrap() []error {
	if e.Cause != nil {
		return []error{e.Code, e.Cause}
	}
	return []error{e.Code}
}

// invalid makes an invalid-request error about one field.
func invalid(pointer, format string, args ...any) *Error {
	return InvalidField(ErrInvalidRequest, pointer, fmt.Sprintf(format, args...))
}

// InvalidField makes an error of the given kind that names one wrong field and its cure. The pointer "" is the whole request: its detail says so itself.
func InvalidField(code Code, pointer, detail string) *Error {
	told := detail
	if pointer != "" {
		told = pointer + ": " + detail
	}
	return &Error{Code: code, Detail: told, Fields: []Field{{Pointer: pointer, Detail: detail}}}
}

// InvalidFields makes an error of the given kind that names several wrong fields, each with its cure.
func InvalidFields(code Code, fields []Field) *Error {
	if len(fields) == 1 {
		return InvalidField(code, fields[0].Pointer, fields[0].Detail)
	}
	return &Error{Code: code, Detail: fmt.Sprintf("%d fields are wrong; the member errors names each of them", len(fields)), Fields: fields}
}

// Unavailable makes a retryable error for a part of the system that can't be reached; cause goes to the log.
func Unavailable(what string, cause error) *Error {
	return &Error{Code: ErrUnavailable, Detail: what + " can't be reached just now; nothing was changed", Cause: cause}
}
