package blobstore

import (
	"fmt"
	"io/fs"
	"strings"

	"github.com/pawlhq/pawl/publish"
)

// checkName refuses names that a store could take for another object, or for a place outside of it. The domain
// has checked names long before; this is the second lock on the same door. Relative and empty segments alias other
// objects both in directories and on some S3 servers, and "-" in front is where Dir keeps its temporary files.
func checkName(name publish.ObjectName) error {
	s := string(name)
	if !fs.ValidPath(s) || s == "." || s == "-" || strings.HasPrefix(s, "-/") || strings.ContainsAny(s, "\x00\\") {
		return fmt.Errorf("blob store: %q is not the name of an object", s)
	}
	return nil
}
