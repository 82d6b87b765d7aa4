package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/publish"
)

// TestPublishSendsWhatItExpects: the patterns are sent as they are, and the longest list of missing paths comes back whole.
func TestPublishSendsWhatItExpects(t *testing.T) {
	t.Parallel()
	var missing []publish.Path
	for n := range publish.MaxExpectedPaths {
		missing = append(missing, publish.Path(fmt.Sprintf("shots/%s/beauty.%06d.exr", strings.Repeat("layer", 20), n)))
	}
	bodies := make(chan string, 1)
	refusal := &publish.Error{Code: publish.ErrGenerationIncomplete, Missing: missing, Empty: []publish.Path{"e"}}
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies <- string(body)
		refuse(refusal)(w, r)
	})
	req := publish.PublishRequest{Grant: grant, Final: true, Expect: []string{"beauty.[1-2].exr", "<&>"}, AllowEmpty: true, ReuseFrom: 17, ReuseStale: true}
	_, err := f.client(t, Options{}).Publish(testContext(t), req)
	var sent struct {
		Expect     []string `json:"expect"`
		AllowEmpty bool     `json:"allow_empty"`
		ReuseFrom  int64    `json:"reuse_from"`
		ReuseStale bool     `json:"reuse_stale"`
	}
	if err := json.Unmarshal([]byte(<-bodies), &sent); err != nil || !slices.Equal(sent.Expect, req.Expect) || !sent.AllowEmpty || sent.ReuseFrom != 17 || !sent.ReuseStale {
		t.Errorf("sent %+v, %v", sent, err)
	}
	var got *publish.Error
	if !errors.As(err, &got) || !slices.Equal(got.Missing, missing) || !slices.Equal(got.Empty, refusal.Empty) {
		t.Errorf("got %.200v, want all missing paths", err)
	}
}
