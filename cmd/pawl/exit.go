package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/publish"
)

// The exit codes. They are part of the contract: schedulers decide by them what to do with a job. Most are those of sysexits.h.
const (
	exitOK          = 0  // published, or replayed
	exitUsage       = 64 // EX_USAGE
	exitDigest      = 65 // EX_DATAERR: bytes are not what was promised
	exitMissing     = 66 // EX_NOINPUT: an input or declared output is missing, a generation isn't complete
	exitUnreachable = 69 // EX_UNAVAILABLE: the server can't be reached or can't serve now; nothing was changed
	exitIO          = 74 // EX_IOERR: an upload failed, a file can't be read or written
	exitLeaseHeld   = 75 // EX_TEMPFAIL: another holder has the lease; try again later
	exitNotAllowed  = 77 // EX_NOPERM
	exitConfig      = 78 // EX_CONFIG: a setting is missing or wrong
	exitFenced      = 80 // this output is out of date and must not be retried
	exitUnknown     = 81 // no answer: the change may or may not have happened
	exitRefused     = 82 // refused for another lasting reason

	exitOverheld = 124 // run held its lease for as long as --max-hold allows; the code that timeout(1) has
)

const exitCodesHelp = `Exit codes: 0 done, 64 usage, 65 digest, 66 input or output missing, 69 server unreachable, 74 upload failed,
75 lease held or too many, 77 not allowed, 78 configuration, 80 fenced (don't retry this output), 81 outcome unknown,
82 refused for another lasting reason. run: the command's own code when it failed, 128+n when it died of signal n, 124 when
--max-hold ended it.`

// exits is the one table from the codes of errors to exit codes.
var exits = map[publish.Code]int{
	publish.ErrInvalidKey:           exitUsage,
	publish.ErrInvalidPath:          exitUsage,
	publish.ErrInvalidToken:         exitUsage,
	publish.ErrInvalidRequest:       exitUsage,
	publish.ErrLeaseRequired:        exitUsage,
	publish.ErrDigestMismatch:       exitDigest,
	publish.ErrLengthMismatch:       exitDigest,
	publish.ErrGenerationIncomplete: exitMissing,
	publish.ErrUnavailable:          exitUnreachable,
	publish.ErrInternal:             exitUnreachable,
	publish.ErrRateLimited:          exitUnreachable,
	publish.ErrQuotaExceeded:        exitIO,
	publish.ErrLeaseHeld:            exitLeaseHeld,
	publish.ErrUnauthorized:         exitNotAllowed,
	publish.ErrForbidden:            exitNotAllowed,
	publish.ErrMethodNotAllowed:     exitConfig, // the address is not that of a Pawl server
	publish.ErrStaleToken:           exitFenced,
	publish.ErrLeaseLost:            exitFenced,
	publish.ErrUnknownToken:         exitFenced,
	publish.ErrGenerationCollected:  exitFenced,
	publish.ErrOutcomeUnknown:       exitUnknown,
	publish.ErrNotFound:             exitRefused,
	publish.ErrGenerationSealed:     exitRefused,
	publish.ErrOlderSource:          exitRefused,
	publish.ErrPreconditionFailed:   exitRefused,
	publish.ErrTooLarge:             exitRefused,
	publish.ErrRangeNotSatisfiable:  exitRefused,
	publish.ErrTokenExhausted:       exitRefused,
	publish.ErrPinned:               exitRefused,
	publish.ErrRetired:              exitRefused,
	publish.ErrCredentialConflict:   exitRefused,
	publish.ErrCursorExpired:        exitRefused,
}

// exitCode gives the exit code of an error. What is in no table is refused for a lasting reason if a server said
// it, else a failure of this machine.
func exitCode(err error) int {
	var coded interface{ exitCode() int }
	var refusal *publish.Error
	switch {
	case errors.As(err, &coded):
		return coded.exitCode()
	case errors.As(err, &refusal):
		if refusal.ReuseFrom != 0 || refusal.Code == publish.ErrGenerationCollected && !ownGeneration(refusal) {
			return exitRefused
		}
		if refusal.Code == publish.ErrQuotaExceeded && refusal.Unit == publish.UnitLeases {
			return exitLeaseHeld // as for any lease that isn't to be had just now
		}
		if code, listed := exits[refusal.Code]; listed {
			return code
		}
		return exitRefused
	case errors.Is(err, client.ErrUnreachable), errors.Is(err, context.DeadlineExceeded):
		return exitUnreachable
	case errors.Is(err, context.Canceled):
		return 128 + int(syscall.SIGTERM)
	}
	return exitIO
}

