package client

import (
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/publish"
)

const (
	defaultParallel = 4
	// signAhead is how many parts are signed in one request, for each that is sent at once.
	signAhead = 2
	// freshFor is how long a signed request is used after it was asked for, by the own clock; servers make them valid for longer.
	freshFor = 5 * time.Minute
	// sendAttempts is how often one part is sent at least. One whose store is away for a moment, or busy, is sent for as long as other
	// calls are repeated.
	sendAttempts = 6
	// unreachedAttempts is how often a connection is tried to a store that has never answered.
	unreachedAttempts = 3
)

// sendDirect sends what the store lacks. reached is set when the store has answered.
func (c *Client) sendDirect(ctx context.Context, file FileUpload, begun begunUpload, reached *atomic.Bool) error {
	if begun.Parts == 0 {
		if begun.Put == nil {
			return nil // Everything has come.
		}
		whole := piece{length: file.Size, request: begun.Put, signed: begun.signed}
		return c.sendPiece(ctx, file, whole, reached, func(ctx context.Context) (*publish.SignedRequest, error) {
			again, err := c.beginDirect(ctx, file)
			if err != nil {
				return nil, err
			}
			if again.Put == nil {
				return nil, errCame
			}
			return again.Put, nil
		})
	}
	for _, number := range begun.Uploaded {
		file.sent(min(begun.PartSize, file.Size-int64(number-1)*begun.PartSize))
	}
	return c.sendParts(ctx, file, begun, reached)
}

// errCame reports that there is nothing to send any more.
var errCame = errors.New("everything has come")

// piece is one request to the store.
type piece struct {
	number         int // 0 for the whole file
	offset, length int64
	request        *publish.SignedRequest
	signed         time.Time
}

// sendParts sends the missing parts, several at once. The first that fails for good ends the others.
func (c *Client) sendParts(ctx context.Context, file FileUpload, begun begunUpload, reached *atomic.Bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	parallel := cmp.Or(file.Parallel, defaultParallel)
	pieces := make(chan piece)
	var senders sync.WaitGroup
	for range parallel {
		senders.Go(func() {
			for p := range pieces {
				err := c.sendPiece(ctx, file, p, reached, func(ctx context.Context) (*publish.SignedRequest, error) {
					signed, err := c.signParts(ctx, file, begun, []int{p.number})
					if err != nil {
						return nil, err
					}
					return signed[0].request, nil
				})
				if err != nil {
					cancel(err)
				}
			}
		})
	}
	err := c.feedParts(ctx, file, begun, parallel*signAhead, pieces)
	close(pieces)
	if err != nil {
		cancel(err) // Unless a part has failed before.
	}
	senders.Wait()
	return context.Cause(ctx)
}

