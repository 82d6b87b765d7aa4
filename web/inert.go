package web

import (
	"bytes"
	"net/http"
	"strings"
)

// inertTypes are the types beside those of shownPictures, shownVideos and shownAudio that no browser takes for a document with script.
var inertTypes = map[string]bool{
	"text/plain": true, "application/pdf": true, "application/json": true,
	"image/heic": true, "image/heif": true, "image/jxl": true, "image/tiff": true, "image/vnd.radiance": true, "image/x-dpx": true,
	"image/x-exr": true, "image/x-portable-pixmap": true,
	"video/3gpp": true, "video/iso.segment": true, "video/mp2t": true, "video/mpeg": true,
	"audio/vnd.wave": true, "audio/wave": true, "audio/x-wav": true,
}

// inertKind gives the media type of a file that a browser may show, since it can't run script in the page's origin, or "". A whole family
// isn't inert: of every type that ends in +xml, image/x+xml too, browsers make a document. SVG isn't either: it is for <img>, which takes
// attachments and runs nothing in them.
func inertKind(contentType string) string {
	kind := mediaType(contentType)
	if kind != "image/svg+xml" && (shownPictures[kind] || shownVideos[kind] || shownAudio[kind] || inertTypes[kind]) {
		return kind
	}
	return ""
}

// sniffedBytes is how much of a file tells what it is.
const sniffedBytes = 512

// How the bytes of types begin. A type of another name has the beginnings of the type that sameBeginning leads to.
var (
	beginnings = map[string][]string{
		"image/png": {"\x89PNG\r\n\x1a\n"}, "image/jpeg": {"\xff\xd8\xff"}, "image/gif": {"GIF87a", "GIF89a"}, "image/bmp": {"BM"},
		"image/x-icon": {"\x00\x00\x01\x00", "\x00\x00\x02\x00"}, "image/jxl": {"\xff\x0a", "\x00\x00\x00\x0cJXL \r\n\x87\n"},
		"image/tiff": {"II*\x00", "MM\x00*", "II+\x00", "MM\x00+"}, "image/vnd.radiance": {"#?"}, "image/x-dpx": {"SDPX", "XPDS"},
		"image/x-exr": {"\x76\x2f\x31\x01"}, "image/x-portable-pixmap": {"P1", "P2", "P3", "P4", "P5", "P6", "P7"},
		"video/webm": {"\x1a\x45\xdf\xa3"}, "video/ogg": {"OggS"}, "video/mp2t": {"G"}, "video/mpeg": {"\x00\x00\x01"},
		"audio/aac": {"\xff\xf0", "\xff\xf1", "\xff\xf8", "\xff\xf9", "ADIF", "ID3"}, "audio/flac": {"fLaC", "ID3"},
		"application/pdf": {"%PDF-"},
	}
	sameBeginning = map[string]string{
		"image/apng": "image/png", "image/vnd.microsoft.icon": "image/x-icon", "video/x-matroska": "video/webm", "audio/webm": "video/webm", "audio/ogg": "video/ogg",
	}
	// boxed are the types of ISO/IEC 14496-12, whose files begin with the length of a box and its name.
	boxed = map[string]bool{
		"image/avif": true, "image/heic": true, "image/heif": true, "video/mp4": true, "video/quicktime": true, "video/x-m4v": true, "video/3gpp": true,
		"video/iso.segment": true, "audio/mp4": true,
	}
	boxNames = []string{"ftyp", "styp", "moov", "moof", "mdat", "sidx", "emsg", "prft", "free", "skip", "wide"}
)

// agrees reports whether the first bytes of a file, sniffedBytes or all that it has, are such as an inert type has. Text agrees with being text, but
// not when it looks like a document. What of an unknown beginning is left over agrees with nothing.
func agrees(kind string, prefix []byte) bool {
	if len(prefix) == 0 {
		return true
	}
	if same := sameBeginning[kind]; same != "" {
		kind = same
	}
	switch {
	case kind == "text/plain" || kind == "application/json":
		// A mark of the byte order is taken for text, whatever comes behind it.
		return strings.HasPrefix(http.DetectContentType(bytes.TrimPrefix(prefix, []byte("\ufeff"))), "text/plain")
	case kind == "image/webp":
		return isRIFF(prefix, "WEBP")
	case strings.HasPrefix(kind, "audio/") && strings.HasSuffix(kind, "wav") || kind == "audio/wave" || kind == "audio/vnd.wave":
		return isRIFF(prefix, "WAVE")
	case kind == "audio/mpeg": // eleven bits of synchronisation, or a tag
		return len(prefix) > 1 && prefix[0] == 0xff && prefix[1]&0xe0 == 0xe0 || bytes.HasPrefix(prefix, []byte("ID3"))
	case boxed[kind]:
		return hasBeginning(prefix[min(4, len(prefix)):], boxNames)
	}
	return hasBeginning(prefix, beginnings[kind])
}

func isRIFF(prefix []byte, form string) bool {
	return hasBeginning(prefix, []string{"RIFF", "RF64"}) && hasBeginning(prefix[min(8, len(prefix)):], []string{form})
}

func hasBeginning(prefix []byte, beginnings []string) bool {
	for _, beginning := range beginnings {
		if bytes.HasPrefix(prefix, []byte(beginning)) {
			return true
		}
	}
	return false
}
