package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// largeBytes is the size of large files in these tests: PAWL_TEST_LARGE_MIB in MiB, or what fits into everyday's time.
func largeBytes(t *testing.T) int64 {
	t.Helper()
	text := os.Getenv("PAWL_TEST_LARGE_MIB")
	if text == "" {
		return 256 << 20
	}
	mib, err := strconv.ParseInt(text, 10, 64)
	if err != nil || mib < 256 {
		t.Fatalf("PAWL_TEST_LARGE_MIB is %q; it must be a number from 256", text)
	}
	return mib << 20
}

// sparse is the content of a large file: zeros, but for the number of each MiB at its start, so that no two parts are alike.
type sparse struct{ size, at int64 }

func (s *sparse) Read(p []byte) (int, error) {
	if s.at == s.size {
		return 0, io.EOF
	}
	const block = 1 << 20
	n := min(int64(len(p)), s.size-s.at, block-s.at%block)
	clear(p[:n])
	if s.at%block == 0 {
		copy(p[:n], fmt.Sprintf("%08d", s.at/block))
	}
	s.at += n
	return int(n), nil
}

// sparseFile writes such a file and returns its digest.
func sparseFile(t *testing.T, size int64) (path string, sum publish.Digest) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "large.bin")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	h := sha256.New()
	if _, err := io.CopyBuffer(io.MultiWriter(struct{ io.Writer }{f}, h), struct{ io.Reader }{&sparse{size: size}}, make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return path, publish.Digest(h.Sum(nil))
}

// s3Client speaks to the tests' server behind the back of Pawl.
func s3Client(t *testing.T, bucket testenv.S3) *minio.Core {
	t.Helper()
	core, err := minio.NewCore(strings.TrimPrefix(bucket.Endpoint, "http://"), &minio.Options{
		Creds: credentials.NewStaticV4(bucket.AccessKey, bucket.SecretKey, ""), Region: bucket.Region, BucketLookup: minio.BucketLookupPath,
	})
	if err != nil {
		t.Fatal(err)
	}
	return core
}

// sentParts lists the parts of the only unfinished upload in the bucket, by when they came.
func sentParts(ctx context.Context, core *minio.Core, bucket string) (map[int]time.Time, error) {
	found, err := core.ListMultipartUploads(ctx, bucket, "", "", "", "", 10)
	if err != nil || len(found.Uploads) != 1 {
		return nil, fmt.Errorf("%d unfinished uploads: %w", len(found.Uploads), err)
	}
	parts := map[int]time.Time{}
	for marker := 0; ; {
		page, err := core.ListObjectParts(ctx, bucket, found.Uploads[0].Key, found.Uploads[0].UploadID, marker, 1000)
		if err != nil {
			return nil, err
		}
		for _, part := range page.ObjectParts {
			parts[part.PartNumber] = part.LastModified
		}
		if !page.IsTruncated {
			return parts, nil
		}
		marker = page.NextPartNumberMarker
	}
}

