package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// Case 28: sizes around a part of 16 MiB, of known and unknown length, through the server into each store and back.
func TestCase28Sizes(t *testing.T) {
	t.Parallel()
	const part = 16 << 20
	bucket := testenv.S3Bucket(t)
	for name, s := range map[string]*server{
		"directory": serve(t, testenv.Postgres(t), directory(t)),
		"s3":        serveS3(t, bucket),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			content := make([]byte, 2*part)
			source := rand.NewChaCha8([32]byte{28})
			_, _ = source.Read(content) // It never fails.
			for _, size := range []int{0, 1, part - 1, part, part + 1, 2 * part} {
				for _, length := range []int64{int64(size), -1} {
					key := publish.Key(fmt.Sprintf("sizes/%d/%v", size, length >= 0))
					if err := roundTrip(s, key, content[:size], length); err != nil {
						t.Errorf("%s: %v", key, err)
					}
				}
			}
		})
	}
}

// roundTrip publishes one file and reads it back by the readers' way.
func roundTrip(s *server, key publish.Key, content []byte, length int64) error {
	ctx := context.Background()
	lease, err := s.api.Acquire(ctx, publish.AcquireRequest{Key: key, Holder: "W", TTL: time.Minute})
	if err != nil {
		return err
	}
	body := io.Reader(bytes.NewReader(content))
	if length < 0 {
		body = io.MultiReader(body) // hides its length
	}
	receipt, err := s.api.UploadAndPublish(ctx, publish.UploadRequest{Grant: lease.Grant(), Path: "out.bin", Size: length, Body: body})
	if err != nil {
		return err
	}
	if receipt.Bytes != int64(len(content)) {
		return fmt.Errorf("the receipt says %d bytes", receipt.Bytes)
	}
	got, err := get(s.url + "/v1/keys/" + string(key) + "/-/current")
	if err == nil && sha256.Sum256(got) != sha256.Sum256(content) {
		err = fmt.Errorf("%d bytes came back that are not those sent", len(got))
	}
	return err
}
