// Package blobstore keeps the bytes of published files: in a local directory (Dir) or in a bucket of any
// S3-compatible store (S3). Both implement publish.BlobStore; Open picks one by its URL.
//
// Each store's methods lie one verb a file, so the listing reads in pairs: dir_put.go and s3_put.go, dir_list.go and
// s3_list.go. What both need stands in body.go (the body on its way in) and name.go (names that can't escape).
package blobstore
