package web_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/web"
)

// A page of another site can't change anything through its reader's browser; programs can, and so can our own page.
func TestForeignOriginsAreRefused(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, header, value string
		want                int
	}{
		{"a program", "", "", http.StatusCreated},
		{"our own page", "Sec-Fetch-Site", "same-origin", http.StatusCreated},
		{"another site's page", "Sec-Fetch-Site", "cross-site", http.StatusForbidden},
		{"another site's page in an old browser", "Origin", "https://evil.example", http.StatusForbidden},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, web.Options{})
			req := httptest.NewRequest(http.MethodPost, "/v1/keys/k/-/lease", strings.NewReader(`{"holder": "h", "ttl": "30s"}`))
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			if test.header != "" {
				req.Header.Set(test.header, test.value)
			}
			answer := httptest.NewRecorder()
			r.handler.ServeHTTP(answer, req)
			if answer.Code != test.want {
				t.Errorf("status %d, want %d: %s", answer.Code, test.want, answer.Body)
			}
		})
	}
}
