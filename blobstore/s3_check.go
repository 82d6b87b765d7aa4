package blobstore

import (
	"context"
	"crypto/md5" //nolint:gosec // What S3 calls Content-MD5.
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
)

const (
	// checkTimeout bounds the whole check, and cleanTimeout what is tidied up after it.
	checkTimeout = 30 * time.Second
	cleanTimeout = 10 * time.Second
	// checkFolder is where the check puts its objects: no key has the segment "-", so they can be no key's, and List leaves them out.
	checkFolder = "-/check/"
	// checkLeftoverAge is after how long objects of a check count as left by one that was killed.
	checkLeftoverAge = time.Hour
)

// s3Check tries a server out, on objects of its own in a folder of its own.
type s3Check struct {
	*Report
	s      *S3
	folder string // a key's beginning
	body   string
}

// Diagnose tries out all that Pawl needs of the server and all that it can make use of, with some 25 small requests in
// at most 30 s, and removes what it has made. Nothing is taken on trust. It may run beside uploads and beside itself.
func (s *S3) Diagnose(ctx context.Context, opts DiagnoseOptions) Report {
	var report Report
	c := &s3Check{Report: &report, s: s, folder: s.prefix + checkFolder + strings.ToLower(rand.Text()) + "/", body: "Pawl tries this store out: " + rand.Text()}
	bounded, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	if !c.server(bounded) || !c.bucket(bounded) {
		return report
	}
	c.objects(bounded)
	c.cors(bounded, opts.Origins)
	c.clean(context.WithoutCancel(ctx))
	if bounded.Err() != nil {
		c.add("time", LevelFail, "see how slow the store at "+setting+" is, then check again", "the check didn't end within %s", checkTimeout)
		report.Down = true
	}
	return report
}

// bucket lists: that takes a right region, right keys and a bucket, and unlike a HEAD its answer says which of them is wrong.
func (c *s3Check) bucket(ctx context.Context) bool {
	const name = "bucket"
	var old []string
	for found := range c.s.core.ListObjectsIter(ctx, c.s.bucket, minio.ListObjectsOptions{Prefix: c.s.prefix + checkFolder, Recursive: true}) {
		if found.Err != nil {
			c.failed(name, "listing the bucket "+c.s.bucket, found.Err)
			return false
		}
		if time.Since(found.LastModified) > checkLeftoverAge {
			old = append(old, found.Key)
		}
	}
	if err := ctx.Err(); err != nil { // The client ends a list silently then.
		c.failed(name, "listing the bucket "+c.s.bucket, err)
		return false
	}
	for _, key := range old {
		_ = c.s.core.RemoveObject(ctx, c.s.bucket, key, minio.RemoveObjectOptions{}) //nolint:errcheck // It goes another time.
	}
	style := "in the host's name"
	if !c.virtualHost() {
		style = "in the path"
	}
	c.add(name, LevelOK, "", "%s lists, with the keys given, region %s, and its name %s", c.s.bucket, c.s.region, style)
	return true
}

// objects tries all that is done to objects, as far as it can come.
func (c *s3Check) objects(ctx context.Context) {
	if !c.write(ctx) || !c.read(ctx) {
		return
	}
	c.createOnly(ctx)
	c.checksum(ctx)
	c.signed(ctx)
	c.parts(ctx)
	c.conclude()
}

// put sends the body under a key in one request, with the given further headers.
func (c *s3Check) put(ctx context.Context, name string, headers map[string]string) error {
	// The body's sum is known, so that it is signed as a whole and not piece by piece.
	opts := minio.PutObjectOptions{ContentType: "text/plain", UserMetadata: headers, DisableContentSha256: true}
	opts.SetMatchETagExcept("*")
	// Both sums are given so that the client sends nothing of its own behind the body: this is about our headers.
	sum, old := sha256.Sum256([]byte(c.body)), md5.Sum([]byte(c.body)) //nolint:gosec // See above.
	_, err := c.s.once.PutObject(ctx, c.s.bucket, c.folder+name, strings.NewReader(c.body), int64(len(c.body)),
		base64.StdEncoding.EncodeToString(old[:]), hex.EncodeToString(sum[:]), opts)
	return err
}

func (c *s3Check) write(ctx context.Context) bool {
	err := c.put(ctx, "a", nil)
	if err != nil {
		c.failed("write", "putting an object", err)
		return false
	}
	c.add("write", LevelOK, "", "an object was put")
	return true
}

func (c *s3Check) read(ctx context.Context) bool {
	from, _, _, err := c.s.core.GetObject(ctx, c.s.bucket, c.folder+"a", minio.GetObjectOptions{})
	if err != nil {
		c.failed("read", "reading it back", err)
		return false
	}
	got, err := io.ReadAll(io.LimitReader(from, 1<<20))
	if err := errors.Join(err, from.Close()); err != nil {
		c.failed("read", "reading it back", err)
		return false
	}
	if string(got) != c.body {
		c.add("read", LevelFail, "correct endpoint=… in "+setting+", or take away what changes bytes on the way to the store",
			"other bytes came back than were put (%d of %d): that is no S3 server", len(got), len(c.body))
		return false
	}
	c.add("read", LevelOK, "", "the same bytes came back")
	return true
}

// createOnly puts a second object of the same name.
func (c *s3Check) createOnly(ctx context.Context) {
	err := c.put(ctx, "a", nil)
	c.Capable.CreateOnlyPut = c.refused("create-only", "putting over it with If-None-Match: *", err, isTaken)
}

