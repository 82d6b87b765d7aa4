package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// ErrUnreachable is in the chain of errors about a server that couldn't be reached: no request of the call was answered,
// and none can have changed anything. Where a change may have happened the error is publish.ErrOutcomeUnknown.
var ErrUnreachable = errors.New("server can't be reached")

// maxErrorBytes bounds how much of a refusal is read: generation-incomplete may list as many paths as a publish may expect.
const maxErrorBytes = 64 << 20

// answerError is a refusal together with what its HTTP answer says about repeating.
type answerError struct {
	refusal    *publish.Error
	status     int
	retryAfter time.Duration // 0 when the answer has none
	retryable  bool          // the answer's own word; a newer server may know kinds that this client doesn't
	last       bool          // the same request again would be answered the same, whatever is usual for its kind
	foreign    bool          // not a problem document: a proxy, or no Pawl server at all
}

func (a *answerError) Error() string { return a.refusal.Error() }

// decodeError turns an answer that is no success into an error.
func decodeError(resp *http.Response) *answerError {
	answer := &answerError{status: resp.StatusCode, retryAfter: retryAfter(resp.Header)}
	mediaType, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")) //nolint:errcheck // "" then, which is foreign.
	var problem publish.Error
	if mediaType == "application/problem+json" {
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBytes))
		if err == nil && json.Unmarshal(body, &problem) == nil && problem.Code != "" {
			var members struct {
				RequestID string `json:"request_id"`
				Retryable bool   `json:"retryable"`
			}
			_ = json.Unmarshal(body, &members) //nolint:errcheck // What isn't there stays empty.
			if members.RequestID != "" && problem.Code == publish.ErrInternal {
				problem.Detail = strings.TrimSpace(problem.Detail + " (request " + members.RequestID + ")")
			}
			answer.refusal, answer.retryable = &problem, members.Retryable
			return answer
		}
	}
	answer.foreign = true
	answer.refusal = &publish.Error{Code: codeOf(resp.StatusCode), Detail: fmt.Sprintf(
		"the answer %s is not Pawl's own; is %s the address of a Pawl server?", resp.Status, resp.Request.URL.Redacted())}
	if resp.Request.Method == http.MethodHead || resp.StatusCode >= 500 {
		answer.refusal.Detail = "the server, or a proxy before it, answered " + resp.Status
	}
	return answer
}

// codeOf guesses the kind behind a bare status: the one kind that has it, or a code named after the status where
// several have it, and where it is unknown-token's: a guess must not look like the word of the fence.
func codeOf(status int) publish.Code {
	switch status {
	case http.StatusBadRequest:
		return publish.ErrInvalidRequest
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return publish.ErrUnavailable
	}
	var found []publish.Code
	for _, kind := range publish.Kinds() {
		if kind.Status == status {
			found = append(found, kind.Code)
		}
	}
	if len(found) == 1 && found[0] != publish.ErrUnknownToken {
		return found[0]
	}
	return publish.Code("http-" + strconv.Itoa(status))
}

// retryAfter reads Retry-After (RFC 9110, 10.2.3). A date is compared with the Date of the same answer, so that only one
// machine's clock is involved.
func retryAfter(h http.Header) time.Duration {
	value := h.Get("Retry-After")
	if seconds, err := strconv.Atoi(value); err == nil && seconds >= 0 {
		return time.Duration(seconds) * time.Second
	}
	until, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	now, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return 0
	}
	return max(until.Sub(now), 0)
}

// unreachable makes an error of kind ErrUnreachable.
func (c *Client) unreachable(cause error) error {
	return fmt.Errorf("%w at %s: %w", ErrUnreachable, c.base, cause)
}

// outcomeUnknown makes the error of a changing call whose answer was lost for good.
func outcomeUnknown(cause error) error {
	return &publish.Error{
		Code: publish.ErrOutcomeUnknown, Cause: cause,
		Detail: "no answer came; the change may or may not have happened, and repeating the same request is safe and tells",
	}
}
