package publish

import (
	"encoding/hex"
	"encoding/json"
	"maps"
	"strings"
	"testing"
)

// FuzzParseStored: the name of an upload's object is taken apart into what it is made of.
func FuzzParseStored(f *testing.F) {
	id := strings.Repeat("0a", len(UploadID{}))
	for _, seed := range []string{id + "/a/b.png", id, id + "/", strings.ToUpper(id) + "/x", id[1:] + "/x", "/", "", id + "x/y", strings.Repeat("g", len(id)) + "/x"} {
		f.Add(seed)
	}
	name := GenerationName{Key: "k", Token: 17}
	f.Fuzz(func(t *testing.T, rest string) {
		upload, ok := parseStored(name, ObjectName(name.objects()+rest))
		if !ok {
			return
		}
		if again := hex.EncodeToString(upload.ID[:]) + "/" + string(upload.Path); !strings.EqualFold(again[:len(id)], rest[:len(id)]) || again[len(id):] != rest[len(id):] || upload.Path == "" {
			t.Fatalf("%q is %q", rest, again)
		}
	})
}

// FuzzMetadata: metadata that is accepted is within its bound and is the same after it was JSON, as Postgres keeps it.
func FuzzMetadata(f *testing.F) {
	for _, seed := range []string{"job", "", "a/b~c", "\x00", "\xff", "\u202e", strings.Repeat("n", MaxMetadataBytes), "\ufffd"} {
		f.Add(seed, "value", "other")
		f.Add("name", seed, seed)
	}
	f.Fuzz(func(t *testing.T, name, value, other string) {
		metadata := map[string]string{name: value, "other": other}
		if validateMetadata(metadata) != nil {
			return
		}
		total := 0
		for name, value := range metadata {
			total += len(name) + len(value)
		}
		raw, err := json.Marshal(metadata)
		var again map[string]string
		if err == nil {
			err = json.Unmarshal(raw, &again)
		}
		if err != nil || !maps.Equal(again, metadata) || total > MaxMetadataBytes || strings.Contains(string(raw), `\u0000`) && !strings.Contains(name+value+other, `\u0000`) {
			t.Fatalf("%q is %s, %v", metadata, raw, err)
		}
	})
}
