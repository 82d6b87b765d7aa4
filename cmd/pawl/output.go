package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// printJSON prints one value as one line of JSON.
func (a *app) printJSON(value any) error {
	encoder := json.NewEncoder(a.stdout)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil && a.stdout.err == nil {
		return fmt.Errorf("encoding the output: %w", err)
	}
	return a.unwritten()
}

// unwritten is the error of output that didn't get out, nil when all of it did.
func (a *app) unwritten() error {
	if a.stdout.err == nil {
		return nil
	}
	return ioError{fmt.Errorf("writing the output: %w", a.stdout.err)}
}

// printf prints a part of a result for people. A failure is noticed in run.
func (a *app) printf(format string, args ...any) {
	fmt.Fprintf(a.stdout, format, args...) //nolint:errcheck // checkedWriter remembers it.
}

// table prints columns for people. A failure is noticed in run.
func (a *app) table(fill func(w io.Writer)) {
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fill(w)
	_ = w.Flush() //nolint:errcheck // checkedWriter remembers it.
}

func row(w io.Writer, format string, args ...any) {
	fmt.Fprintf(w, format+"\n", args...) //nolint:errcheck // The writer below remembers it.
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// stamp is a time as people read it: in UTC, by the database's clock.
func stamp(t *publish.Time) string {
	if t == nil {
		return "-"
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

// extent tells how much a publish named, and how much of that is of earlier generations.
func extent(r publish.Receipt) string {
	text := fmt.Sprintf("%d file(s), %d bytes", r.Files, r.Bytes)
	if r.ReusedFiles > 0 || r.ReuseFrom != 0 {
		text += fmt.Sprintf(", of which %d file(s), %d bytes reused", r.ReusedFiles, r.ReusedBytes)
	}
	if r.ReuseFrom != 0 {
		text += fmt.Sprintf(" from %d", r.ReuseFrom)
	}
	return text
}

// printReceipt prints what a publish did.
func (a *app) printReceipt(receipt publish.Receipt, url string) error {
	a.noticeSuperseded(receipt)
	if err := a.printReceiptLines(receipt, url); err != nil {
		return receiptUnwritten(receipt, err)
	}
	return nil
}

func (a *app) noticeSuperseded(receipt publish.Receipt) {
	if receipt.SupersededBy != 0 {
		a.notice("token %d was granted meanwhile; a publish by it will replace this version", receipt.SupersededBy)
	}
}

// receiptUnwritten is the error of a receipt that didn't get out. The exit code tells of the output; without a word it would look as
// if the publish had failed.
func receiptUnwritten(receipt publish.Receipt, err error) error {
	return ioError{fmt.Errorf("%s version %s is published all the same (token %d); only its receipt is lost: %w",
		receipt.Key, receipt.Version(), receipt.Token, err)}
}

func (a *app) printReceiptLines(receipt publish.Receipt, url string) error {
	if a.json {
		return a.printJSON(receipt)
	}
	what := "published"
	if receipt.Replayed {
		what = "published before"
	}
	if receipt.Current != nil && *receipt.Current != receipt.Version() {
		what += fmt.Sprintf(", since superseded by %s", *receipt.Current)
	}
	a.printf("%s %s version %s: %s\n", what, receipt.Key, receipt.Version(), extent(receipt))
	if url != "" {
		a.printf("%s\n", url)
	}
	return a.unwritten()
}
