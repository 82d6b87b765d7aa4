package blobstore

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// TestBodyStop reads a body on after its Put has ended, as a transport's goroutine may.
func TestBodyStop(t *testing.T) {
	t.Parallel()
	from := strings.NewReader("0123456789")
	b := newBody(t.Context(), from, 10)
	if n, err := b.Read(make([]byte, 4)); n != 4 || err != nil {
		t.Fatalf("Read gave %d, %v", n, err)
	}
	if whole, fault := b.stop(); whole || fault != nil {
		t.Errorf("stop gave %t, %v", whole, fault)
	}
	if n, err := b.Read(make([]byte, 4)); n != 0 || !errors.Is(err, errStopped) || from.Len() != 6 {
		t.Errorf("Read after stop gave %d, %v; the reader has %d bytes left", n, err, from.Len())
	}
}

// TestBodyStopWaits stops a body in the middle of a read: the caller gets its reader back only when nobody is in it.
func TestBodyStopWaits(t *testing.T) {
	t.Parallel()
	reading, release := make(chan struct{}), make(chan struct{})
	left := false
	b := newBody(t.Context(), readerFunc(func([]byte) (int, error) {
		close(reading)
		<-release
		left = true // The race detector sees it if stop doesn't wait.
		return 0, io.EOF
	}), -1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = b.Read(make([]byte, 1)) // io.EOF.
	}()
	<-reading
	stopped := make(chan bool)
	go func() {
		_, _ = b.stop() // Whether the body is whole isn't asked here.
		stopped <- left
	}()
	close(release)
	if !<-stopped {
		t.Error("stop didn't wait")
	}
	<-done
}

// TestBodyHoldsBack checks that the last bytes come only when the end was seen behind them.
func TestBodyHoldsBack(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, from := range map[string]io.Reader{
		"TooLong":  strings.NewReader("01234567890"),
		"Broken":   io.MultiReader(strings.NewReader("0123456789"), iotest.ErrReader(broken)),
		"NoEnd":    io.MultiReader(strings.NewReader("0123456789"), readerFunc(func([]byte) (int, error) { return 0, nil })),
		"TooShort": strings.NewReader("012345678"),
	} {
		b := newBody(t.Context(), from, 10)
		var got bytes.Buffer
		_, err := io.CopyBuffer(struct{ io.Writer }{&got}, b, make([]byte, 4))
		if err == nil || got.Len() > 9 {
			t.Errorf("%s gave %q, %v", name, &got, err)
		}
		if whole, fault := b.stop(); whole || fault == nil {
			t.Errorf("%s: stop gave %t, %v", name, whole, fault)
		}
	}
}
