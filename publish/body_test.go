package publish

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// readings are the ways in which a body's bytes may come and a store may ask for them.
var readings = map[string]func(io.Reader) io.Reader{
	"whole":          func(r io.Reader) io.Reader { return r },
	"a byte a time":  iotest.OneByteReader,
	"halves":         iotest.HalfReader,
	"EOF with data":  iotest.DataErrReader,
	"EOF with bytes": func(r io.Reader) io.Reader { return iotest.OneByteReader(iotest.DataErrReader(r)) },
}

// store reads a body as a store does that doesn't look behind a declared length, and finishes it as the Service does.
func store(body *measuredBody, buffer int) ([]byte, error) {
	var got bytes.Buffer
	p := make([]byte, buffer)
	for body.size < 0 || int64(got.Len()) < body.size {
		n, err := body.Read(p)
		got.Write(p[:n])
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return got.Bytes(), err
		}
	}
	body.finish()
	return got.Bytes(), body.err
}

// TestMeasuredBody: cases 26 and 28, above every store. What is judged must not depend on how the bytes are cut.
func TestMeasuredBody(t *testing.T) {
	t.Parallel()
	const content = "0123456789"
	broken := errors.New("connection reset")
	digest := func(s string) Digest { return sha256.Sum256([]byte(s)) }
	for _, test := range []struct {
		name     string
		content  string
		size     int64
		promised Digest
		limit    int64
		cut      error // how the body ends, nil for io.EOF
		want     Code
	}{
		{name: "whole", content: content, size: 10, limit: 10},
		{name: "whole, as promised", content: content, size: 10, promised: digest(content), limit: 100},
		{name: "whole, unknown length", content: content, size: -1, promised: digest(content), limit: 10},
		{name: "empty", content: "", size: 0, limit: 10},
		{name: "empty, as promised", content: "", size: 0, promised: digest(""), limit: 10},
		{name: "empty, unknown length", content: "", size: -1, promised: digest(""), limit: 10},
		{name: "cut short", content: content, size: 11, limit: 100, want: ErrLengthMismatch},
		{name: "cut short to nothing", content: "", size: 10, limit: 100, want: ErrLengthMismatch},
		{name: "too long", content: content, size: 9, limit: 100, want: ErrLengthMismatch},
		{name: "much too long", content: content, size: 1, limit: 100, want: ErrLengthMismatch},
		{name: "not empty", content: content, size: 0, limit: 100, want: ErrLengthMismatch},
		{name: "broken", content: content, size: 11, cut: broken, limit: 100, want: ErrLengthMismatch},
		{name: "broken at its end", content: content, size: 10, cut: broken, limit: 100, want: ErrLengthMismatch},
		{name: "broken, unknown length", content: content, size: -1, cut: broken, limit: 100, want: ErrLengthMismatch},
		{name: "without its last chunk", content: content, size: -1, cut: io.ErrUnexpectedEOF, limit: 100, want: ErrLengthMismatch},
		{name: "other bytes", content: content, size: 10, promised: digest("9876543210"), limit: 100, want: ErrDigestMismatch},
		{name: "other bytes, unknown length", content: content, size: -1, promised: digest("x"), limit: 100, want: ErrDigestMismatch},
		{name: "empty, but promised", content: "", size: 0, promised: digest("x"), limit: 100, want: ErrDigestMismatch},
		{name: "above the limit", content: content, size: 10, limit: 9, want: ErrTooLarge},
		{name: "above the limit, unknown length", content: content, size: -1, limit: 9, want: ErrTooLarge},
	} {
		for how, reading := range readings {
			for _, buffer := range []int{1, 3, 10, 64} {
				source := io.Reader(strings.NewReader(test.content))
				if test.cut != nil {
					source = io.MultiReader(source, iotest.ErrReader(test.cut))
				}
				body := measure(UploadRequest{Size: test.size, Digest: test.promised, Body: reading(source)}, test.limit)
				got, err := store(body, buffer)
				if test.want == "" {
					if err != nil || string(got) != test.content || !body.whole() || body.n != int64(len(test.content)) || body.sum() != digest(test.content) {
						t.Errorf("%s, %s, by %d: %q, %v", test.name, how, buffer, got, err)
					}
					continue
				}
				if !errors.Is(err, test.want) || body.whole() || test.cut != nil && !errors.Is(err, test.cut) {
					t.Errorf("%s, %s, by %d: %v, want %s", test.name, how, buffer, err, test.want)
				}
				if test.size > 0 && int64(len(got)) >= test.size {
					t.Errorf("%s, %s, by %d: the store got all %d bytes of a bad body", test.name, how, buffer, len(got))
				}
				if _, again := body.Read(make([]byte, 8)); !errors.Is(again, test.want) {
					t.Errorf("%s, %s, by %d: after its fault the body gives %v", test.name, how, buffer, again)
				}
			}
		}
	}
}

// TestMeasuredBodyEnds: a good body goes on giving io.EOF, as readers should.
func TestMeasuredBodyEnds(t *testing.T) {
	t.Parallel()
	for _, size := range []int64{3, -1} {
		body := measure(UploadRequest{Size: size, Body: strings.NewReader("abc")}, 10)
		if err := iotest.TestReader(body, []byte("abc")); err != nil {
			t.Errorf("size %d: %v", size, err)
		}
	}
}
