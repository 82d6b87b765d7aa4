package blobstore

import (
	"net/url"
	"testing"
	"time"
)

// TestReadOrigin compares the origin that readers are sent to with what is signed, in all the ways to write a bucket's address. No
// server is there.
func TestReadOrigin(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ query, public, want string }{
		{"endpoint=http://127.0.0.1:9&region=us-east-1&path_style=true", "", "http://127.0.0.1:9"},
		{"endpoint=http://127.0.0.1:9&region=us-east-1&path_style=true", "https://files.example", "https://files.example"},
		{"endpoint=https://s3.example:8443&region=eu-west-1&path_style=false", "", "https://pictures.s3.example:8443"},
		{"endpoint=http://s3.inner&region=eu-west-1&path_style=false", "https://s3.example", "https://pictures.s3.example"},
		{"endpoint=https://s3.amazonaws.com&region=eu-central-1", "", "https://pictures.s3.dualstack.eu-central-1.amazonaws.com"},
	} {
		opened, err := Open(t.Context(), "s3://pictures/in?"+test.query, Options{AccessKey: "a", SecretKey: "b", PublicEndpoint: test.public})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = opened.Close() })
		store := opened.(*S3)
		signed, err := store.sign(t.Context(), "GET", store.key(someName), time.Minute, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		u, err := url.Parse(signed.URL)
		if err != nil {
			t.Fatal(err)
		}
		if got := u.Scheme + "://" + u.Host; store.ReadOrigin() != got || got != test.want {
			t.Errorf("%s, %q: origin %s, signed for %s, want %s", test.query, test.public, store.ReadOrigin(), got, test.want)
		}
	}
}
