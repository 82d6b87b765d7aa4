package web

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/publish"
)

// Bounds of a table on a page.
const (
	maxTableRows    = 200
	maxTableColumns = 50
	maxCellRunes    = 200
)

// separator is what splits the cells of a file that is a table, 0 for any other file.
func separator(file publish.File) rune {
	switch mediaType(file.ContentType) {
	case "text/tab-separated-values":
		return '\t'
	case "text/csv":
		return ','
	}
	return 0
}

// tableOf reads the rows of the head of a table; size is the file's. Rows may have any number of cells, and quotes may be broken.
func tableOf(head []byte, comma rune, size int64) (rows [][]string, note string) {
	cut := int64(len(head)) < size
	head = bytes.TrimPrefix(head, []byte("\ufeff"))
	if first, _, _ := bytes.Cut(head, []byte("\n")); comma == ',' && !bytes.ContainsRune(first, ',') && bytes.ContainsRune(first, ';') {
		comma = ';' // as spreadsheets write it where the comma is the decimal point
	}
	reader := csv.NewReader(bytes.NewReader(head))
	reader.Comma, reader.FieldsPerRecord, reader.LazyQuotes, reader.ReuseRecord = comma, -1, true, true
	columns, more := 0, false
	for {
		row, err := reader.Read()
		if err != nil { // The end: with lazy quotes nothing else is an error.
			break
		}
		if len(rows) == maxTableRows {
			more = true
			break
		}
		cells := slices.Clone(row[:min(len(row), maxTableColumns)])
		for i := range cells {
			cells[i] = visible(strings.ToValidUTF8(cells[i], "\ufffd"), maxCellRunes)
		}
		columns = max(columns, len(row))
		rows = append(rows, cells)
	}
	if cut && !more && len(rows) > 1 {
		rows = rows[:len(rows)-1] // The last one may be half a row.
	}
	if cut || more {
		note = fmt.Sprintf("The first %d rows of a file of %s are shown.", len(rows), humanBytes(size))
	}
	if columns > maxTableColumns {
		note += fmt.Sprintf(" Of at most %d columns the first %d are shown.", columns, maxTableColumns)
	}
	return rows, strings.TrimSpace(note)
}
