package pointer

import (
	"strings"

	"github.com/pawlhq/pawl/publish"
)

// aboveAll is above all names: none is as long.
var aboveAll = strings.Repeat("\U0010ffff", publish.MaxNameBytes/4+1)

// ranges gives the names that a page may show, those of a reach that begin with a prefix, as functions take them: range i begins with from[i] and ends
// before to[i].
func ranges(reach publish.Reach, prefix string) (from, to []string) {
	from, to = reach.Beginning(prefix).Spans()
	for i := range to {
		if to[i] == "" {
			to[i] = aboveAll
		}
	}
	return from, to
}
