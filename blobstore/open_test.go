package blobstore

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var someKeys = Options{AccessKey: "access", SecretKey: "secret"}

func TestOpenErrors(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]string{
		"":                                    "has no scheme; write file:///",
		"/srv/blobs":                          "has no scheme; write file:///",
		"http://host/bucket":                  `unknown scheme "http"; use file:// or s3://`,
		"file://srv/blobs":                    `names the host "srv"; write an absolute path after three slashes`,
		"file:blobs":                          "has no absolute path; write file:///folder",
		"file://":                             "has no absolute path",
		"file:///srv/blobs?x=1":               "write them as %3F",
		"file:///no/such/folder":              "whose parent /no/such doesn't exist; make it",
		"file://" + file:                      "a folder that can't be opened",
		"file:///srv/%zz":                     "is not a URL",
		"s3://":                               "has no bucket; write s3://bucket",
		"s3://bucket":                         "names no server; add endpoint=",
		"s3://me:hush@bucket":                 "has keys in it; give them as PAWL_S3_ACCESS_KEY",
		"s3://bucket/%zz:hush":                "is not a URL",
		"s3://bucket/a/../b?region=x":         "empty or relative segment",
		"s3://bucket/a//b?region=x":           "empty or relative segment",
		"s3://bucket?region=x&region=y":       "region 2 times",
		"s3://bucket?regoin=x":                `unknown parameter "regoin"; there are endpoint, path_style, region`,
		"s3://bucket?region=x&%zz":            "parameters that can't be read",
		"s3://bucket?endpoint=host:9000":      "no server's address; write endpoint=https://host:port",
		"s3://bucket?endpoint=https://h/path": "no server's address",
		"s3://bucket?endpoint=ftp://h":        "no server's address",
		"s3://bucket?endpoint=https://a:b@h":  "no server's address",
		"s3://bucket?endpoint=https://h&path_style=yeah": "path_style=yeah; write true or false",
		"s3://bucket?endpoint=https://h#f":               "has a #",
	} {
		store, err := Open(t.Context(), url, someKeys)
		if err == nil {
			t.Errorf("%q was opened", url)
			_ = store.Close()
			continue
		}
		text := err.Error()
		if !strings.HasPrefix(text, "PAWL_BLOBS ") || !strings.Contains(text, want) || strings.Contains(text, "hush") {
			t.Errorf("%q gave %q; want %q in it", url, text, want)
		}
	}
	if _, err := Open(t.Context(), "s3://bucket?region=x", Options{AccessKey: "access"}); err == nil || !strings.Contains(err.Error(), "PAWL_S3_SECRET_KEY") {
		t.Errorf("a missing secret key gave %v", err)
	}
}

func TestOpenDir(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "with space %")
	store, err := Open(t.Context(), "file://"+strings.NewReplacer(" ", "%20", "%", "%25").Replace(path), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		t.Errorf("the folder wasn't made: %v", err)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}

func TestParseS3(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	for raw, want := range map[string]s3Config{
		"s3://bucket?region=eu-central-1":                               {endpoint: "s3.eu-central-1.amazonaws.com", secure: true, region: "eu-central-1"},
		"s3://bucket/?endpoint=https://host:9000&path_style=true":       {endpoint: "host:9000", secure: true, region: "us-east-1", pathStyle: &yes},
		"s3://bucket/a/b/?endpoint=http://[::1]:9000/&path_style=false": {endpoint: "[::1]:9000", region: "us-east-1", prefix: "a/b/", pathStyle: &no},
		"s3://bucket/a%20b?endpoint=https://host&region=r":              {endpoint: "host", secure: true, region: "r", prefix: "a b/"},
	} {
		want.bucket = "bucket"
		want.accessKey = keySource{setting: "PAWL_S3_ACCESS_KEY", value: "access"}
		want.secretKey = keySource{setting: "PAWL_S3_SECRET_KEY", value: "secret"}
		got, err := parseS3(mustURL(t, raw), someKeys)
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(s3Config{}, keySource{})); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", raw, err, diff)
		}
	}
}
