package blobstore

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
)

// checkValid is how long the signatures of a check are valid.
const checkValid = 5 * time.Minute

// signed tries requests that are signed in their URL, at the address by which this server reaches the store: what comes of them
// is the store's own doing. The public address is asked once.
func (c *s3Check) signed(ctx context.Context) {
	const name = "signed requests"
	sum := http.Header{"Content-Type": {"text/plain"}, headerChecksumSHA256: {sumOf(c.body)}}
	if !c.Capable.ChecksumSHA256 {
		sum.Del(headerChecksumSHA256)
	}
	answer, err := c.sendSigned(ctx, c.s.core.Client, http.MethodPut, "s", nil, sum, c.body)
	if !c.accepted(name, "putting an object", answer, err) {
		return
	}
	answer, err = c.sendSigned(ctx, c.s.core.Client, http.MethodGet, "s", nil, nil, "")
	if !c.accepted(name, "getting it", answer, err) {
		return
	}
	if answer.body != c.body {
		c.add(name, LevelWarn, signedCure, "other bytes came back than were put")
		return
	}
	c.Capable.Presign = true
	c.add(name, LevelOK, "", "an object was put and read")
	if c.Capable.CreateOnlyPut {
		header := http.Header{"Content-Type": {"text/plain"}, "If-None-Match": {"*"}}
		c.Capable.CreateOnlyPut = c.refusedSigned(ctx, "signed create-only", "putting over it with If-None-Match: *", "s", header, isTaken)
	}
	if c.Capable.ChecksumSHA256 {
		header := http.Header{"Content-Type": {"text/plain"}, headerChecksumSHA256: {sumOf("other bytes")}}
		c.Capable.ChecksumSHA256 = c.refusedSigned(ctx, "signed checksum", "putting an object with a wrong "+headerChecksumSHA256, "t", header, isMismatch)
	}
	c.public(ctx)
}

const signedCure = "nothing must be done while PAWL_READS is stream and clients send through this server; a proxy before the store must pass on Host, headers and query as they are"

func (c *s3Check) accepted(name, doing string, answer signedAnswer, err error) bool {
	switch {
	case err != nil:
		c.add(name, LevelWarn, signedCure, "%s: %s", doing, brief(err))
	case answer.status >= http.StatusMultipleChoices:
		c.Down = c.Down || isBusy(answer.status)
		c.add(name, LevelWarn, signedCure, "%s was answered with %d %s", doing, answer.status, answer.code)
	default:
		return true
	}
	return false
}

func (c *s3Check) refusedSigned(ctx context.Context, name, doing, object string, header http.Header, right func(int, string) bool) bool {
	answer, err := c.sendSigned(ctx, c.s.core.Client, http.MethodPut, object, nil, header, c.body)
	if err != nil {
		c.failed(name, doing, err)
		return false
	}
	return c.verdict(name, doing, answer.status, answer.code, right)
}

// public reads by the public address. This server may be unable to reach it where clients can.
func (c *s3Check) public(ctx context.Context) {
	if c.s.signer == c.s.core.Client {
		return
	}
	const name = "public endpoint"
	host := c.s.signer.EndpointURL().Host
	answer, err := c.sendSigned(ctx, c.s.signer, http.MethodGet, "s", nil, nil, "")
	switch {
	case err != nil:
		c.add(name, LevelNote, "make sure that clients reach PAWL_S3_PUBLIC_ENDPOINT", "this server can't reach %s itself: %s", host, brief(err))
	case answer.status == http.StatusOK && answer.body == c.body:
		c.add(name, LevelOK, "", "%s takes signed requests", host)
	default:
		c.Capable.Presign = false
		c.add(name, LevelFail, "correct PAWL_S3_PUBLIC_ENDPOINT, or let what stands there pass on Host, path and query as they are",
			"%s answered a signed request with %d %s", host, answer.status, answer.code)
	}
}

// signedAnswer is the answer to a request that bears its signature in its URL.
type signedAnswer struct {
	status int
	code   string // of S3's error document, or ""
	header http.Header
	body   string
}

// sendSigned signs a request for the address of one of the clients, and sends it without that.
func (c *s3Check) sendSigned(ctx context.Context, by *minio.Client, method, object string, query url.Values, header http.Header, body string) (signedAnswer, error) {
	signed, err := c.s.signBy(ctx, by, method, c.folder+object, checkValid, query, header)
	if err != nil {
		return signedAnswer{}, err
	}
	req, err := http.NewRequestWithContext(ctx, method, signed.URL, strings.NewReader(body))
	if err != nil {
		return signedAnswer{}, errors.New("the signed address can't be used")
	}
	for name, value := range signed.Headers {
		req.Header.Set(name, value)
	}
	return c.send(req)
}

func (c *s3Check) send(req *http.Request) (signedAnswer, error) {
	answer, err := c.s.transport.RoundTrip(req)
	if err != nil {
		return signedAnswer{}, err
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	err = errors.Join(err, answer.Body.Close())
	return signedAnswer{status: answer.StatusCode, code: codeIn(string(text)), header: answer.Header, body: string(text)}, err
}

// codeIn finds the code in S3's error document, or "".
func codeIn(text string) string {
	var document struct {
		Code string `xml:"Code"`
	}
	if err := xml.Unmarshal([]byte(text), &document); err != nil {
		return ""
	}
	return document.Code
}

// cors asks whether pages of the origins may send to the store, as a browser asks.
func (c *s3Check) cors(ctx context.Context, origins []string) {
	if len(origins) == 0 {
		return
	}
	var missing []string
	for _, origin := range origins {
		if !c.allows(ctx, origin) {
			missing = append(missing, origin)
		}
	}
	if missing == nil {
		c.add("cors", LevelOK, "", "pages of %s may send to the store", strings.Join(origins, ", "))
		return
	}
	rule, err := json.Marshal(map[string]any{"CORSRules": []any{map[string]any{
		"AllowedOrigins": origins, "AllowedMethods": []string{http.MethodGet, http.MethodHead, http.MethodPut},
		"AllowedHeaders": []string{"*"}, "ExposeHeaders": []string{"ETag"}, "MaxAgeSeconds": 3600,
	}}})
	if err != nil {
		c.add("cors", LevelNote, "", "the rule can't be written: %s", err.Error())
		return
	}
	c.add("cors", LevelNote, fmt.Sprintf("if pages shall send to the store themselves: aws s3api put-bucket-cors --bucket %s --cors-configuration '%s'", c.s.bucket, rule),
		"pages of %s may not send to the store", strings.Join(missing, ", "))
}

func (c *s3Check) allows(ctx context.Context, origin string) bool {
	signed, err := c.s.sign(ctx, http.MethodPut, c.folder+"s", checkValid, nil, nil)
	if err != nil {
		return false
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodOptions, signed.URL, http.NoBody)
	if err != nil {
		return false
	}
	req.Header.Set("Origin", origin)
	req.Header.Set("Access-Control-Request-Method", http.MethodPut)
	req.Header.Set("Access-Control-Request-Headers", "content-type,if-none-match,"+strings.ToLower(headerChecksumSHA256+","+headerChecksumCRC64NVME))
	answer, err := c.send(req)
	return err == nil && answer.status < http.StatusMultipleChoices && slices.Contains([]string{"*", origin}, answer.header.Get("Access-Control-Allow-Origin"))
}
