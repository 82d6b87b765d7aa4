package publish_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/publish/publishtest"
)

// TestMetadata: what is wrong with metadata is told with the member that it is about.
func TestMetadata(t *testing.T) {
	t.Parallel()
	service := &publish.Service{Pointers: publishtest.NewPointers(), Blobs: publishtest.NewBlobs()}
	half := strings.Repeat("x", publish.MaxMetadataBytes/2)
	for name, test := range map[string]struct {
		metadata map[string]string
		pointer  string // "" for metadata that is in order
	}{
		"none":               {nil, ""},
		"empty value":        {map[string]string{"a": ""}, ""},
		"lines":              {map[string]string{"a/~b": "two\nlines\t\u202e"}, ""},
		"largest":            {map[string]string{"a": half[1:], "b": half[1:]}, ""},
		"one byte more":      {map[string]string{"a": half[1:], "bb": half[1:]}, "/metadata/bb"},
		"one too large":      {map[string]string{"a": "1", "b/~": half + half, "c": "3"}, "/metadata/b~1~0"},
		"name too large":     {map[string]string{half + half: "x"}, "/metadata/" + half[:40] + "…"},
		"no name":            {map[string]string{"": "x"}, "/metadata/"},
		"NUL":                {map[string]string{"a": "x", "b": "x\x00"}, "/metadata/b"},
		"not UTF-8":          {map[string]string{"a": "x", "b": "caf\xe9"}, "/metadata/b"},
		"name in lines":      {map[string]string{"a\n": "x"}, "/metadata/a\n"},
		"name that deceives": {map[string]string{"a\u202eb": "x"}, "/metadata/a\u202eb"},
		"name not UTF-8":     {map[string]string{"caf\xe9": "x"}, "/metadata/caf\uFFFD"},
	} {
		_, err := service.Publish(t.Context(), publish.PublishRequest{Grant: publish.Grant{Key: "k", Token: 1}, Metadata: test.metadata})
		var refusal *publish.Error
		if !errors.As(err, &refusal) {
			t.Fatalf("%s: %v", name, err)
		}
		if test.pointer == "" {
			if refusal.Code != publish.ErrNotFound {
				t.Errorf("%s: %v, want it to reach the store", name, err)
			}
			continue
		}
		if refusal.Code != publish.ErrInvalidRequest || len(refusal.Fields) != 1 || refusal.Fields[0].Pointer != test.pointer {
			t.Errorf("%s: %v, want an error about %s", name, err, test.pointer)
		}
	}
}