// checksum puts an object with a sum that isn't its own.
func (c *s3Check) checksum(ctx context.Context) {
	if err := c.put(ctx, "c", map[string]string{headerChecksumSHA256: sumOf(c.body)}); err != nil {
		c.add("checksum", LevelWarn, noChecksumCure, "an object with its %s was refused: %s", headerChecksumSHA256, brief(err))
		return
	}
	err := c.put(ctx, "d", map[string]string{headerChecksumSHA256: sumOf("other bytes")})
	c.Capable.ChecksumSHA256 = c.refused("checksum", "putting an object with a wrong "+headerChecksumSHA256, err, isMismatch)
}

// conclude takes back what holds for our own requests alone: a client's are signed.
func (c *s3Check) conclude() {
	if !c.Capable.Presign {
		c.Capable = Capabilities{CreateOnlyComplete: c.Capable.CreateOnlyComplete}
	}
}

// clean removes everything that the check has made, and uploads in parts that earlier ones have left.
func (c *s3Check) clean(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, cleanTimeout)
	defer cancel()
	down := c.Down
	defer func() { c.Down = down }() // What is known by now stays known.
	if found, err := c.s.core.ListMultipartUploads(ctx, c.s.bucket, c.s.prefix+checkFolder, "", "", "", 1000); err != nil {
		c.failed("unfinished uploads", "listing uploads in parts", err)
	} else {
		c.abort(ctx, found.Uploads)
	}
	var failed error
	removed := 0
	for found := range c.s.core.ListObjectsIter(ctx, c.s.bucket, minio.ListObjectsOptions{Prefix: c.folder, Recursive: true}) {
		if found.Err != nil {
			failed = found.Err
			break
		}
		if err := c.s.core.RemoveObject(ctx, c.s.bucket, found.Key, minio.RemoveObjectOptions{}); err != nil {
			failed = err
		} else {
			removed++
		}
	}
	if failed != nil {
		c.failed("delete", "removing what the check has put", failed)
		return
	}
	c.add("delete", LevelOK, "", "%d objects of the check were removed", removed)
}

func (c *s3Check) abort(ctx context.Context, uploads []minio.ObjectMultipartInfo) {
	for _, upload := range uploads {
		if !strings.HasPrefix(upload.Key, c.folder) && time.Since(upload.Initiated) < checkLeftoverAge {
			continue // Of a check that runs beside this one.
		}
		if err := c.s.core.AbortMultipartUpload(ctx, c.s.bucket, upload.Key, upload.UploadID); err != nil && minio.ToErrorResponse(err).Code != minio.NoSuchUpload {
			c.failed("unfinished uploads", "aborting an upload in parts", err)
			return
		}
	}
	c.add("unfinished uploads", LevelOK, "", "they can be listed and aborted")
}

func sumOf(body string) string {
	sum := sha256.Sum256([]byte(body))
	return base64.StdEncoding.EncodeToString(sum[:])
}

func (c *s3Check) failed(name, doing string, err error) {
	seen, cure, down := c.explain(err)
	c.Down = c.Down || down
	c.add(name, LevelFail, cure, "%s: %s", doing, seen)
}

// refused judges an answer that should be a refusal of a certain kind.
func (c *s3Check) refused(name, doing string, err error, right func(status int, code string) bool) bool {
	if err == nil {
		return c.verdict(name, doing, http.StatusOK, "", right)
	}
	answer := minio.ToErrorResponse(err)
	if answer.StatusCode == 0 {
		c.failed(name, doing, err)
		return false
	}
	return c.verdict(name, doing, answer.StatusCode, answer.Code, right)
}

func (c *s3Check) verdict(name, doing string, status int, code string, right func(status int, code string) bool) bool {
	switch {
	case right(status, code):
		c.add(name, LevelOK, "", "%s was refused (%s)", doing, fmt.Sprint(status, " ", code))
		return true
	case status < http.StatusMultipleChoices:
		c.add(name, LevelWarn, weakCures[strings.TrimPrefix(name, "signed ")], "%s was accepted: the server ignores it", doing)
	default:
		c.Down = c.Down || isBusy(status)
		c.add(name, LevelWarn, weakCures[strings.TrimPrefix(name, "signed ")], "%s was answered with %d %s", doing, status, code)
	}
	return false
}

// isBusy reports whether a status says nothing about what the server can do.
func isBusy(status int) bool {
	return status == http.StatusTooManyRequests || status >= http.StatusInternalServerError && status != http.StatusNotImplemented
}

const noChecksumCure = "nothing must be done: what clients send themselves is read back instead; a newer server in " + setting + " saves that"

// weakCures say what a lack means.
var weakCures = map[string]string{
	"create-only":       "nothing must be done: every object has a new name; but clients send small files in parts, unless checksums are obeyed. A newer server in " + setting + " changes that",
	"checksum":          noChecksumCure,
	"create-only parts": "nothing must be done: every object has a new name. A newer server in " + setting + " adds a second lock to that door",
}

// isTaken: S3 itself also answers 409 when requests meet.
func isTaken(status int, code string) bool {
	return status == http.StatusPreconditionFailed || status == http.StatusConflict && code == "ConditionalRequestConflict"
}

// isMismatch: the codes differ, the status doesn't.
func isMismatch(status int, _ string) bool { return status == http.StatusBadRequest }
