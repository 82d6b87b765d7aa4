package pointer

import (
	"context"
	"iter"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/publish"
)

// keyPage is how many keys are walked by one statement. Postgres sorts their files, on its disk if need be.
const keyPage = 500

// namedKey is a key's row as far as walks need it.
type namedKey struct {
	id   int64
	name string
}

// The upper bound of a prefix is prefix0, since 0 follows /; between a prefix and prefix/ lie names of others, such as prefix!.
const keysByNameSQL = `
SELECT id, name FROM pawl.keys
WHERE name >= $1 AND name < $2 AND ($3 = '' OR name = $3 OR name >= $3 || '/')
ORDER BY name LIMIT $4`

// keyPages yields the ids of the keys at and below a prefix, in the order in which a bucket lists their objects.
func (s *Store) keyPages(ctx context.Context, prefix publish.Key) iter.Seq2[[]int64, error] {
	return func(yield func([]int64, error) bool) {
		var ids []int64
		for key, err := range inObjectOrder(s.keysByName(ctx, prefix)) {
			if err != nil {
				yield(nil, err)
				return
			}
			if ids = append(ids, key.id); len(ids) < keyPage {
				continue
			}
			if !yield(ids, nil) {
				return
			}
			ids = nil
		}
		if len(ids) > 0 {
			yield(ids, nil)
		}
	}
}

// inObjectOrder brings keys that come in the order of their names into that of name/-/, with which the names of all their objects begin: there "a!"
// comes before "a". It keeps back those whose name begins the next one's, so no more than a name has bytes.
func inObjectOrder(byName iter.Seq2[namedKey, error]) iter.Seq2[namedKey, error] {
	return func(yield func(namedKey, error) bool) {
		var waiting []namedKey // each begins with the one before it
		// pass yields those before which next doesn't come. Names that begin with another one's follow it without a gap, and of these the ones whose
		// objects come before its own are the first, since no name goes on with "/", "/-" or "/-/" alone: the two comparisons end at the same byte.
		pass := func(next string) bool {
			for len(waiting) > 0 {
				last := waiting[len(waiting)-1]
				if next != "" && strings.HasPrefix(next, last.name) && next+"/-/" < last.name+"/-/" {
					return true
				}
				waiting = waiting[:len(waiting)-1]
				if !yield(last, nil) {
					return false
				}
			}
			return true
		}
		for key, err := range byName {
			if err != nil {
				yield(key, err)
				return
			}
			if !pass(key.name) {
				return
			}
			waiting = append(waiting, key)
		}
		pass("")
	}
}

// keysByName yields the keys at and below a prefix by their names, page by page.
func (s *Store) keysByName(ctx context.Context, prefix publish.Key) iter.Seq2[namedKey, error] {
	return func(yield func(namedKey, error) bool) {
		for from := string(prefix); ; {
			page, err := s.keysPage(ctx, from, prefix)
			if err != nil {
				yield(namedKey{}, translate(err, false))
				return
			}
			for _, key := range page {
				if !yield(key, nil) {
					return
				}
			}
			if len(page) < keyPage {
				return
			}
			from = page[len(page)-1].name + "\x01" // No name has it, so this is behind that key and before all others.
		}
	}
}

func (s *Store) keysPage(ctx context.Context, from string, prefix publish.Key) ([]namedKey, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	to := strings.Repeat("\U0010FFFF", 101) // behind every name: they have 400 bytes at most
	if prefix != "" {
		to = string(prefix) + "0"
	}
	rows, err := s.pool.Query(ctx, keysByNameSQL, from, to, string(prefix), keyPage)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (key namedKey, err error) {
		return key, row.Scan(&key.id, &key.name)
	})
}
