package web

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// plainName is a file name that is a token (RFC 9110, section 5.6.2), which every program reads in the same way.
var plainName = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

// attachment is the Content-Disposition of a file for saving, under a name. A name that isn't plain stands in it twice (RFC 6266,
// section 4.3): for old programs in ASCII letters, since they read quotes, backslashes and percent signs in different ways, and for all others in the
// form of RFC 8187.
func attachment(name string) string {
	name = strings.Map(func(c rune) rune {
		// Control characters would end the header; those of format may show a name as another one, such as gpj.exe as exe.jpg.
		if unicode.IsControl(c) || unicode.Is(unicode.Cf, c) || c == '\u2028' || c == '\u2029' || c == '/' || c == '\\' {
			return '_'
		}
		return c
	}, name)
	if plainName.MatchString(name) {
		return "attachment; filename=" + name
	}
	ascii := strings.Map(func(c rune) rune {
		if c > unicode.MaxASCII || c == '"' || c == '%' {
			return '_'
		}
		return c
	}, name)
	return fmt.Sprintf(`attachment; filename="%s"; filename*=UTF-8''%s`, ascii, escapeName(name))
}
