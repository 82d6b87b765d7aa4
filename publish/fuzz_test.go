package publish_test

import (
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/pawlhq/pawl/publish"
)

// FuzzParseByteSequence: a digest is read from the one text that it is written as.
func FuzzParseByteSequence(f *testing.F) {
	for _, seed := range []string{publish.Digest{1}.ByteSequence(), ":" + strings.Repeat("A", 43) + "=:", ":" + strings.Repeat("A", 42) + "B=:", "::", ":" + strings.Repeat("A", 44) + ":", "", ":AAAA\n:"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if digest, ok := publish.ParseByteSequence(text); ok && digest.ByteSequence() != text {
			t.Fatalf("%q is %s", text, digest)
		}
	})
}

// FuzzParseCRC64NVME: a checksum is 16 hex digits, of either case, and no sign or separator.
func FuzzParseCRC64NVME(f *testing.F) {
	for _, seed := range []string{"ae8b14860a799888", "AE8B14860A799888", "+e8b14860a799888", "0x00000000000000", "0_0_0_0_0_0_0_0_", "", "00000000000000000"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if crc, err := publish.ParseCRC64NVME(text); err == nil && publish.FormatCRC64NVME(crc) != strings.ToLower(text) {
			t.Fatalf("%q is %x", text, crc)
		}
	})
}

// FuzzParsePrefix: a prefix is accepted when some key begins with it, and then all of its own beginnings are.
func FuzzParsePrefix(f *testing.F) {
	addNames(f)
	for _, seed := range []string{"", "a/", "a//", "/", "a/-", "a/-/", "a/.", "a/..", strings.Repeat("a", 200), strings.Repeat("a/", 200)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		prefix, err := publish.ParsePrefix(text)
		if err != nil {
			return
		}
		if prefix != text || !utf8.ValidString(text) {
			t.Fatalf("%q became %q", text, prefix)
		}
		for i := range text {
			if _, err := publish.ParsePrefix(text[:i]); err != nil {
				t.Fatalf("%q is a prefix and %q isn't: %v", text, text[:i], err)
			}
		}
		// A letter makes a segment of what is none yet, such as "" and "..".
		keys := []string{text, text + "a"}
		if _, err := publish.ParseKey(keys[0]); err == nil {
			return
		}
		if _, err := publish.ParseKey(keys[1]); err != nil && len(text) < 400 && len(text)-strings.LastIndexByte(text, '/') <= 200 {
			t.Fatalf("no key begins with %q: %v", text, err)
		}
	})
}

// FuzzDuration: a policy's duration is written as a text that is read as the same.
func FuzzDuration(f *testing.F) {
	for _, seed := range []string{`"720h0m0s"`, `"1s"`, `"-1ns"`, `""`, `1`, `"1d"`, `"9999999h"`, `null`, `"1h\u0030m"`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var d, again publish.Duration
		if json.Unmarshal([]byte(text), &d) != nil {
			return
		}
		written, err := json.Marshal(d)
		if err == nil {
			err = json.Unmarshal(written, &again)
		}
		if err != nil || again != d {
			t.Fatalf("%s is %s, which is %s, %v", text, written, again, err)
		}
	})
}

// FuzzCSV: cells come back from a CSV as they were written, but for the apostrophe before what a spreadsheet would compute.
func FuzzCSV(f *testing.F) {
	for _, seed := range []string{"a", "", "=1+1", "@SUM(A1)", "-1", "+1", "\t=x", "a,b", `"`, "a\nb", "a\r\nb", "'=", "\r", "\ufeff"} {
		f.Add(seed, "x")
	}
	f.Fuzz(func(t *testing.T, one, two string) {
		table := publish.Table[[2]string]{Columns: []string{"one", "two"}, Cells: func(row [2]string) []string { return row[:] }}
		var text strings.Builder
		if err := publish.NewCSV(&text, table).Write([][2]string{{one, two}}); err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(strings.NewReader(text.String())).ReadAll()
		if err != nil || len(rows) != 2 || len(rows[1]) != 2 {
			t.Fatalf("%q is %q, %v", text.String(), rows, err)
		}
		for i, was := range []string{one, two} {
			got := rows[1][i]
			was = strings.ReplaceAll(was, "\r\n", "\n") // as encoding/csv reads it
			if strings.IndexAny(got, "=+-@\t\r") == 0 || strings.TrimPrefix(got, "'") != strings.TrimPrefix(was, "'") {
				t.Fatalf("%q came back as %q", was, got)
			}
		}
	})
}

// FuzzNDJSON: each row is one line, which is read as it was written.
func FuzzNDJSON(f *testing.F) {
	for _, seed := range []string{"a", "", "a\nb", "\u2028", "<&>", "\x00", `"`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) {
			return // Names are UTF-8.
		}
		rows := []publish.AuditEntry{{Subject: text}, {Subject: "b", By: publish.Operator(text)}}
		var out strings.Builder
		if err := publish.WriteNDJSON(&out, rows); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if len(lines) != len(rows) {
			t.Fatalf("%q are %d lines", out.String(), len(lines))
		}
		for i, line := range lines {
			var entry publish.AuditEntry
			if err := json.Unmarshal([]byte(line), &entry); err != nil || entry.Subject != rows[i].Subject || entry.By != rows[i].By {
				t.Fatalf("%q is %+v, %v", line, entry, err)
			}
		}
	})
}
