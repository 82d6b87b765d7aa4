package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/pawlhq/pawl/publish"
)

// maxRedirects is how many times in a row a download may be sent on.
const maxRedirects = 5

// fetch asks the permanent address for the file from d.n on, and follows where it is sent. The head that says what the file is comes from
// Pawl: a blob store knows its objects by other tags. Each attempt begins at the permanent address, since where that sends to is signed for
// a short time only. No secret goes to another host.
func (d *Download) fetch(ctx context.Context) (resp *http.Response, promise http.Header, err error) {
	address, lease := d.request.url, d.request.lease
	for range maxRedirects + 1 {
		req, err := d.client.newRequest(ctx, http.MethodGet, address, http.NoBody, lease)
		if err != nil {
			return nil, nil, withoutQuery(err)
		}
		req.Header.Set("Accept-Encoding", "identity") // a re-coded body would have another length and digest
		if !d.client.owns(req.URL) {
			req.Header.Del("Authorization")
		}
		if d.n > 0 {
			req.Header.Set("Range", fmt.Sprintf("bytes=%d-", d.n))
			if promise == nil {
				req.Header.Set("If-Range", d.etag)
			}
		}
		// Nothing is followed here, and no query told: it may be signed.
		if resp, err = send(d.client.straight, req); err != nil {
			return nil, nil, withoutQuery(err)
		}
		next, err := redirectOf(resp)
		switch {
		case err != nil:
			return nil, nil, err
		case next == nil && promise == nil:
			return resp, resp.Header, nil
		case next == nil && resp.StatusCode >= http.StatusMultipleChoices:
			defer closeBody(resp)
			return nil, nil, storeError(resp)
		case next == nil:
			return resp, promise, nil
		}
		if resp.Header.Get("Repr-Digest") != "" {
			promise = resp.Header
		}
		closeBody(resp)
		if !d.client.owns(next) {
			lease = publish.LeaseID{}
		}
		address = next.String()
	}
	return nil, nil, fmt.Errorf("download: sent on more than %d times", maxRedirects)
}

// storeError is the error of a store that a download was sent to. Its own words are for its operators.
func storeError(resp *http.Response) *answerError {
	return &answerError{
		status: resp.StatusCode, retryAfter: retryAfter(resp.Header), foreign: true,
		retryable: resp.StatusCode >= http.StatusInternalServerError,
		refusal: &publish.Error{
			Code:   codeOf(resp.StatusCode),
			Detail: fmt.Sprintf("the blob store at %s, where the server has sent this download, answered %s", resp.Request.URL.Host, resp.Status),
		},
	}
}

// redirectOf returns where an answer sends to, nil if it sends nowhere.
func redirectOf(resp *http.Response) (*url.URL, error) {
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
	default:
		return nil, nil //nolint:nilnil // As it says.
	}
	next, err := resp.Location()
	if err != nil || next.Scheme != "http" && next.Scheme != "https" {
		closeBody(resp)
		return nil, fmt.Errorf("download: the answer %s leads nowhere", resp.Status)
	}
	return next, nil
}

// owns reports whether an address is on the host that the client was made for.
func (c *Client) owns(address *url.URL) bool {
	base, err := url.Parse(c.base)
	return err == nil && base.Scheme == address.Scheme && base.Host == address.Host
}

// withoutQuery takes the query out of the address in an error.
func withoutQuery(err error) error {
	var failed *url.Error
	if errors.As(err, &failed) {
		if u, parseErr := url.Parse(failed.URL); parseErr == nil {
			u.RawQuery, u.Fragment = "", ""
			failed.URL = u.String()
		} else {
			failed.URL = ""
		}
	}
	return err
}
