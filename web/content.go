package web

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"strconv"
	"time"
)

// noTime leaves out Last-Modified: the ETag says more.
var noTime time.Time

// storedContent is a file of the blob store as http.ServeContent wants it. It opens the file at its first Read, for just the
// bytes that the answer has; so a HEAD, a 304 or a 416 never asks the store.
type storedContent struct {
	open   func(offset, length int64) (io.ReadCloser, error)
	size   int64
	offset int64
	length int64 // of the answer, known from its head
	body   io.ReadCloser
	begun  bool
	err    error // the first fault
}

// Seek moves the beginning; it is called before the first Read only.
func (s *storedContent) Seek(offset int64, whence int) (int64, error) {
	switch {
	case s.body != nil || s.err != nil:
		return 0, errors.New("seeking in a file that is being read")
	case whence == io.SeekEnd:
		offset += s.size
	case whence == io.SeekCurrent:
		offset += s.offset
	}
	s.offset = offset
	return offset, nil
}

// Read gives the bytes. An end before the length that the head has promised is a fault, as is any error.
func (s *storedContent) Read(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	if s.body == nil {
		if s.body, s.err = s.open(s.offset, s.length); s.err != nil {
			return 0, s.err
		}
	}
	n, err := s.readSome(p)
	s.length -= int64(n)
	switch {
	case errors.Is(err, io.EOF) && s.length > 0:
		s.err = io.ErrUnexpectedEOF
	case err != nil && !errors.Is(err, io.EOF) && s.length > 0:
		s.err = err
	}
	if s.err != nil {
		return n, s.err
	}
	return n, err
}

// readSome reads, the first time as many bytes as tell what the file is, if the answer has them.
func (s *storedContent) readSome(p []byte) (int, error) {
	if s.begun {
		return s.body.Read(p)
	}
	s.begun = true
	n, err := io.ReadAtLeast(s.body, p, int(min(sniffedBytes, s.length, int64(len(p)))))
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	return n, err
}

func (s *storedContent) close() {
	if s.body != nil {
		_ = s.body.Close() //nolint:errcheck // Its bytes were counted; nothing depends on how it ends.
	}
}

// heldAnswer holds the head of an answer back until the first byte is there. So a store that is away shows as a
// problem document, and only one that breaks midway breaks the connection.
type heldAnswer struct {
	to      http.ResponseWriter
	header  http.Header
	status  int
	content *storedContent
	begun   bool
	// look is shown the first bytes of an answer that begins where its file does, before the head is sent.
	look func(header http.Header, prefix []byte)
}

// Header gives the headers that are held back.
func (a *heldAnswer) Header() http.Header { return a.header }

// WriteHeader notes the status, and from the length how much of the content will be read.
func (a *heldAnswer) WriteHeader(status int) {
	a.status = status
	if length, err := strconv.ParseInt(a.header.Get("Content-Length"), 10, 64); err == nil {
		a.content.length = length
	}
}

// Write passes content on. The text that http.ServeContent has for errors is dropped: they are answered elsewhere.
func (a *heldAnswer) Write(p []byte) (int, error) {
	if a.status >= http.StatusBadRequest {
		return len(p), nil
	}
	if !a.begun && a.look != nil && a.content.offset == 0 {
		a.look(a.header, p)
	}
	a.release()
	return a.to.Write(p)
}

// release sends the head, once.
func (a *heldAnswer) release() {
	if a.begun {
		return
	}
	a.begun = true
	maps.Copy(a.to.Header(), a.header)
	a.to.WriteHeader(a.status)
}
