package publish_test

import (
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/publish/publishtest"
)

// watcher reads nothing but the names of a bucket. It says which tokens have objects, and which of them were published.
func watcher(blobs *publishtest.Blobs) (all, published map[string]bool) {
	all, published = map[string]bool{}, map[string]bool{}
	for _, name := range blobs.Names() {
		_, rest, _ := strings.Cut(string(name), "/-/")
		token, tail, _ := strings.Cut(rest, "/")
		all[token] = true
		if tail == "published/receipt.json" {
			published[token] = true
		}
	}
	return all, published
}

// Case 25: who reads only the bucket can tell a published generation from an unpublished one, whatever became of the others: stale,
// abandoned, open, or carrying files over. No object of an unpublished one lies where a published one has any.
func TestCase25(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Markers = true
	put := func(grant publish.Grant, path publish.Path) {
		t.Helper()
		req := r.upload("of " + grant.LeaseID.Hex())
		req.Grant, req.Path = grant, path
		if _, err := r.Upload(t.Context(), req); err != nil {
			t.Fatal(err)
		}
	}
	publishes := func(req publish.PublishRequest, want error) {
		t.Helper()
		if _, err := r.Publish(t.Context(), req); !errors.Is(err, want) {
			t.Fatalf("publish under %d: %v, want %v", req.Grant.Token, err, want)
		}
	}
	var grants []publish.Grant
	for range 6 {
		grant := r.acquire("w")
		put(grant, "f")
		put(grant, "g")
		grants = append(grants, grant)
	}
	final := func(i int) publish.PublishRequest { return publish.PublishRequest{Grant: grants[i], Final: true} }
	publishes(final(0), nil)
	publishes(publish.PublishRequest{Grant: grants[1]}, nil) // Open: it may yet change.
	publishes(final(3), nil)
	publishes(final(2), publish.ErrStaleToken)
	put(grants[4], "h")
	reuse := final(4)
	reuse.ReuseFrom = grants[3].Token
	publishes(reuse, nil)

	all, published := watcher(r.blobs)
	history, err := r.History(t.Context(), "k", 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	sealed := map[string]bool{}
	for _, g := range history.Generations {
		token := tokenText(g.Token)
		if g.State == publish.StateSealed {
			sealed[token] = true
		}
		if page, err := r.Files(t.Context(), "k", g.Token, "", 0); err != nil {
			t.Fatal(err)
		} else if g.Revision > 0 {
			for _, file := range page.Files {
				stored, err := r.File(t.Context(), "k", g.Token, file.Path, publish.LeaseID{})
				_, rest, _ := strings.Cut(string(stored.Object), "/-/")
				folder, _, _ := strings.Cut(rest, "/")
				if err != nil || folder != token && !published[folder] {
					t.Errorf("%s of %d is the object %s: %v", file.Path, g.Token, stored.Object, err)
				}
			}
		}
	}
	if diff := cmp.Diff(sealed, published); diff != "" || len(published) != 3 || len(all) != 6 {
		t.Errorf("of %v the watcher takes other ones for published than are sealed (-sealed +watcher):\n%s", all, diff)
	}
}

// The marker holds the receipt as it will always be; losing it doesn't fail the publish, and a repeat writes it.
func TestMarker(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Markers = true
	ctx := publish.WithClient(t.Context(), netip.MustParseAddr("192.0.2.7"))
	ctx = publish.WithCaller(ctx, publish.Caller{Name: "ci", Credential: "0123456789abcdef"})
	if _, err := r.Upload(t.Context(), r.upload("one")); err != nil {
		t.Fatal(err)
	}
	r.blobs.Faults.Add(publishtest.Fault{Operation: "Put"})
	receipt, err := r.Publish(ctx, r.final())
	if err != nil {
		t.Fatal(err)
	}
	name := publish.MarkerName("k", r.grant.Token)
	if _, there := r.blobs.Object(name); there || !strings.Contains(strings.Join(r.log.all(), ""), "marker_not_written") {
		t.Fatalf("with a store that is away: marker %v, log %q", there, r.log.all())
	}
	r.acquire("b")
	for range 2 {
		if _, err := r.Publish(ctx, r.final()); err != nil {
			t.Fatal(err)
		}
	}
	content, there := r.blobs.Object(name)
	var members map[string]any
	if err := json.Unmarshal(content, &members); err != nil || !there {
		t.Fatalf("the marker is %q, %v", content, err)
	}
	if members["manifest_digest"] != receipt.ManifestDigest.String() || members["token"] != 1.0 || members["revision"] != 1.0 || members["files"] != 1.0 {
		t.Errorf("the marker is %s", content)
	}
	for _, volatile := range []string{"current", "replayed", "superseded_by", "url", "credential", "from"} {
		if _, there := members[volatile]; there {
			t.Errorf("the marker tells %s: %s", volatile, content)
		}
	}

	plain := newRig(t)
	if _, err := plain.UploadAndPublish(t.Context(), plain.upload("one"), plain.final()); err != nil {
		t.Fatal(err)
	}
	if names := plain.blobs.Names(); len(names) != 1 {
		t.Errorf("without the setting there are %v", names)
	}
}

func tokenText(token publish.Token) string {
	text, _ := json.Marshal(token) //nolint:errcheck // It is a number.
	return string(text)
}
