package web

import (
	"archive/tar"
	"archive/zip"
	"io"
	"math"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// tarFormat is POSIX's pax format: names of any length in UTF-8, files of any size.
var tarFormat = archiveFormat{
	suffix: ".tar", contentType: "application/x-tar",
	measure: func(at time.Time) archiveLength { return &tarLength{at: at} },
	write:   func(to io.Writer, at time.Time) archiveWriter { return &tarWriter{tar.NewWriter(to), at} },
}

func tarHeader(file publish.File, at time.Time) *tar.Header {
	return &tar.Header{
		Typeflag: tar.TypeReg, Name: string(file.Path), Size: file.Size, Mode: 0o644, ModTime: at, Format: tar.FormatPAX,
	}
}

const tarBlock = 512

type tarLength struct {
	at time.Time
	n  int64
}

// add lets the library write the file's header, whose length depends on the name, and adds the bytes up to a whole block.
func (l *tarLength) add(file publish.File) error {
	if err := tar.NewWriter((*byteCounter)(&l.n)).WriteHeader(tarHeader(file, l.at)); err != nil {
		return err
	}
	l.n += (file.Size + tarBlock - 1) / tarBlock * tarBlock
	return nil
}

// total adds the two empty blocks at the end.
func (l *tarLength) total() int64 { return l.n + 2*tarBlock }

type tarWriter struct {
	*tar.Writer
	at time.Time
}

func (w *tarWriter) next(file publish.File) (io.Writer, error) {
	return w.Writer, w.WriteHeader(tarHeader(file, w.at))
}

func (w *tarWriter) close() error { return w.Close() }

// zipFormat stores files as they are: most are compressed media, and only so the length is known before they are read. Checksums stand
// behind the bytes, since nothing is read twice; so a reader needs the directory at the end, which all common ones use. Zip64 where sizes ask for it.
// The library keeps that directory in memory, about 300 bytes a file.
var zipFormat = archiveFormat{
	suffix: ".zip", contentType: "application/zip",
	measure: func(time.Time) archiveLength { return &zipLength{} },
	write:   func(to io.Writer, at time.Time) archiveWriter { return &zipWriter{zip.NewWriter(to), at} },
}

// The lengths of the parts of a zip file, without names (APPNOTE.TXT 6.3.10, 4.3). Extra fields are those that archive/zip writes: the
// time in 9 bytes, and in the directory the Zip64 sizes.
const (
	zipTimeExtra    = 9
	zipLocalHeader  = 30 + zipTimeExtra
	zipDescriptor   = 16
	zip64Descriptor = 24
	zipDirectory    = 46 + zipTimeExtra
	zip64Extra      = 28
	zipEnd          = 22
	zip64End        = 56 + 20
)

type zipLength struct{ offset, directory, files int64 }

func (l *zipLength) add(file publish.File) error {
	name := int64(len(file.Path))
	large := file.Size >= math.MaxUint32
	l.directory += zipDirectory + name
	if large || l.offset >= math.MaxUint32 {
		l.directory += zip64Extra
	}
	l.offset += zipLocalHeader + name + file.Size
	if large {
		l.offset += zip64Descriptor
	} else {
		l.offset += zipDescriptor
	}
	l.files++
	return nil
}

func (l *zipLength) total() int64 {
	end := int64(zipEnd)
	if l.files >= math.MaxUint16 || l.directory >= math.MaxUint32 || l.offset >= math.MaxUint32 {
		end += zip64End
	}
	return l.offset + l.directory + end
}

type zipWriter struct {
	*zip.Writer
	at time.Time
}

func (w *zipWriter) next(file publish.File) (io.Writer, error) {
	header := &zip.FileHeader{Name: string(file.Path), Method: zip.Store, Modified: w.at}
	header.SetMode(0o644)
	return w.CreateHeader(header)
}

func (w *zipWriter) close() error { return w.Close() }

// byteCounter counts what is written to it.
type byteCounter int64

func (c *byteCounter) Write(p []byte) (int, error) {
	*c += byteCounter(len(p))
	return len(p), nil
}
