package blobstore

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/pawlhq/pawl/publish"
)

// List asks for the names page by page. Objects of other programs, whose names can't be ours, are left out.
func (s *S3) List(ctx context.Context, prefix string) iter.Seq2[publish.ObjectInfo, error] {
	return func(yield func(publish.ObjectInfo, error) bool) {
		doing := "listing " + prefix
		last := ""
		fetchOwner := false
		for found := range s.core.ListObjectsIter(ctx, s.bucket, minio.ListObjectsOptions{
			Prefix: s.prefix + prefix, Recursive: true, FetchOwner: &fetchOwner,
		}) {
			if found.Err != nil {
				yield(publish.ObjectInfo{}, s3Error(ctx, doing, found.Err))
				return
			}
			if last != "" && found.Key <= last {
				// Who compares this list with another, sorted one, would take objects for missing.
				yield(publish.ObjectInfo{}, fmt.Errorf("blob store: %s: the server lists %q after %q; it must list in byte order", doing, found.Key, last))
				return
			}
			last = found.Key
			rest, ours := strings.CutPrefix(found.Key, s.prefix)
			name := publish.ObjectName(rest)
			if !ours || !strings.HasPrefix(rest, prefix) || checkName(name) != nil {
				continue
			}
			if !yield(publish.ObjectInfo{Name: name, Size: found.Size, Modified: found.LastModified}, nil) {
				return
			}
		}
		// The client ends a list silently when its context ends.
		if err := ctx.Err(); err != nil {
			yield(publish.ObjectInfo{}, fmt.Errorf("blob store: %s: %w", doing, err))
		}
	}
}

// Unfinished asks for the multipart uploads page by page. A page goes on behind a name, not behind an upload of it: some servers refuse the
// id of one that was aborted meanwhile, and the name was yielded.
func (s *S3) Unfinished(ctx context.Context, prefix string) iter.Seq2[publish.ObjectName, error] {
	return func(yield func(publish.ObjectName, error) bool) {
		key := ""
		for {
			page, err := s.core.ListMultipartUploads(ctx, s.bucket, s.prefix+prefix, key, "", "", 1000)
			if err != nil {
				yield("", s3Error(ctx, "listing the unfinished uploads of "+prefix, err))
				return
			}
			for _, upload := range page.Uploads {
				rest, ours := strings.CutPrefix(upload.Key, s.prefix)
				name := publish.ObjectName(rest)
				if !ours || !strings.HasPrefix(rest, prefix) || checkName(name) != nil {
					continue
				}
				if !yield(name, nil) {
					return
				}
			}
			if !page.IsTruncated {
				return
			}
			if page.NextKeyMarker <= key {
				yield("", fmt.Errorf("blob store: listing the unfinished uploads of %s: the server goes on at %q behind %q", prefix, page.NextKeyMarker, key))
				return
			}
			key = page.NextKeyMarker
		}
	}
}
