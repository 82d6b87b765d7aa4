package publish

import (
	"mime"
	"path"
	"strings"
)

const octetStream = "application/octet-stream"

// contentTypes is the fixed table from extensions to types. Pipelines send media files without a type or with a wrong
// one, and the machine's own tables differ; so for these extensions the table decides.
var contentTypes = map[string]string{
	".3mf": "model/3mf", ".aac": "audio/aac", ".avif": "image/avif", ".b3dm": octetStream, ".bin": octetStream,
	".bmp": "image/bmp", ".css": "text/css; charset=utf-8", ".csv": "text/csv; charset=utf-8",
	".dpx": "image/x-dpx", ".exr": "image/x-exr", ".flac": "audio/flac", ".gif": "image/gif",
	".glb": "model/gltf-binary", ".gltf": "model/gltf+json", ".gz": "application/gzip", ".hdr": "image/vnd.radiance",
	".htm": "text/html; charset=utf-8", ".html": "text/html; charset=utf-8", ".ico": "image/vnd.microsoft.icon",
	".jpeg": "image/jpeg", ".jpg": "image/jpeg", ".js": "text/javascript; charset=utf-8", ".json": "application/json",
	".jxl": "image/jxl", ".m3u8": "application/vnd.apple.mpegurl", ".m4a": "audio/mp4", ".m4s": "video/iso.segment",
	".m4v": "video/x-m4v", ".md": "text/markdown; charset=utf-8", ".mjs": "text/javascript; charset=utf-8",
	".mkv": "video/x-matroska", ".mov": "video/quicktime", ".mp3": "audio/mpeg", ".mp4": "video/mp4",
	".mpd": "application/dash+xml", ".ndjson": "application/x-ndjson", ".obj": "model/obj", ".ogg": "audio/ogg",
	".opus": "audio/ogg", ".parquet": "application/vnd.apache.parquet", ".pbf": "application/x-protobuf",
	".pdf": "application/pdf", ".png": "image/png", ".pnts": octetStream, ".ppm": "image/x-portable-pixmap",
	".safetensors": octetStream, ".stl": "model/stl", ".svg": "image/svg+xml", ".tar": "application/x-tar",
	".tif": "image/tiff", ".tiff": "image/tiff", ".ts": "video/mp2t", ".tsv": "text/tab-separated-values; charset=utf-8",
	".txt":  "text/plain; charset=utf-8",
	".usdz": "model/vnd.usdz+zip", ".vtt": "text/vtt; charset=utf-8", ".wasm": "application/wasm",
	".wav": "audio/wav", ".webm": "video/webm", ".webp": "image/webp", ".xml": "application/xml",
	".yaml": "application/yaml", ".yml": "application/yaml", ".zip": "application/zip", ".zst": "application/zstd",
}

// ContentType gives the type under which a file is stored and served: the table's for a known extension, else
// what the client claimed if that is a well-formed media type, else application/octet-stream.
func ContentType(file Path, claimed string) string {
	if known, ok := contentTypes[strings.ToLower(path.Ext(string(file)))]; ok {
		return known
	}
	kind, params, err := mime.ParseMediaType(claimed)
	if err != nil || len(claimed) > 200 || !strings.Contains(kind, "/") {
		return octetStream
	}
	if formatted := mime.FormatMediaType(kind, params); formatted != "" && textFault(formatted) == "" {
		return formatted
	}
	return octetStream
}
