package publish

import (
	"fmt"
	"strconv"
	"strings"
)

// maxFrameDigits bounds the numbers of a range, so that no sum or difference of two overflows an int64.
const maxFrameDigits = 18

// frames is a range of numbers, with the least number of digits of those below zero and of the others.
type frames struct {
	first, last, step      int64
	negativeDigits, digits int
}

func (f frames) count() int64 { return (f.last-f.first)/f.step + 1 }

// append writes n as the range pads it.
func (f frames) append(to []byte, n int64) []byte {
	least := f.digits
	if n < 0 {
		to = append(to, '-')
		n, least = -n, f.negativeDigits
	}
	var buffer [maxFrameDigits + 1]byte
	digits := strconv.AppendInt(buffer[:0], n, 10)
	for range least - len(digits) {
		to = append(to, '0')
	}
	return append(to, digits...)
}

// noRange is said of brackets that hold anything else.
const noRange = `which is no range of numbers such as [1001-1100], [1001-1100x2] or [7]; write a literal "[" as "[[]"`

// parseFrames reads the inside of brackets, or says what is wrong with it.
func parseFrames(inside string) (f frames, why string) {
	first, rest := cutNumber(inside)
	last := first
	ranged := strings.HasPrefix(rest, "-")
	if ranged {
		last, rest = cutNumber(rest[1:])
	}
	step := "1"
	if ranged && strings.HasPrefix(rest, "x") {
		step, rest = cutNumber(rest[1:])
	}
	for _, number := range []string{first, last, step} {
		switch digits := strings.TrimPrefix(number, "-"); {
		case digits == "" || rest != "":
			return f, noRange
		case len(digits) > maxFrameDigits:
			return f, fmt.Sprintf("where a number has more than %d digits; write a smaller one", maxFrameDigits)
		case digits != number && strings.Trim(digits, "0") == "":
			return f, "where zero has a sign; write it without"
		}
	}
	if step[0] == '-' || strings.Trim(step, "0") == "" {
		return f, "whose step isn't 1 or more; write it as in [1001-1100x2]"
	}
	f.first, f.last, f.step = parseNumber(first), parseNumber(last), parseNumber(step)
	if f.first > f.last {
		return f, "which runs backwards; write the smaller number first"
	}
	return f, f.pad(first, last)
}

// cutNumber cuts an integer, with its sign, off the beginning of text. It may be without digits.
func cutNumber(text string) (number, rest string) {
	end := 0
	if strings.HasPrefix(text, "-") {
		end = 1
	}
	for end < len(text) && text[end] >= '0' && text[end] <= '9' {
		end++
	}
	return text[:end], text[end:]
}

// parseNumber reads what was checked before.
func parseNumber(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64) //nolint:errcheck // It has 1 to maxFrameDigits digits.
	return n
}

// pad sets the padding by which both ends come out as they are written, or says that there is none.
func (f *frames) pad(first, last string) (why string) {
	end := first
	if !padded(first) {
		end = last
	}
	if !padded(end) {
		f.negativeDigits, f.digits = 1, 1
		return ""
	}
	width, digits := len(end), len(strings.TrimPrefix(end, "-"))
	for _, form := range []struct{ negative, other int }{{width - 1, width}, {digits, digits}} {
		f.negativeDigits, f.digits = form.negative, form.other
		if string(f.append(nil, f.first)) == first && string(f.append(nil, f.last)) == last {
			return ""
		}
	}
	return "whose ends are padded differently; write both as the files are named, e.g. [0008-0012]"
}

// padded reports whether a number is written with more digits than it needs.
func padded(number string) bool {
	digits := strings.TrimPrefix(number, "-")
	return len(digits) > 1 && digits[0] == '0'
}
