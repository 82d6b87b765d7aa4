package blobstore

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"net/url"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/pawlhq/pawl/publish"
)

// parts makes two uploads in parts under one name: the first becomes an object, and so the second must not.
func (c *s3Check) parts(ctx context.Context) {
	const name = "parts"
	// Clients send parts by signed requests: only with those the server's checksum of the whole is of use.
	doing, err := c.whole(ctx, c.Capable.Presign)
	var refused error
	if err != nil && c.Capable.Presign {
		refused = err
		doing, err = c.whole(ctx, false)
	}
	if err != nil {
		c.failed(name, doing, err)
		return
	}
	c.add(name, LevelOK, "", "an object was made of parts")
	if c.Capable.Presign {
		c.sumOfParts(ctx, refused)
	}
	id, err := c.begin(ctx, false)
	if err == nil {
		err = c.sendPart(ctx, id)
	}
	var part minio.CompletePart
	if err == nil {
		part, err = c.sent(ctx, id)
	}
	if err != nil {
		c.failed(name, "a second upload in parts", err)
		return
	}
	err = c.complete(ctx, id, part)
	c.Capable.CreateOnlyComplete = c.refused("create-only parts", "completing an upload over it with If-None-Match: *", err, isTaken)
}

// whole makes an object of one part.
func (c *s3Check) whole(ctx context.Context, summed bool) (doing string, err error) {
	id, err := c.begin(ctx, summed)
	if err != nil {
		return "beginning an upload in parts", err
	}
	if c.Capable.Presign {
		err = c.sendSignedPart(ctx, id, summed)
	} else {
		err = c.sendPart(ctx, id)
	}
	if err != nil {
		return "sending a part", err
	}
	part, err := c.sent(ctx, id)
	if err != nil {
		return "listing the parts of an upload", err
	}
	return "completing an upload in parts", c.complete(ctx, id, part)
}

func (c *s3Check) begin(ctx context.Context, summed bool) (id string, err error) {
	opts := minio.PutObjectOptions{ContentType: "text/plain"}
	if summed {
		opts.UserMetadata = map[string]string{headerChecksumAlgorithm: "CRC64NVME", headerChecksumType: fullObject}
	}
	return c.s.once.NewMultipartUpload(ctx, c.s.bucket, c.folder+"m", opts)
}

func (c *s3Check) sendPart(ctx context.Context, id string) error {
	_, err := c.s.once.PutObjectPart(ctx, c.s.bucket, c.folder+"m", id, 1, strings.NewReader(c.body), int64(len(c.body)), minio.PutObjectPartOptions{})
	return err
}

// sent tells of the part what completing the upload must name: some servers want the checksum that they have computed.
func (c *s3Check) sent(ctx context.Context, id string) (minio.CompletePart, error) {
	found, err := c.s.core.ListObjectParts(ctx, c.s.bucket, c.folder+"m", id, 0, 1000)
	if err == nil && len(found.ObjectParts) != 1 {
		err = minio.ErrorResponse{StatusCode: http.StatusOK, Code: "InvalidPart", Message: "the part that was sent isn't listed"}
	}
	if err != nil {
		return minio.CompletePart{}, err
	}
	part := found.ObjectParts[0]
	return minio.CompletePart{PartNumber: part.PartNumber, ETag: part.ETag, ChecksumCRC64NVME: part.ChecksumCRC64NVME}, nil
}

func (c *s3Check) complete(ctx context.Context, id string, part minio.CompletePart) error {
	var opts minio.PutObjectOptions
	opts.SetMatchETagExcept("*")
	_, err := c.s.once.CompleteMultipartUpload(ctx, c.s.bucket, c.folder+"m", id, []minio.CompletePart{part}, opts)
	return err
}

// sumOfParts compares the server's checksum of the whole object with our own. refused is why the server
// doesn't take requests for one, if it doesn't.
func (c *s3Check) sumOfParts(ctx context.Context, refused error) {
	const name = "checksum of parts"
	const cure = "nothing has to be done: what clients send in parts is read back, as with PAWL_S3_VERIFY=read; a newer server in " + setting + " saves that"
	if refused != nil {
		c.add(name, LevelWarn, cure, "the server refuses to compute the CRC64NVME of a whole object: %s", brief(refused))
		return
	}
	info, err := c.s.core.StatObject(ctx, c.s.bucket, c.folder+"m", minio.StatObjectOptions{Checksum: true})
	if err != nil {
		c.failed(name, "looking at the object", err)
		return
	}
	sum, err := base64.StdEncoding.DecodeString(info.ChecksumCRC64NVME)
	switch {
	case info.ChecksumCRC64NVME == "":
		c.add(name, LevelWarn, cure, "the server computes no CRC64NVME of a whole object")
	case err != nil || len(sum) != 8 || binary.BigEndian.Uint64(sum) != publish.CRC64NVMEOf([]byte(c.body)):
		c.add(name, LevelWarn, cure, "the server's CRC64NVME %q is not that of the object", info.ChecksumCRC64NVME)
	default:
		c.Capable.ChecksumCRC64NVME = true
		c.add(name, LevelOK, "", "the server computes the CRC64NVME of a whole object")
	}
}

// sendSignedPart sends a part with a signature in its URL, which covers the part's checksum where clients send one.
func (c *s3Check) sendSignedPart(ctx context.Context, id string, summed bool) error {
	header := http.Header{}
	if summed {
		crc := binary.BigEndian.AppendUint64(nil, publish.CRC64NVMEOf([]byte(c.body)))
		header.Set(headerChecksumCRC64NVME, base64.StdEncoding.EncodeToString(crc))
	}
	query := url.Values{"partNumber": {"1"}, "uploadId": {id}}
	answer, err := c.sendSigned(ctx, c.s.core.Client, http.MethodPut, "m", query, header, c.body)
	switch {
	case err != nil:
		return err
	case answer.status >= http.StatusMultipleChoices:
		return minio.ErrorResponse{StatusCode: answer.status, Code: answer.code, Message: "a signed part was refused"}
	}
	return nil
}
