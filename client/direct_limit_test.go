package client_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/publish"
)

// crowded is a server at which the caller has as many direct uploads open as it may have.
type crowded struct {
	*fakeParts
	puts int
}

func (c *crowded) RoundTrip(req *http.Request) (*http.Response, error) {
	switch {
	case req.Method == http.MethodPut:
		c.puts++
		return c.answer(req, 201, `{"path":"f","size":8388608}`)
	case strings.HasSuffix(req.URL.Path, "/uploads"):
		c.begun++
		return c.answer(req, 507, `{"code":"quota-exceeded","limit":1,"unit":"uploads"}`)
	}
	return c.fakeParts.RoundTrip(req)
}

// A direct upload that is one too many goes through the server, at once and with a word, unless it must not; the next file is tried directly again. There is
// nothing of it to abort. A store that is full is no reason to try the same bytes another way.
func TestDirectTooMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &crowded{fakeParts: newFakeParts(t, client.DirectFrom, 1<<20)}
		c, err := client.New("http://pawl", client.Options{Credential: "canary", Transport: s})
		if err != nil {
			t.Fatal(err)
		}
		var detours []error
		file := client.FileUpload{
			Grant: publish.Grant{Key: "k", Token: 1, LeaseID: publish.NewLeaseID()}, Path: "f",
			Source: bytes.NewReader(s.content), Size: int64(len(s.content)), Digest: sha256.Sum256(s.content),
			Detour: func(reason error) { detours = append(detours, reason) },
		}
		for n := 1; n <= 2; n++ {
			if _, err := c.UploadFile(t.Context(), file); err != nil || s.begun != n || s.puts != n {
				t.Errorf("begun %d times, sent through the server %d times: %v", s.begun, s.puts, err)
			}
		}
		if len(detours) != 2 || !errors.Is(detours[0], publish.ErrQuotaExceeded) {
			t.Errorf("told of %v", detours)
		}
		if err := c.AbortUpload(t.Context(), file); err != nil {
			t.Error(err)
		}
		file.Mode = client.DirectAlways
		if _, err := c.UploadFile(t.Context(), file); !errors.Is(err, publish.ErrQuotaExceeded) || s.puts != 2 {
			t.Errorf("sent through the server although it must not be: %v", err)
		}
		full := newFakeParts(t, client.DirectFrom, 1<<20)
		full.begin = func(int) (int, string) { return 507, `{"code":"quota-exceeded"}` }
		if c, err = client.New("http://pawl", client.Options{Credential: "canary", Transport: full}); err != nil {
			t.Fatal(err)
		}
		file.Mode = client.DirectAuto
		if _, err := c.UploadFile(t.Context(), file); !errors.Is(err, publish.ErrQuotaExceeded) {
			t.Errorf("a full store: %v", err)
		}
	})
}
