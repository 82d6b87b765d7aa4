package blobstore

import (
	"net/url"
	"testing"

	"github.com/pawlhq/pawl/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func mustURL(t *testing.T, raw string) *url.URL {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return u
}
