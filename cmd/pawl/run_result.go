package main

import (
	"errors"
	"fmt"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/publish"
)

// runResult is how a run ended, as --json prints it. The members of the receipt stand beside its own. The lease_id is never in it.
type runResult struct {
	Key   publish.Key   `json:"key,omitempty"`
	Token publish.Token `json:"token,omitempty"` // 0 when nothing was granted
	*publish.Receipt
	Outcome  string      `json:"outcome"`
	ExitCode int         `json:"exit_code"`
	Error    *runProblem `json:"error,omitempty"`

	url string // of the primary file
}

// runProblem has the members of a problem document (RFC 9457) when the server has refused something, and else those that make sense
// without one.
type runProblem struct {
	Type   string `json:"type,omitempty"`
	Title  string `json:"title"`
	Status int    `json:"status,omitempty"`
	*publish.Error
	Detail    string `json:"detail"` // what stderr says
	Retryable bool   `json:"retryable"`
}

// outcomes names the exit codes that have no word of their own below.
var outcomes = map[int]string{
	exitUsage:       "usage",
	exitDigest:      "mismatch",
	exitMissing:     "incomplete",
	exitUnreachable: "unreachable",
	exitIO:          "io",
	exitNotAllowed:  "not-allowed",
	exitConfig:      "configuration",
	exitOverheld:    "overheld",
	exitFenced:      "fenced",
	exitUnknown:     "unknown",
	exitRefused:     "refused",
}

// outcomeOf says in one word how a run ended that has no receipt.
func outcomeOf(err error) string {
	var child childError
	var interrupted interruptedError
	switch {
	case errors.As(err, &child):
		return "failed"
	case errors.As(err, &interrupted):
		return "interrupted"
	case errors.Is(err, publish.ErrLeaseHeld):
		return "held"
	}
	if word, listed := outcomes[exitCode(err)]; listed {
		return word
	}
	return "interrupted" // by the end of its context
}

// receiptOutcome says in one word what a publish did.
func receiptOutcome(r publish.Receipt) string {
	switch {
	case r.Current != nil && *r.Current != r.Version():
		return "superseded"
	case r.Replayed:
		return "replayed"
	}
	return "published"
}

func problemOf(err error) *runProblem {
	p := &runProblem{Title: "Failed", Detail: message(err), Retryable: errors.Is(err, client.ErrUnreachable)}
	var refusal *publish.Error
	var child childError
	switch {
	case errors.As(err, &refusal):
		kind := refusal.Code.Kind()
		p.Type, p.Title, p.Status, p.Error, p.Retryable = "/problems/"+string(refusal.Code), kind.Title, kind.Status, refusal, kind.Retryable
	case errors.As(err, &child):
		p.Title = "Command failed"
		if child.why == "" {
			p.Detail = fmt.Sprintf("the command exited with %d", child.code)
		}
	}
	return p
}

// conclude tells in every way that was asked for how a run ended, and returns what is left to say on stderr. err is nil when
// something was published.
func (a *app) conclude(result runResult, codes codeFlags, err error) error {
	if err == nil {
		result.Outcome = receiptOutcome(*result.Receipt)
	} else {
		result.Outcome = outcomeOf(err)
		result.Error = problemOf(err)
		err = codes.choose(err)
		result.ExitCode = exitCode(err)
	}
	if untold := a.tellGitHub(result); untold != nil {
		untold = result.untold(untold)
		if err == nil || result.ExitCode == exitOK {
			err = untold
			result.Error, result.ExitCode = problemOf(err), exitCode(err)
		} else {
			a.notice("%s", untold)
		}
	}
	if untold := a.printRun(result); untold != nil && err == nil {
		return untold
	}
	if err != nil && result.ExitCode == exitOK {
		a.notice("%s (that is no failure here: the exit code 0 was chosen for it)", message(err))
		return nil
	}
	return err
}

// untold is the error of a result that didn't get out. Without a word about the publish it would look as if that had failed.
func (r runResult) untold(err error) error {
	if r.Receipt != nil {
		return receiptUnwritten(*r.Receipt, err)
	}
	return ioError{err}
}

// printRun prints the result: as JSON on stdout, or for people as a line among those of the command.
func (a *app) printRun(result runResult) error {
	if a.json {
		if result.Receipt != nil {
			a.noticeSuperseded(*result.Receipt)
		}
		if err := a.printJSON(result); err != nil {
			return result.untold(err)
		}
		return nil
	}
	if result.Receipt == nil {
		return nil
	}
	to := *a
	to.stdout = &checkedWriter{to: prefixed{a.stderr}}
	return to.printReceipt(*result.Receipt, "")
}
