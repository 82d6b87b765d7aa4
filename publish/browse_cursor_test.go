package publish

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// FuzzReadPlace: whatever is sent as the cursor of a list, a store is only asked about places at which a row can stand, and those come back as they
// were written.
func FuzzReadPlace(f *testing.F) {
	at := time.Date(2026, 7, 1, 12, 0, 0, 5e6, time.UTC)
	for _, place := range []any{
		FeedPlace{At: at, Key: "a/b", Token: 17, Operation: "publish", Path: "c"},
		FeedPlace{At: at, Key: "a\x00", Token: 17},
		FeedPlace{At: at, Key: "a"},
		FeedPlace{At: at, ID: 17},
		FeedPlace{At: at, ID: 17, Key: "a", Token: 17},
		BrowsePlace{Sort: SortName, Name: "a/"},
		BrowsePlace{Sort: SortAge, ID: 17, At: &at},
		BrowsePlace{Sort: SortAge, ID: 17, Name: "a", At: &at},
		BrowsePlace{Sort: SortName, Name: "a\x00"},
		BrowsePlace{Sort: SortAge, Name: "a", At: &at},
		BrowsePlace{Sort: SortPublisher, Name: "a", Publisher: "\x00"},
		BrowsePlace{Sort: SortSize, Name: "a", Number: -1},
	} {
		f.Add(writePlace(place))
	}
	for _, text := range []string{"", "x", "e30", "bnVsbA", "W10", "eyJuIjoiYSJ9eyJuIjoiYSJ9", "e30="} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, after string) {
		check := func(err error) bool {
			var refusal *Error
			if err != nil && (!errors.As(err, &refusal) || refusal.Code != ErrInvalidRequest || len(refusal.Fields) != 1 || refusal.Fields[0].Pointer != "after") {
				t.Fatalf("%q: %v", after, err)
			}
			return err == nil && after != ""
		}
		feed, err := feedQuery(Everything, "", after, 0)
		if check(err) {
			from := *feed.From
			if _, err := ParseKey(string(from.Key)); (err != nil) != (from.ID > 0) || unkeepable(string(from.Path)) || unkeepable(from.Operation) || from.At.IsZero() {
				t.Fatalf("%q leads to %+v", after, from)
			}
			if again, err := feedQuery(Everything, "", nextOf(feed.From), 0); err != nil || !samePlace(*again.From, from) {
				t.Fatalf("%+v came back as %+v, %v", from, again.From, err)
			}
		}
		for _, sort := range BrowseSorts() {
			query, err := BrowseRequest{Reach: Everything, Sort: sort, After: after}.query()
			if !check(err) {
				continue
			}
			from := *query.From
			if _, err := ParsePrefix(from.Name); err != nil || (from.Name == "") != (from.ID > 0) || unkeepable(from.Publisher) || from.Sort != sort || sort.ByAge() && from.At == nil {
				t.Fatalf("%q leads to %+v", after, from)
			}
		}
	})
}

// unkeepable tells texts that Postgres has no place for.
func unkeepable(text string) bool { return strings.ContainsRune(text, 0) || !utf8.ValidString(text) }

func samePlace(a, b FeedPlace) bool {
	same := a.At.Equal(b.At)
	a.At = b.At
	return same && a == b
}
