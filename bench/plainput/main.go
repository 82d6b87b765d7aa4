// Command plainput puts one file into a bucket with minio-go as it comes: what `pawl put` is compared with.
//
//	plainput ENDPOINT BUCKET NAME FILE
//
// The keys stand in PAWL_S3_ACCESS_KEY and PAWL_S3_SECRET_KEY.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

func main() {
	if err := put(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "plainput:", err)
		os.Exit(1)
	}
}

func put(args []string) error {
	if len(args) != 4 {
		return fmt.Errorf("usage: plainput ENDPOINT BUCKET NAME FILE")
	}
	client, err := minio.New(strings.TrimPrefix(args[0], "http://"), &minio.Options{
		Creds:  credentials.NewStaticV4(os.Getenv("PAWL_S3_ACCESS_KEY"), os.Getenv("PAWL_S3_SECRET_KEY"), ""),
		Region: "us-east-1", BucketLookup: minio.BucketLookupPath,
	})
	if err != nil {
		return err
	}
	_, err = client.FPutObject(context.Background(), args[1], args[2], args[3], minio.PutObjectOptions{})
	return err
}
