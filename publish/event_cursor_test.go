package publish_test

import (
	"encoding/json"
	"testing"

	"github.com/pawlhq/pawl/publish"
)

// FuzzParseEventCursor: an accepted cursor prints as it was written, lies between the ends of the feed, and JSON reads it the same.
func FuzzParseEventCursor(f *testing.F) {
	for _, text := range []string{"0-0", "0-17", "3-9007199254740991", "9007199254740991-9007199254740991", "9007199254740992-0", "-1-1", "1--1", "01-1", "+1-1", "1", "1-1-1", ""} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		cursor, err := publish.ParseEventCursor(text)
		if err != nil {
			return
		}
		if cursor.String() != text || cursor.Compare(publish.OldestEvent) < 0 || cursor.Compare(publish.NewestEvent) > 0 || cursor.N > publish.NewestEvent.N {
			t.Fatalf("%q became %s", text, cursor)
		}
		raw, err := json.Marshal(cursor)
		var back publish.EventCursor
		if err != nil || json.Unmarshal(raw, &back) != nil || back != cursor {
			t.Fatalf("%s came back from %s as %s: %v", cursor, raw, back, err)
		}
	})
}
