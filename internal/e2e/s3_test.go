package e2e

import (
	"net/url"
	"testing"

	"github.com/pawlhq/pawl/internal/testenv"
)

// s3Address writes PAWL_BLOBS for a bucket of the tests' server.
func s3Address(s testenv.S3) string {
	query := url.Values{"endpoint": {s.Endpoint}, "region": {s.Region}, "path_style": {"true"}}
	return "s3://" + s.Bucket + "/e2e?" + query.Encode()
}

// s3Env holds the keys of a bucket.
func s3Env(bucket testenv.S3) []string {
	return []string{"PAWL_S3_ACCESS_KEY=" + bucket.AccessKey, "PAWL_S3_SECRET_KEY=" + bucket.SecretKey}
}

// serveS3 starts a server on a database of its own and a bucket.
func serveS3(t testing.TB, bucket testenv.S3, env ...string) *server {
	t.Helper()
	return serve(t, testenv.Postgres(t), s3Address(bucket), append(s3Env(bucket), env...)...)
}