// ownGeneration reports whether a refusal is about what the caller makes, and not about what it wants to read or to bring back.
func ownGeneration(e *publish.Error) bool {
	return e.Operation != "" && e.Operation != publish.KindRollback
}

// usageError is a command line that can't be carried out.
type usageError struct{ error }

func (usageError) exitCode() int   { return exitUsage }
func (e usageError) Unwrap() error { return e.error }

// configError is a setting that is missing or wrong; its text names the setting and the cure.
type configError struct{ error }

func (configError) exitCode() int   { return exitConfig }
func (e configError) Unwrap() error { return e.error }

// ioError is a local file that can't be read or written.
type ioError struct{ error }

func (ioError) exitCode() int   { return exitIO }
func (e ioError) Unwrap() error { return e.error }

// missingError is an input or declared output that isn't there, or can't be published.
type missingError struct{ error }

func (missingError) exitCode() int   { return exitMissing }
func (e missingError) Unwrap() error { return e.error }

// unreachableError is a part of the system that is away.
type unreachableError struct{ error }

func (unreachableError) exitCode() int   { return exitUnreachable }
func (e unreachableError) Unwrap() error { return e.error }

// fencedError is a grant that was lost to a newer one.
type fencedError struct{ error }

func (fencedError) exitCode() int   { return exitFenced }
func (e fencedError) Unwrap() error { return e.error }

// interruptedError is a signal that ended the verb.
type interruptedError struct{ signal syscall.Signal }

func (e interruptedError) exitCode() int { return 128 + int(e.signal) }
func (e interruptedError) Error() string { return "ended by signal: " + e.signal.String() }

// orSignal is err, or the signal that has ended ctx: who gives up waiting for a lease wants to hear no more about it, and the client gives back what it
// may have been granted.
func orSignal(ctx context.Context, err error) error {
	var ended interruptedError
	if err != nil && errors.As(context.Cause(ctx), &ended) {
		return ended
	}
	return err
}

// uploadError says which file an upload failed for. Nothing is current of what was uploaded, so an upload
// whose outcome is unknown has simply failed.
type uploadError struct {
	path publish.Path
	err  error
}

func (e uploadError) Error() string { return fmt.Sprintf("uploading %s: %s", e.path, message(e.err)) }
func (e uploadError) Unwrap() error { return e.err }

func (e uploadError) exitCode() int {
	// The server can be reached, and the store has failed it: another server wouldn't do better.
	if errors.Is(e.err, publish.ErrOutcomeUnknown) || errors.Is(e.err, publish.ErrInternal) || errors.Is(e.err, publish.ErrUnavailable) {
		return exitIO
	}
	return exitCode(e.err)
}

// downloadError says which file of a set a download failed for.
type downloadError struct {
	path publish.Path
	err  error
}

func (e downloadError) Error() string {
	return fmt.Sprintf("downloading %s: %s", e.path, message(e.err))
}
func (e downloadError) Unwrap() error { return e.err }
func (e downloadError) exitCode() int { return exitCode(e.err) }

// uploadFailure names the file that an upload failed for, unless it is the fence that spoke: then the file doesn't matter.
func uploadFailure(path publish.Path, err error) error {
	if err == nil || exitCode(err) == exitFenced {
		return err
	}
	return uploadError{path, err}
}

// message is an error as people read it. A refusal by the fence names both tokens, and says what follows.
func message(err error) string {
	var coded interface{ exitCode() int }
	var refusal *publish.Error
	if errors.As(err, &coded) || !errors.As(err, &refusal) {
		return err.Error()
	}
	return refusalMessage(refusal)
}

