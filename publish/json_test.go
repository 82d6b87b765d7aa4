package publish_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pawlhq/pawl/publish"
)

// TestJSON holds the forms that clients rely on. Each is read back to the same value: the server writes and the Go client reads
// the same types.
func TestJSON(t *testing.T) {
	t.Parallel()
	at := publish.Time{Time: time.Date(2026, 7, 1, 12, 0, 0, 5e6, time.UTC)}
	id, err := publish.ParseLeaseID("000102030405060708090a0b0c0d0e0f")
	if err != nil {
		t.Fatal(err)
	}
	version, source := publish.Version{Token: 17, Revision: 1}, int64(0)
	const hex = "0100000000000000000000000000000000000000000000000000000000000000"
	for _, test := range []struct {
		name  string
		value any
		want  string
	}{
		{"the holder's own lease", &publish.Lease{
			Key: "k", Token: 17, LeaseID: id, Holder: "a", Held: true, TTLMillis: 30_000, ExpiresAt: &at, ServerTime: at, Labels: map[string]string{"job": "7"},
		}, `{"key":"k","token":17,"lease_id":"000102030405060708090a0b0c0d0e0f","holder":"a","held":true,"ttl_ms":30000,
			"expires_at":"2026-07-01T12:00:00.005Z","server_time":"2026-07-01T12:00:00.005Z","superseded":null,"current":null,"labels":{"job":"7"}}`},
		{
			"a released lease, to others", &publish.Lease{Key: "k", Token: 17, Holder: "a", TTLMillis: 1, ServerTime: at, Current: &version},
			`{"key":"k","token":17,"holder":"a","held":false,"ttl_ms":1,"expires_at":null,"server_time":"2026-07-01T12:00:00.005Z",
			"superseded":null,"current":{"token":17,"revision":1}}`,
		},
		{"a receipt", &publish.Receipt{
			Key: "k", Token: 17, Revision: 1, ManifestDigest: publish.Digest{1}, Final: true, Primary: "f", Files: 1, Bytes: 2, PublishedAt: at,
			Publisher: "a", SourceRevision: &source, Metadata: map[string]string{"m": "1"}, Current: &version,
		}, `{"key":"k","token":17,"revision":1,"manifest_digest":"` + hex + `","final":true,"primary":"f","files":1,"bytes":2,
			"published_at":"2026-07-01T12:00:00.005Z","publisher":"a","source_revision":0,"metadata":{"m":"1"},"replayed":false,
			"current":{"token":17,"revision":1},"previous":null,"lease_expired":false}`},
		{
			"a receipt of what was carried over", &publish.Receipt{
				Key: "k", Token: 18, Revision: 1, ManifestDigest: publish.Digest{1}, Files: 3, Bytes: 6, PublishedAt: at, Publisher: "a",
				ReuseFrom: 17, ReusedFiles: 2, ReusedBytes: 4, Actor: publish.Actor{Credential: "farm", From: "10.0.0.7"},
			}, `{"key":"k","token":18,"revision":1,"manifest_digest":"` + hex + `","final":false,"files":3,"bytes":6,
			"published_at":"2026-07-01T12:00:00.005Z","publisher":"a","credential":"farm","from":"10.0.0.7","replayed":false,"current":null,"previous":null,"lease_expired":false,
			"reuse_from":17,"reused_files":2,"reused_bytes":4}`,
		},
		{
			"a resolved key", &publish.Resolved{Key: "k", Found: true, Token: 17, Revision: 2, ManifestDigest: publish.Digest{1}, Final: true},
			`{"key":"k","found":true,"token":17,"revision":2,"manifest_digest":"` + hex + `","final":true,"url":null}`,
		},
		{"a key that resolves to nothing", &publish.Resolved{Key: "k"}, `{"key":"k","found":false,"url":null}`},
		{
			"a pointer", &publish.Pointer{Key: "k", Token: 17, Revision: 1, ManifestDigest: publish.Digest{1}, Files: 2, Bytes: 3, PublishedAt: at, Publisher: "a"},
			`{"key":"k","token":17,"revision":1,"manifest_digest":"` + hex + `","final":false,"files":2,"bytes":3,
			"published_at":"2026-07-01T12:00:00.005Z","publisher":"a"}`,
		},
		{
			"an upload", &publish.UploadResult{File: publish.File{Path: "f", Size: 0, SHA256: publish.Digest{1}, ContentType: "text/plain"}, Key: "k", Token: 17},
			`{"path":"f","size":0,"sha256":"` + hex + `","content_type":"text/plain","key":"k","token":17,"replaced":false}`,
		},
		{"a rejection before any publish", &publish.Rejection{
			Token: 16, Operation: "upload", Code: publish.ErrStaleToken, Path: "f", Holder: "a", GrantedToken: 17, SupersededBy: "b", FirstAt: at, LastAt: at, Repeat: 1,
		}, `{"token":16,"operation":"upload","code":"stale-token","path":"f","holder":"a","granted_token":17,"superseded_by":"b",
			"first_at":"2026-07-01T12:00:00.005Z","last_at":"2026-07-01T12:00:00.005Z","repeat":1,"overrun_ms":0}`},
		{"a list's last page", &publish.ListPage{Keys: []publish.Pointer{}, Prefixes: []string{"a/"}}, `{"keys":[],"prefixes":["a/"]}`},
		{"a history's last page", &publish.HistoryPage{Key: "k", Generations: []publish.Generation{}}, `{"key":"k","generations":[]}`},
	} {
		data, err := json.Marshal(test.value)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		var got, want any
		if err := json.Unmarshal(data, &got); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(test.want), &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
		back := newLike(test.value)
		if err := json.Unmarshal(data, back); err != nil {
			t.Errorf("%s can't be read back: %v", test.name, err)
		} else if diff := cmp.Diff(test.value, back, cmpopts.EquateComparable(publish.LeaseID{})); diff != "" {
			t.Errorf("%s, read back (-want +got):\n%s", test.name, diff)
		}
	}
}

// newLike makes an empty value of the type that v points at.
func newLike(v any) any {
	switch v.(type) {
	case *publish.Lease:
		return new(publish.Lease)
	case *publish.Receipt:
		return new(publish.Receipt)
	case *publish.Pointer:
		return new(publish.Pointer)
	case *publish.Resolved:
		return new(publish.Resolved)
	case *publish.UploadResult:
		return new(publish.UploadResult)
	case *publish.Rejection:
		return new(publish.Rejection)
	case *publish.ListPage:
		return new(publish.ListPage)
	default:
		return new(publish.HistoryPage)
	}
}