// TestPutKilledAndResumed: `pawl put` sends a large file to the blob store itself and is killed three times in the middle. Each next run
// keeps the parts that are there. Neither it nor the server needs much memory.
func TestPutKilledAndResumed(t *testing.T) {
	t.Parallel()
	bucket := testenv.S3Bucket(t)
	core := s3Client(t, bucket)
	s := serveS3(t, bucket)
	size := largeBytes(t)
	file, sum := sparseFile(t, size)
	lease := filepath.Join(t.TempDir(), "lease.json")
	acquired := s.pawl("acquire", "large", "--holder", "W", "--ttl", "1h", "--json")
	if code := acquired.exit(); code != 0 {
		t.Fatalf("acquire ended with %d", code)
	}
	if err := os.WriteFile(lease, []byte(acquired.out.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	put := func() *process {
		return s.pawl("put", "large", file, "--lease-file", lease, "--publish", "--json", "--parallel", "2")
	}
	total := int((size + 16<<20 - 1) / (16 << 20))
	kept := map[int]time.Time{}
	for _, share := range []int{8, 3, 2} { // An eighth, a third, a half.
		p := put()
		testenv.Eventually(t, 10*time.Minute, func() error {
			parts, err := sentParts(t.Context(), core, bucket.Bucket)
			if err == nil && len(parts) <= max(len(kept), total/share) {
				err = fmt.Errorf("%d of %d parts have come", len(parts), total)
			}
			return err
		})
		p.signal(syscall.SIGKILL)
		if code := p.exit(); code == 0 {
			t.Fatal("it was done before it could be killed")
		}
		parts, err := sentParts(t.Context(), core, bucket.Bucket)
		if err != nil {
			t.Fatal(err)
		}
		for number, when := range kept {
			if !parts[number].Equal(when) {
				t.Errorf("part %d, which had come, was sent again", number)
			}
		}
		kept = parts
		if _, err := s.api.Pointer(t.Context(), "large"); !errors.Is(err, publish.ErrNotFound) {
			t.Fatalf("before all of it has come, current is: %v", err)
		}
	}
	p := put()
	<-p.done
	if p.err != nil {
		t.Fatalf("the last run: %v\n%s", p.err, p.errs.String())
	}
	var receipt publish.Receipt
	if err := json.Unmarshal([]byte(p.out.String()), &receipt); err != nil || receipt.Bytes != size {
		t.Fatalf("%v in %s", err, p.out.String())
	}
	got, err := s.api.Open(t.Context(), "large", receipt.Token, "large.bin", publish.LeaseID{})
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	if n, err := io.Copy(io.Discard, got); err != nil || n != size || got.Digest != sum {
		t.Errorf("read %d bytes of %s, %v; want %d of %s", n, got.Digest, err, size, sum)
	}
	if peak := s.peakMemory(t) >> 10; peak > 200 {
		t.Errorf("the server took %d MiB", peak)
	} else {
		t.Logf("%d MiB in parts; the server took %d MiB at most", size>>20, peak)
	}
	if found, err := core.ListMultipartUploads(t.Context(), bucket.Bucket, "", "", "", "", 10); err != nil || len(found.Uploads) != 0 {
		t.Errorf("%d uploads are unfinished, %v", len(found.Uploads), err)
	}
}

// TestStreamOfUnknownLength goes through the server into S3 in little memory.
func TestStreamOfUnknownLength(t *testing.T) {
	t.Parallel()
	bucket := testenv.S3Bucket(t)
	s := serveS3(t, bucket)
	size := largeBytes(t)
	lease, err := s.api.Acquire(t.Context(), publish.AcquireRequest{Key: "stream", Holder: "W", TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	h := sha256.New()
	body := io.TeeReader(&sparse{size: size}, h)
	receipt, err := s.api.UploadAndPublish(t.Context(), publish.UploadRequest{Grant: lease.Grant(), Path: "stream.bin", Size: -1, Body: body})
	if err != nil {
		t.Fatal(err)
	}
	file, err := s.api.Open(t.Context(), "stream", receipt.Token, "stream.bin", publish.LeaseID{})
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if receipt.Bytes != size || file.Digest != publish.Digest(h.Sum(nil)) {
		t.Errorf("published %d bytes of %s", receipt.Bytes, file.Digest)
	}
	if n, err := io.Copy(io.Discard, file); err != nil || n != size {
		t.Errorf("read %d bytes, %v", n, err)
	}
	peak := s.peakMemory(t) >> 10
	if t.Logf("%d MiB; the server took %d MiB at most", size>>20, peak); peak > 200 {
		t.Errorf("the server took %d MiB", peak)
	}
}

// TestCase09CutOff: A is cut off from the server, but not from the blob store, where its signed requests still work. B takes over and
// publishes. What A has sent is there and never current; A learns that it is stale as soon as it asks.
func TestCase09CutOff(t *testing.T) {
	t.Parallel()
	bucket := testenv.S3Bucket(t)
	s := serveS3(t, bucket)
	ctx := t.Context()
	content := bytes.Repeat([]byte("A"), 17<<20)
	sum := publish.Digest(sha256.Sum256(content))
	a, err := s.api.Acquire(ctx, publish.AcquireRequest{Key: "k", Holder: "A", TTL: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	post := func(path string, body any) (int, []byte) {
		t.Helper()
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("%s/v1/keys/k/-/generations/%d/uploads%s", s.url, a.Token, path), bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Pawl-Lease", a.LeaseID.Hex())
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, answer
	}
	var begun struct {
		UploadID string `json:"upload_id"`
		Parts    int    `json:"parts"`
	}
	if status, answer := post("", map[string]any{"path": "f", "size": len(content), "sha256": sum}); status != http.StatusCreated || json.Unmarshal(answer, &begun) != nil || begun.Parts != 2 {
		t.Fatalf("begun with %d %s", status, answer)
	}
	var signed struct {
		Parts []publish.SignedPart `json:"parts"`
	}
	if status, answer := post("/"+begun.UploadID+"/parts", map[string]any{"part_numbers": []int{1, 2}}); status != http.StatusOK || json.Unmarshal(answer, &signed) != nil {
		t.Fatalf("signed with %d %s", status, answer)
	}

	// B waits until A's lease is over, then wins.
	b, err := s.api.Acquire(ctx, publish.AcquireRequest{Key: "k", Holder: "B", TTL: time.Minute, Wait: patience})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.api.UploadAndPublish(ctx, publish.UploadRequest{Grant: b.Grant(), Path: "f", Size: 5, Body: strings.NewReader("of B.")}); err != nil {
		t.Fatal(err)
	}

	for _, part := range signed.Parts {
		start := int64(part.Number-1) * (16 << 20)
		req, err := http.NewRequestWithContext(ctx, part.Method, part.URL, bytes.NewReader(content[start:start+part.Size]))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("A's part %d was answered with %s by the store", part.Number, resp.Status)
		}
	}
	if got := s.read("k"); got != "of B." {
		t.Errorf("current is %q", got)
	}
	for path, body := range map[string]any{
		"/" + begun.UploadID + "/complete": map[string]any{},
		"/" + begun.UploadID + "/parts":    map[string]any{"part_numbers": []int{1}},
		"":                                 map[string]any{"path": "g", "size": 5, "sha256": sum},
	} {
		if status, answer := post(path, body); status != http.StatusConflict || !bytes.Contains(answer, []byte(`"stale-token"`)) {
			t.Errorf("uploads%s: %d %s", path, status, answer)
		}
	}
	if got := s.read("k"); got != "of B." {
		t.Errorf("current is %q", got)
	}
	// A cleans up behind itself by the client, which is open to a fenced worker, too.
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, fmt.Sprintf("%s/v1/keys/k/-/generations/%d/uploads/%s", s.url, a.Token, begun.UploadID), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Pawl-Lease", a.LeaseID.Hex())
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		t.Errorf("A's abort was answered with %s", resp.Status)
	}
}

// TestDirectNames: case 33, by signed requests; each name comes back byte for byte in listing and file. Case 37: names of which one is
// the beginning of the other.
func TestDirectNames(t *testing.T) {
	t.Parallel()
	bucket := testenv.S3Bucket(t)
	s := serveS3(t, bucket)
	names := []publish.Path{
		"a+b.png", "a b.png", "a%2Bb.png", "100%.png", "q?x=1#y.png", "semi;colon&amp.png", "🦊/ü.png", "tileset", "tileset/0.glb",
	}
	for _, key := range []publish.Key{"shot", "shot/010"} {
		lease, err := s.api.Acquire(t.Context(), publish.AcquireRequest{Key: key, Holder: "W", TTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			content := []byte(string(key) + " " + string(name))
			if _, err := s.api.UploadFile(t.Context(), client.FileUpload{
				Grant: lease.Grant(), Path: name, Source: bytes.NewReader(content), Size: int64(len(content)),
				Digest: sha256.Sum256(content), Mode: client.DirectAlways,
			}); err != nil {
				t.Fatalf("%s %s: %v", key, name, err)
			}
		}
		receipt, err := s.api.Publish(t.Context(), publish.PublishRequest{Grant: lease.Grant(), Final: true})
		if err != nil {
			t.Fatal(err)
		}
		page, err := s.api.Files(t.Context(), key, receipt.Token, "", publish.MaxPageSize)
		if err != nil {
			t.Fatal(err)
		}
		var listed []publish.Path
		for _, file := range page.Files {
			listed = append(listed, file.Path)
		}
		want := slices.Clone(names)
		slices.Sort(want)
		if !slices.Equal(listed, want) {
			t.Errorf("%s lists %q", key, listed)
		}
		for _, name := range names {
			file, err := s.api.Open(t.Context(), key, receipt.Token, name, publish.LeaseID{})
			if err != nil {
				t.Fatal(err)
			}
			content, err := io.ReadAll(file)
			if err := errors.Join(err, file.Close()); err != nil || string(content) != string(key)+" "+string(name) {
				t.Errorf("%s %s: %q, %v", key, name, content, err)
			}
		}
	}
}
