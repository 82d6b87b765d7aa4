package publish

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// MaxExportRows is how many rows one export holds, at most.
const MaxExportRows = 100_000

// Table says how rows of one kind look as CSV. Columns are named as the members of the rows are in JSON.
type Table[Row any] struct {
	Columns []string
	Cells   func(Row) []string
}

// CSV writes rows as CSV (RFC 4180, with \n): a line of names, then one a row. It is for one goroutine.
type CSV[Row any] struct {
	table  Table[Row]
	to     *csv.Writer
	headed bool
}

// NewCSV makes a writer of rows; nothing is written yet.
func NewCSV[Row any](to io.Writer, table Table[Row]) *CSV[Row] {
	return &CSV[Row]{table: table, to: csv.NewWriter(to)}
}

// Write writes rows, and before the first ones the names of the columns. What it was given is out when it returns.
func (c *CSV[Row]) Write(rows []Row) error {
	lines := make([][]string, 0, len(rows)+1)
	if !c.headed {
		lines, c.headed = append(lines, c.table.Columns), true
	}
	for _, row := range rows {
		cells := c.table.Cells(row)
		for i, cell := range cells {
			cells[i] = harmless(cell)
		}
		lines = append(lines, cells)
	}
	if err := c.to.WriteAll(lines); err != nil {
		return fmt.Errorf("writing CSV: %w", err)
	}
	return nil
}

// WriteNDJSON writes rows as JSON, one a line. What it was given is out when it returns.
func WriteNDJSON[Row any](to io.Writer, rows []Row) error {
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	encoder.SetEscapeHTML(false)
	for _, row := range rows {
		if err := encoder.Encode(row); err != nil {
			return fmt.Errorf("writing NDJSON: %w", err)
		}
	}
	if _, err := lines.WriteTo(to); err != nil {
		return fmt.Errorf("writing NDJSON: %w", err)
	}
	return nil
}

// harmless keeps a spreadsheet from taking a cell for a formula: a key or a holder may begin like one.
func harmless(cell string) string {
	if cell != "" && strings.ContainsRune("=+-@\t\r", rune(cell[0])) {
		return "'" + cell
	}
	return cell
}

// RejectionTable is how rejections look as CSV.
func RejectionTable() Table[KeyRejection] {
	return Table[KeyRejection]{
		Columns: []string{
			"key", "token", "operation", "path", "holder", "accepted_token", "granted_token", "superseded_by", "superseded_at",
			"first_at", "last_at", "repeat", "overrun_ms", "looping", "credential", "from",
		},
		Cells: func(r KeyRejection) []string {
			return []string{
				string(r.Key), tokenCell(r.Token), r.Operation, string(r.Path), r.Holder, tokenCell(r.AcceptedToken), tokenCell(r.GrantedToken),
				r.SupersededBy, timeCell(r.SupersededAt), timeCell(&r.FirstAt), timeCell(&r.LastAt), strconv.Itoa(r.Repeat),
				strconv.FormatInt(r.OverrunMillis, 10), strconv.FormatBool(r.Looping), r.Credential, r.From,
			}
		},
	}
}

// LeaseTable is how leases look as CSV.
func LeaseTable() Table[Holding] {
	return Table[Holding]{
		Columns: []string{"key", "token", "holder", "granted_at", "expires_at", "ttl_ms", "live", "labels"},
		Cells: func(h Holding) []string {
			var labels []string
			for _, name := range slices.Sorted(maps.Keys(h.Labels)) {
				labels = append(labels, name+"="+h.Labels[name])
			}
			return []string{
				string(h.Key), tokenCell(h.Token), h.Holder, timeCell(&h.GrantedAt), timeCell(&h.ExpiresAt),
				strconv.FormatInt(h.TTLMillis, 10), strconv.FormatBool(h.Live), strings.Join(labels, " "),
			}
		},
	}
}

// AuditTable is how the audit looks as CSV.
func AuditTable() Table[AuditEntry] {
	return Table[AuditEntry]{
		Columns: []string{"id", "at", "by", "action", "subject", "before", "after", "from", "token", "refused"},
		Cells: func(e AuditEntry) []string {
			return []string{
				strconv.FormatInt(e.ID, 10), timeCell(&e.At), string(e.By), e.Action, e.Subject, string(e.Before), string(e.After),
				e.From, tokenCell(e.Token), string(e.Refused),
			}
		},
	}
}

// EventTable is how events look as CSV: what all kinds have in common, and what is told of publishes and rejections.
func EventTable() Table[Event] {
	return Table[Event]{
		Columns: []string{"cursor", "kind", "key", "token", "revision", "at", "by", "reason", "files", "bytes", "operation", "path", "accepted_token", "superseded_by", "url"},
		Cells: func(e Event) []string {
			return []string{
				e.Cursor.String(), string(e.Kind), string(e.Key), tokenCell(e.Token), countCell(e.Revision), timeCell(&e.At), e.By, e.Reason,
				countCell(e.Files), countCell(e.Bytes), e.Operation, string(e.Path), tokenCell(e.AcceptedToken), e.SupersededBy, e.URL,
			}
		},
	}
}

// tokenCell, countCell and timeCell leave the cell empty where the JSON has no member.
func tokenCell(t Token) string { return countCell(int64(t)) }

func countCell(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

func timeCell(t *Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return t.UTC().Format(timeLayout)
}