// feedParts has the missing parts signed, a few at a time, and hands them to the senders.
func (c *Client) feedParts(ctx context.Context, file FileUpload, begun begunUpload, ahead int, pieces chan<- piece) error {
	came := make([]bool, begun.Parts+1)
	for _, number := range begun.Uploaded {
		if number >= 1 && number <= begun.Parts {
			came[number] = true
		}
	}
	var missing []int
	for number := 1; number <= begun.Parts; number++ {
		if !came[number] {
			missing = append(missing, number)
		}
	}
	for batch := range slices.Chunk(missing, ahead) {
		signed, err := c.signParts(ctx, file, begun, batch)
		if err != nil {
			return err
		}
		for _, p := range signed {
			select {
			case pieces <- p:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	return nil
}

// signParts asks the server for requests. It also asks the fence: a worker that was superseded ends here.
func (c *Client) signParts(ctx context.Context, file FileUpload, begun begunUpload, numbers []int) ([]piece, error) {
	var answer struct {
		Parts []struct {
			Number int   `json:"part_number"`
			Size   int64 `json:"size"`
			publish.SignedRequest
		} `json:"parts"`
	}
	body := map[string]any{"part_numbers": numbers}
	if begun.Checksum == "crc64nvme" {
		sums := make([]string, len(numbers))
		for i, number := range numbers {
			start := int64(number-1) * begun.PartSize
			sum, err := file.partSum(ctx, start, min(begun.PartSize, file.Size-start))
			if err != nil {
				return nil, err
			}
			sums[i] = publish.FormatCRC64NVME(sum)
		}
		body["crc64nvme"] = sums
	}
	now := time.Now()
	err := c.do(ctx, call{
		what: "sign parts", method: http.MethodPost, url: c.uploadsURL(file.Grant, "/"+url.PathEscape(begun.UploadID)+"/parts"),
		lease: file.Grant.LeaseID, body: body, into: &answer, changes: false,
	})
	if err != nil {
		return nil, err
	}
	if len(answer.Parts) != len(numbers) {
		return nil, fmt.Errorf("sign parts: %d were asked for and %d came", len(numbers), len(answer.Parts))
	}
	pieces := make([]piece, len(numbers))
	for i, part := range answer.Parts {
		pieces[i] = piece{
			number: part.Number, offset: int64(part.Number-1) * begun.PartSize, length: part.Size,
			request: &part.SignedRequest, signed: now,
		}
		if pieces[i].offset+part.Size > file.Size {
			return nil, fmt.Errorf("sign parts: part %d lies outside the file", part.Number)
		}
	}
	return pieces, nil
}

// sendPiece sends one piece, again when it fails, with a new signature when the old one is worn out.
func (c *Client) sendPiece(ctx context.Context, file FileUpload, p piece, reached *atomic.Bool, sign func(context.Context) (*publish.SignedRequest, error)) error {
	var failed error
	var since time.Time // the first failure
	lasting := false    // the store has refused what it was sent
	for try := 0; try < sendAttempts || !lasting && time.Since(since) < c.retry.within; try++ {
		if try > 0 && !sleep(ctx, rand.N(min(c.retry.pause<<min(try, 16), maxPause)+1)) {
			return context.Cause(ctx)
		}
		if p.request == nil || time.Since(p.signed) > freshFor {
			p.signed = time.Now()
			var err error
			if p.request, err = sign(ctx); errors.Is(err, errCame) {
				file.sent(p.length)
				return nil
			} else if err != nil {
				return err
			}
		}
		err := c.sendOnce(ctx, file, p)
		switch {
		case err == nil:
			reached.Store(true)
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case neverSent(err) && !reached.Load() && (permanent(err) || try+1 == unreachedAttempts):
			return c.storeUnreachable(p, fmt.Errorf("%w: %w", errNoWay, err))
		}
		var refusal *storeRefusal
		if errors.As(err, &refusal) {
			reached.Store(true)
			switch {
			case refusal.status == http.StatusPreconditionFailed && p.number == 0:
				file.sent(p.length)
				return nil // An earlier attempt has stored it: completing tells whether it is whole.
			case refusal.status == http.StatusNotFound:
				return errPartsGone
			case refusal.status == http.StatusForbidden, refusal.status == http.StatusBadRequest:
				p.request = nil // Expired, perhaps by another clock than ours; or about other bytes than the file has by now.
			}
		} else if permanent(err) {
			return c.storeUnreachable(p, err)
		} else {
			p.request = nil // A store may cut a refused body off, before its answer can be read.
		}
		if failed = err; since.IsZero() {
			since = time.Now()
		}
		lasting = refusal != nil && refusal.status < http.StatusInternalServerError && refusal.status != http.StatusTooManyRequests
		c.log.DebugContext(ctx, "part_repeated", "path", file.Path, "part", p.number, "attempt", try+1, "error", err)
	}
	return c.storeUnreachable(p, failed)
}

// storeUnreachable is the error of a piece that can't be sent.
func (c *Client) storeUnreachable(p piece, cause error) error {
	what := "the file"
	if p.number > 0 {
		what = fmt.Sprintf("part %d", p.number)
	}
	return fmt.Errorf("sending %s to the blob store: %w", what, cause)
}

// storeRefusal is an answer of the blob store that is no success.
type storeRefusal struct {
	status  int
	code    string
	message string
}

func (r *storeRefusal) Error() string {
	return fmt.Sprintf("the blob store answered %d %s: %s", r.status, cmp.Or(r.code, http.StatusText(r.status)), r.message)
}

// sendOnce carries a signed request out. Its URL is a secret as long as it is valid, so it is kept out of errors.
func (c *Client) sendOnce(ctx context.Context, file FileUpload, p piece) error {
	counted := &countedReader{from: io.NewSectionReader(file.Source, p.offset, p.length), file: file}
	req, err := http.NewRequestWithContext(ctx, p.request.Method, p.request.URL, io.NopCloser(counted))
	if err != nil {
		return errors.New("the server gave an address of the blob store that can't be read")
	}
	req.ContentLength = p.length
	for name, value := range p.request.Headers {
		req.Header.Set(name, value)
	}
	resp, err := c.straight.Do(req)
	if err != nil {
		counted.undo()
		if fault := counted.fault(); fault != nil {
			return fmt.Errorf("reading the file to upload: %w", fault)
		}
		if hidden, ok := errors.AsType[*url.Error](err); ok {
			err = hidden.Err
		}
		return err
	}
	defer closeBody(resp)
	if resp.StatusCode/100 == 2 {
		return nil
	}
	counted.undo()
	refusal := &storeRefusal{status: resp.StatusCode}
	var document struct {
		Code    string `xml:"Code"`
		Message string `xml:"Message"`
	}
	if xml.NewDecoder(io.LimitReader(resp.Body, maxErrorBytes)).Decode(&document) == nil {
		refusal.code, refusal.message = document.Code, document.Message
	}
	return refusal
}