func refusalMessage(e *publish.Error) string {
	if e.ReuseFrom != 0 || e.Operation == publish.KindRollback || e.Operation == publish.KindRetire || e.Operation == publish.OperationBreak {
		return operatorMessage(e)
	}
	const end = "; this output must not be retried"
	switch e.Code {
	case publish.ErrStaleToken:
		verb, newer := "accepted", e.AcceptedToken
		if newer <= e.Token {
			verb, newer = "granted", e.GrantedToken
		}
		if newer <= e.Token {
			return fmt.Sprintf("fenced: token %d is stale: it was granted in a history that the database has lost%s", e.Token, end)
		}
		return fmt.Sprintf("fenced: token %d is stale: token %d%s was %s%s", e.Token, newer, holder(e), verb, end)
	case publish.ErrLeaseLost:
		if e.Broken != nil {
			return fmt.Sprintf("fenced: %s has broken the lease of token %d (%s)%s", e.Broken.By, e.Token, e.Broken.Reason, end)
		}
		if e.Released() {
			return fmt.Sprintf("fenced: the lease of token %d was given back under its own lease_id, not taken by another; acquire the key again", e.Token)
		}
		if e.GrantedToken > e.Token && e.Token > 0 {
			return fmt.Sprintf("fenced: the lease of token %d is lost: token %d%s was granted%s", e.Token, e.GrantedToken, holder(e), end)
		}
		if e.GrantedToken > 0 {
			return fmt.Sprintf("fenced: the lease is lost: the newest token is %d%s%s", e.GrantedToken, holder(e), end)
		}
		return "fenced: the lease is lost: it was released, superseded or never granted for this key" + end
	case publish.ErrUnknownToken:
		return fmt.Sprintf("fenced: token %d was never granted for this key%s", e.Token, end)
	case publish.ErrGenerationCollected:
		if !ownGeneration(e) {
			return fmt.Sprintf("generation-collected: version %d was given up by the retention policy, and its files are deleted or about to be; read another one, such as what is current now", e.Token)
		}
		return fmt.Sprintf("fenced: the generation of token %d was given up by the retention policy: nothing comes of it any more; acquire the key again to work on it anew", e.Token)
	case publish.ErrLeaseHeld:
		return leaseHeld(e) + "; wait with --wait"
	case publish.ErrUnauthorized:
		return e.Error() + "; the pawl command sends what PAWL_CREDENTIAL, or the file of PAWL_CREDENTIAL_FILE, holds"
	case publish.ErrGenerationIncomplete:
		return e.Error() + listed("missing", e.Missing) + listed("empty", e.Empty) + listed("failed", e.Failed) + listed("pending", e.Pending)
	}
	return e.Error()
}

func leaseHeld(e *publish.Error) string {
	return fmt.Sprintf("lease held: %s has it with token %d for up to %s more, unless it renews", e.Holder, e.Token, milliseconds(e.RetryAfterMillis))
}

// operatorMessage names the flags where the server's own text names members of the API.
func operatorMessage(e *publish.Error) string {
	switch {
	case e.Code == publish.ErrLeaseHeld:
		return leaseHeld(e) + "; end that lease with --break-lease"
	case e.Code == publish.ErrPinned && e.Operation == publish.KindRollback && e.Pinned != nil && e.Current != nil:
		return fmt.Sprintf("pinned: %q has pinned the key to version %s (%s); let the pin move along with --pin, or take it away first: pawl unpin",
			e.Pinned.By, e.Current, e.Pinned.Reason)
	}
	return e.Error()
}

func holder(e *publish.Error) string {
	if e.Holder == "" {
		return ""
	}
	return " (holder " + e.Holder + ")"
}

// listed names the first few of some paths.
func listed(what string, paths []publish.Path) string {
	const most = 20
	if len(paths) == 0 {
		return ""
	}
	text := fmt.Sprintf("; %s:", what)
	for i, path := range paths {
		if i == most {
			return fmt.Sprintf("%s and %d more", text, len(paths)-most)
		}
		text += fmt.Sprintf(" %q", path)
	}
	return text
}
