package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"

	"github.com/labstack/echo/v4"

	"github.com/pawlhq/pawl/publish"
)

//go:embed static
var staticFiles embed.FS

// asset is one of the pages' own files: a style sheet, or a script, which is an ES module.
type asset struct {
	content     []byte
	contentType string
	// version is the beginning of the content's hash. It stands in the file's address, so that a new build's pages never
	// meet an old build's script in a cache.
	version string
}

// assets holds the pages' own files by their names.
var assets = readAssets()

// sharedScript is the script of all pages, from which the others import.
const sharedScript = "page.js"

func readAssets() map[string]asset {
	types := map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
	all := map[string]asset{}
	entries, err := fs.ReadDir(staticFiles, "static")
	if err != nil {
		panic(fmt.Sprintf("the pages' own files are not embedded: %v", err))
	}
	// An import names the address that pages have: from another one the browser would load the script, and run it, once more.
	shared := []byte(`"./` + sharedScript + `"`)
	versioned := []byte(`"./` + sharedScript + "?v=" + contentVersion(readStatic(sharedScript)) + `"`)
	for _, entry := range entries {
		content := bytes.ReplaceAll(readStatic(entry.Name()), shared, versioned)
		all[entry.Name()] = asset{content: content, contentType: types[path.Ext(entry.Name())], version: contentVersion(content)}
	}
	return all
}

func readStatic(name string) []byte {
	content, err := staticFiles.ReadFile("static/" + name)
	if err != nil {
		panic(fmt.Sprintf("the pages' own file %s is not embedded: %v", name, err))
	}
	return content
}

func contentVersion(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:6])
}

// static is the address of one of the pages' own files.
func (l links) static(name string) string {
	return l.base + "/static/" + name + "?v=" + assets[name].version
}

// static serves the pages' own files. Under the address of their version they never change.
func (h *Handler) static(c *call) error {
	file, found := assets[c.Param("file")]
	if !found {
		return &publish.Error{Code: publish.ErrNotFound, Detail: "the pages have no such file"}
	}
	c.Response().Header().Set(echo.HeaderCacheControl, cacheRevalidate)
	if c.QueryParam("v") == file.version {
		c.Response().Header().Set(echo.HeaderCacheControl, cacheForever)
	}
	c.Response().Header().Set("ETag", `"`+file.version+`"`)
	if c.Request().Header.Get("If-None-Match") == `"`+file.version+`"` {
		return c.NoContent(http.StatusNotModified)
	}
	return c.Blob(http.StatusOK, file.contentType, file.content)
}
