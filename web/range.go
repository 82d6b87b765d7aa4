package web

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
)

// oneRange gives a request in which Range asks for at most one range, in the form that http.ServeContent reads as RFC 9110,
// section 14, means it. A Range that isn't well-formed, of another unit or of another method than GET is to be
// ignored, as is one of several ranges: the whole file is a legal answer to that, and nobody can make the server open the file a
// hundred times. size is the file's, in bytes.
func oneRange(r *http.Request, size int64) *http.Request {
	values := r.Header.Values("Range")
	if len(values) == 0 {
		return r
	}
	one := *r
	one.Header = r.Header.Clone()
	one.Header.Del("Range")
	if len(values) == 1 && r.Method == http.MethodGet {
		if plain := plainRange(values[0], size); plain != "" {
			one.Header.Set("Range", plain)
		}
	}
	return &one
}

// plainRange writes one range of bytes anew as first-last or first-, or gives "" for one to ignore. http.ServeContent takes "-0", which
// no file has, for satisfiable, and a number that is no int64 for an error.
func plainRange(text string, size int64) string {
	unit, spec, found := strings.Cut(text, "=")
	first, last, dash := strings.Cut(strings.Trim(spec, " \t"), "-")
	if !found || !dash || !strings.EqualFold(unit, "bytes") {
		return ""
	}
	from, hasFrom := position(first)
	to, hasTo := position(last)
	switch {
	case first == "" && hasTo && to > 0 && size > 0:
		return fmt.Sprintf("bytes=%d-", max(0, size-to))
	case first == "" && hasTo && to == 0:
		return fmt.Sprintf("bytes=%d-", size) // lies outside every file, as "-0" does
	case hasFrom && last == "":
		return fmt.Sprintf("bytes=%d-", from)
	case hasFrom && hasTo && from <= to:
		return fmt.Sprintf("bytes=%d-%d", from, to)
	}
	return ""
}

// position reads a number of bytes in digits; one that is greater than every file is as good as the greatest.
func position(digits string) (int64, bool) {
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return math.MaxInt64, true
	}
	return n, true
}
