package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/publish/publishtest"
)

func faultOf(operation string, code publish.Code) publishtest.Fault {
	return publishtest.Fault{Operation: operation, Times: -1, Err: &publish.Error{Code: code, Detail: "injected"}}
}

// Case 54: every kind of error has its exit code, and a new kind must be given one.
func TestCase54ExitCodes(t *testing.T) {
	t.Parallel()
	for _, kind := range publish.Kinds() {
		if _, listed := exits[kind.Code]; !listed {
			t.Errorf("%s has no exit code", kind.Code)
		}
	}
	refused := func(code publish.Code) error { return fmt.Errorf("call: %w", &publish.Error{Code: code}) }
	for _, c := range []struct {
		err  error
		want int
	}{
		{usageError{errors.New("x")}, 64},
		{refused(publish.ErrInvalidRequest), 64},
		{refused(publish.ErrDigestMismatch), 65},
		{refused(publish.ErrLengthMismatch), 65},
		{refused(publish.ErrGenerationIncomplete), 66},
		{missingError{errors.New("x")}, 66},
		{refused(publish.ErrUnavailable), 69},
		{fmt.Errorf("%w at x", client.ErrUnreachable), 69},
		{uploadFailure("a", refused(publish.ErrUnavailable)), 74},
		{uploadFailure("a", refused(publish.ErrInternal)), 74},
		{uploadFailure("a", refused(publish.ErrOutcomeUnknown)), 74},
		{uploadFailure("a", refused(publish.ErrQuotaExceeded)), 74},
		{&publish.Error{Code: publish.ErrQuotaExceeded, Unit: publish.UnitLeases}, 75},
		{uploadFailure("a", refused(publish.ErrDigestMismatch)), 65},
		{refused(publish.ErrLeaseHeld), 75},
		{refused(publish.ErrForbidden), 77},
		{configError{errors.New("x")}, 78},
		{refused(publish.ErrStaleToken), 80},
		{uploadFailure("a", refused(publish.ErrStaleToken)), 80},
		{refused(publish.ErrLeaseLost), 80},
		{refused(publish.ErrUnknownToken), 80},
		{&publish.Error{Code: publish.ErrGenerationCollected, Operation: publish.OperationPublish}, 80},
		{&publish.Error{Code: publish.ErrGenerationCollected, Operation: publish.OperationRenew}, 80},
		{refused(publish.ErrGenerationCollected), 82}, // of a reader
		{&publish.Error{Code: publish.ErrGenerationCollected, Operation: publish.KindRollback}, 82},
		{&publish.Error{Code: publish.ErrGenerationCollected, ReuseFrom: 1}, 82},
		{refused(publish.ErrOutcomeUnknown), 81},
		{refused(publish.ErrNotFound), 82},
		{refused(publish.ErrGenerationSealed), 82},
		{refused(publish.ErrOlderSource), 82},
		{refused(publish.ErrPreconditionFailed), 82},
		{refused("pinned"), 82},
		{refused("of-a-newer-server"), 82},
		{interruptedError{syscall.SIGINT}, 130},
		{&publish.Error{Code: publish.ErrOutcomeUnknown, Cause: context.Canceled}, 81},
		{childError{code: 3}, 3},
	} {
		if got := exitCode(c.err); got != c.want {
			t.Errorf("%v: exit code %d, want %d", c.err, got, c.want)
		}
	}
}

func TestMessagesOfTheFence(t *testing.T) {
	t.Parallel()
	for want, e := range map[string]*publish.Error{
		"fenced: token 17 is stale: token 18 (holder render-b) was accepted; this output must not be retried": {
			Code: publish.ErrStaleToken, Token: 17, AcceptedToken: 18, GrantedToken: 19, Holder: "render-b",
		},
		"fenced: token 17 is stale: token 18 (holder render-b) was granted; this output must not be retried": {
			Code: publish.ErrStaleToken, Token: 17, AcceptedToken: 16, GrantedToken: 18, Holder: "render-b",
		},
		"fenced: token 17 is stale: it was granted in a history that the database has lost; this output must not be retried": {
			Code: publish.ErrStaleToken, Token: 17, GrantedToken: 12,
		},
		"fenced: the lease of token 17 was given back under its own lease_id, not taken by another; acquire the key again": {
			Code: publish.ErrLeaseLost, Token: 17, GrantedToken: 17, Holder: "render-a",
		},
		"fenced: the lease is lost: the newest token is 17; this output must not be retried": {
			Code: publish.ErrLeaseLost, Token: 17, GrantedToken: 17, Operation: publish.OperationPublish,
		},
		"fenced: the lease of token 17 is lost: token 18 (holder render-b) was granted; this output must not be retried": {
			Code: publish.ErrLeaseLost, Token: 17, GrantedToken: 18, Holder: "render-b",
		},
		"fenced: the generation of token 17 was given up by the retention policy: nothing comes of it any more; acquire the key again to work on it anew": {
			Code: publish.ErrGenerationCollected, Token: 17, Operation: publish.OperationRenew,
		},
		"generation-collected: version 17 was given up by the retention policy, and its files are deleted or about to be; read another one, such as what is current now": {
			Code: publish.ErrGenerationCollected, Token: 17,
		},
	} {
		if got := message(fmt.Errorf("publish: %w", e)); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	many := make([]publish.Path, 30)
	if got := message(&publish.Error{Code: publish.ErrGenerationIncomplete, Missing: many}); !strings.Contains(got, "and 10 more") {
		t.Errorf("got %s", got)
	}
}
