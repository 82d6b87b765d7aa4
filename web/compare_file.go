package web

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/pawlhq/pawl/publish"
)

// Bounds of a comparison by lines: of each side, and of what is shown.
const (
	maxDiffBytes  = 1 << 20
	maxDiffInput  = 50_000 // lines
	maxDiffOutput = 3000
)

// fileComparison sets one file of two versions side by side.
type fileComparison struct {
	A, B *preview
	// Same reports that the bytes are equal.
	Same  bool
	Facts []difference // that differ
	// Pictures reports that browsers show both.
	Pictures bool
	Diff     []diffLine
	// Note says why no lines are compared, or which are cut.
	Note string
}

// diffLine is a line of a unified diff: of one side, of both, or a hunk's head.
type diffLine struct {
	Mark string // "+", "-", " ", "@", or "\" for a file that doesn't end with a line
	Text string
}

// compareFiles compares a file of each side.
func (h *Handler) compareFiles(ctx context.Context, key publish.Key, page *comparePage, a, b publish.Path) (*fileComparison, error) {
	before, err := h.service.FileAt(ctx, key, page.A.Version, a)
	if err != nil {
		return nil, err
	}
	after, err := h.service.FileAt(ctx, key, page.B.Version, b)
	if err != nil {
		return nil, err
	}
	result := &fileComparison{
		A: h.plainPreview(key, page.A, before), B: h.plainPreview(key, page.B, after), Same: before.SHA256 == after.SHA256,
		Facts: differing(
			difference{"Path", string(before.Path), string(after.Path)}, difference{"Size", fmt.Sprint(before.Size), fmt.Sprint(after.Size)},
			difference{"Type", before.ContentType, after.ContentType}, difference{"SHA-256", before.SHA256.String(), after.SHA256.String()},
		),
	}
	if result.Same {
		return result, nil
	}
	switch x, y := result.A.Show, result.B.Show; {
	case x == showPicture && y == showPicture:
		result.Pictures = true
		for file, side := range map[*publish.StoredFile]*preview{&before: result.A, &after: result.B} {
			if err := h.measure(ctx, side, *file); err != nil {
				h.log.WarnContext(ctx, "preview_failed", "object", file.Object, "error", err)
			}
		}
		result.Facts = append(result.Facts, differing(difference{"Pixels", pixels(result.A), pixels(result.B)})...)
	case mayBeText(x) && mayBeText(y):
		return result, h.compareText(ctx, result, before, after)
	}
	return result, nil
}

// plainPreview is the address, the facts and the way of showing a file, without a look into it.
func (h *Handler) plainPreview(key publish.Key, side *comparedVersion, file publish.StoredFile) *preview {
	final := side.Receipt != nil && side.Receipt.Final
	return &preview{File: file.File, URL: h.links.ofVersion(key, side.Version, final, file.File), Show: wayToShow(file.File), Boxed: true}
}

func pixels(p *preview) string {
	if p.Width == 0 {
		return ""
	}
	return fmt.Sprintf("%d × %d", p.Width, p.Height)
}

// mayBeText reports whether a file is text, or may turn out to be when it is read. An empty one is.
func mayBeText(show string) bool {
	return show == showText || show == showTable || show == showPlaylist || show == showBytes || show == showNothing
}

// compareText compares two texts by lines.
func (h *Handler) compareText(ctx context.Context, result *fileComparison, a, b publish.StoredFile) error {
	if a.Size > maxDiffBytes || b.Size > maxDiffBytes {
		result.Note = "Files of more than " + humanBytes(maxDiffBytes) + " aren't compared by lines."
		return nil
	}
	select {
	case h.comparing <- struct{}{}:
		defer func() { <-h.comparing }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, previewTime)
	defer cancel()
	before, err := h.head(ctx, a, maxDiffBytes)
	if err != nil {
		return fmt.Errorf("reading %s: %w", a.Object, err)
	}
	after, err := h.head(ctx, b, maxDiffBytes)
	if err != nil {
		return fmt.Errorf("reading %s: %w", b.Object, err)
	}
	if !looksLikeText(before) || !looksLikeText(after) {
		result.Note = "The files aren't text, so only their facts are compared."
		return nil
	}
	x, isJSON := indented(before, a.File)
	y, areJSON := indented(after, b.File)
	if isJSON && areJSON {
		if before, after = x, y; bytes.Equal(x, y) {
			result.Note = "The files are the same JSON, written with other spaces or line ends."
			return nil
		}
	}
	if max(bytes.Count(before, []byte("\n")), bytes.Count(after, []byte("\n"))) > maxDiffInput {
		result.Note = fmt.Sprintf("Files of more than %d lines aren't compared by lines.", maxDiffInput)
		return nil
	}
	result.Diff, result.Note = diffLines(before, after)
	return nil
}

// diffLines gives the lines that differ, with some around them. It takes O(n log n) time for n lines: two texts can't be made so that it
// takes long.
func diffLines(before, after []byte) (lines []diffLine, note string) {
	unified := string(diff.Diff("a", before, "b", after))
	for range 3 { // The names of the two files.
		_, unified, _ = strings.Cut(unified, "\n")
	}
	for unified != "" {
		if len(lines) == maxDiffOutput {
			return lines, fmt.Sprintf("The first %d lines of the difference are shown.", maxDiffOutput)
		}
		var line string
		line, unified, _ = strings.Cut(unified, "\n")
		if line == "" {
			continue
		}
		lines = append(lines, diffLine{Mark: line[:1], Text: visible(line[1:], maxLineRunes)})
	}
	return lines, ""
}
