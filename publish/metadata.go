package publish

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// MaxMetadataBytes is how much metadata a publish may carry, names and values together.
const MaxMetadataBytes = 8 << 10

// validateMetadata checks the metadata of a publish. The error names the first member that is wrong, by name, or the one that is
// the largest when all together are too large.
func validateMetadata(metadata map[string]string) error {
	total, largest := 0, ""
	for _, name := range slices.Sorted(maps.Keys(metadata)) {
		value := metadata[name]
		pointer := "/metadata/" + escapePointer(name)
		switch {
		case name == "":
			return invalid(pointer, "has an empty name; give it one")
		case textFault(name) != "":
			return invalid(pointer, "has a name that %s", textFault(name))
		case !utf8.ValidString(value):
			return invalid(pointer, "is not valid UTF-8; encode it as UTF-8")
		case strings.ContainsRune(value, 0):
			return invalid(pointer, "has a NUL character; remove it")
		}
		if total += len(name) + len(value); len(name)+len(value) > len(largest)+len(metadata[largest]) {
			largest = name
		}
	}
	if total > MaxMetadataBytes {
		return invalid("/metadata/"+escapePointer(largest), "is the largest member of metadata, which has %d bytes in all, more than %d; shorten it, or publish it as a file",
			total, MaxMetadataBytes)
	}
	return nil
}

// escapePointer writes a member's name into a JSON pointer (RFC 6901), at most its first 40 bytes.
func escapePointer(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(strings.ToValidUTF8(firstBytes(name), "\uFFFD"))
}
