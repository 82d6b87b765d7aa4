package blobstore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/s3utils"
)

const (
	// skewNoted and skewWarned are how far clocks may be apart without a word. S3 refuses signatures that are 15 min off.
	skewNoted  = time.Second
	skewWarned = 5 * time.Minute
)

// server asks for the server's root, unsigned: any answer is one.
func (c *s3Check) server(ctx context.Context) bool {
	at := c.s.core.EndpointURL()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.Scheme+"://"+at.Host+"/", http.NoBody)
	if err != nil {
		c.failed("server", "asking "+at.Host, err)
		return false
	}
	start := time.Now()
	answer, err := c.s.transport.RoundTrip(req)
	if err != nil {
		c.failed("server", "asking "+at.Host, err)
		return false
	}
	took := time.Since(start)
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 4<<10)) //nolint:errcheck // What counts is that it answers.
	_ = answer.Body.Close()                                   //nolint:errcheck // See above.
	if strings.Contains(string(text), "HTTP request to an HTTPS server") {
		c.add("server", LevelFail, "write endpoint=https://… in "+setting, "%s wants TLS", at.Host)
		return false
	}
	how := "without TLS: only for a trusted network"
	if answer.TLS != nil {
		how = tls.VersionName(answer.TLS.Version)
	}
	c.add("server", LevelOK, "", "%s answers in %s, %s", at.Host, took.Round(time.Millisecond), how)
	c.clock(answer.Header.Get("Date"), start, took)
	return true
}

// clock compares the server's clock, which counts whole seconds, with ours in the middle of the request.
func (c *s3Check) clock(date string, start time.Time, took time.Duration) {
	theirs, err := http.ParseTime(date)
	if err != nil {
		c.add("clock", LevelNote, "", "the server doesn't tell its time")
		return
	}
	ahead := start.Add(took / 2).Sub(theirs.Add(time.Second / 2))
	slack := time.Second/2 + took/2
	off := max(ahead.Abs()-slack, 0)
	direction := "ahead of"
	if ahead < 0 {
		direction = "behind"
	}
	const cure = "set the clocks of this machine and of the store by NTP: signatures are refused when they are 15m apart"
	switch seen := fmt.Sprintf("this machine's clock is %s %s the store's", ahead.Abs().Round(time.Second), direction); {
	case off > skewWarned:
		c.add("clock", LevelWarn, cure, "%s", seen)
	case off > skewNoted:
		c.add("clock", LevelNote, "", "%s", seen)
	default:
		c.add("clock", LevelOK, "", "the store's clock agrees with this machine's")
	}
}

// virtualHost reports whether requests carry the bucket in the host's name.
func (c *s3Check) virtualHost() bool {
	at := c.s.core.EndpointURL()
	return c.s.pathStyle == nil && s3utils.IsVirtualHostSupported(*at, c.s.bucket) || c.s.pathStyle != nil && !*c.s.pathStyle
}

// explain says what an error means and which setting it is about. down reports that another try may go better.
func (c *s3Check) explain(err error) (seen, cure string, down bool) {
	if answer, ok := errors.AsType[minio.ErrorResponse](err); ok {
		cure, down = c.explainAnswer(answer)
		return brief(err), cure, down
	}
	endpoint := "correct endpoint=… in " + setting
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var host x509.HostnameError
	var record tls.RecordHeaderError
	switch text := err.Error(); {
	case errors.Is(err, errNoKeys):
		return text, "set PAWL_S3_ACCESS_KEY and PAWL_S3_SECRET_KEY", true // A metadata service may come up, too.
	case errors.As(err, &unknown):
		cure = "name a file with the certificate of the store's authority in PAWL_S3_CA_FILE"
	case errors.As(err, &host):
		cure = endpoint + ": the certificate is for another name"
	case errors.As(err, &invalid):
		cure = "renew the store's certificate, or name its authority in PAWL_S3_CA_FILE"
	case errors.As(err, &record), strings.Contains(text, "HTTP response to HTTPS client"):
		cure = "write endpoint=http://… in " + setting + ", inside a trusted network"
	case c.virtualHost() && strings.Contains(text, "://"+c.s.bucket+"."):
		cure, down = "add path_style=true to "+setting+": the bucket's name in front of the host's leads nowhere", true
	case isNetwork(err), errors.Is(err, context.DeadlineExceeded):
		cure, down = "start the store, or "+endpoint, true
	default:
		cure = endpoint + ": that doesn't answer as S3 does"
		if c.virtualHost() {
			cure += ", or add path_style=true"
		}
	}
	return brief(err), cure, down
}

func (c *s3Check) explainAnswer(answer minio.ErrorResponse) (cure string, down bool) {
	region := "correct region=… in " + setting
	if answer.Region != "" {
		region = "write region=" + answer.Region + " in " + setting
	}
	bucket := "make the bucket, or correct " + setting
	if c.virtualHost() {
		bucket += ": its name, or path_style=true where the server takes it in the path"
	} else if c.s.pathStyle != nil {
		bucket += ": its name, or path_style=false where the server takes it in the host's name"
	}
	if answer.StatusCode == 0 { // The client's own idea of an answer that it can't read.
		return "correct endpoint=… in " + setting + ": that doesn't answer as S3 does", false
	}
	switch answer.Code {
	case "AuthorizationHeaderMalformed", "AuthorizationQueryParametersError", "PermanentRedirect", "TemporaryRedirect", "InvalidRegion":
		return region, false
	case "InvalidAccessKeyId", "XAdminUserNotFound":
		return "correct PAWL_S3_ACCESS_KEY", false
	case "SignatureDoesNotMatch":
		return "correct PAWL_S3_SECRET_KEY", false
	case "ExpiredToken", "InvalidToken":
		return "renew the keys that PAWL_S3_ACCESS_KEY, or AWS's ways, give", false
	case "RequestTimeTooSkewed":
		return "set the clock of this machine", false
	case minio.AccessDenied:
		return "allow it in the bucket's policy for the keys of PAWL_S3_ACCESS_KEY", false
	case minio.NoSuchBucket, "InvalidBucketName":
		return bucket, false
	}
	switch {
	case answer.StatusCode == http.StatusMovedPermanently, answer.StatusCode == http.StatusTemporaryRedirect:
		return region, false
	case answer.StatusCode == http.StatusNotImplemented, answer.StatusCode == http.StatusMethodNotAllowed:
		return "use another server in " + setting + ": this one lacks what Pawl needs", false
	case isTransient(answer):
		return "see the store's own log, then check again", true
	}
	return "see the store's own log, or correct " + setting, false
}

// brief is an error without the address that was asked: it may be signed.
func brief(err error) string {
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err
	}
	if answer, ok := errors.AsType[minio.ErrorResponse](err); ok {
		return fmt.Sprintf("%s (%s, status %d)", answer.Message, answer.Code, answer.StatusCode)
	}
	return err.Error()
}
