package blobstore

import (
	"fmt"
	"slices"
)

// Level says how much a finding matters.
type Level string

// The levels of findings.
const (
	LevelOK   Level = "ok"
	LevelNote Level = "note" // worth knowing
	LevelWarn Level = "warn" // works, but something is lost by it
	LevelFail Level = "fail" // Pawl can't work like this
)

// Finding is the result of one check.
type Finding struct {
	Name  string `json:"name"`
	Level Level  `json:"level"`
	Seen  string `json:"seen"`
	// Cure names the setting to change; "" where there is nothing to do.
	Cure string `json:"cure,omitempty"`
}

// Report is what a store was found to be.
type Report struct {
	Findings []Finding `json:"findings"`
	// Capable is what an S3 server does; see Capabilities. Of a directory it is zero.
	Capable Capabilities `json:"capabilities"`
	// Down reports that the store couldn't be reached, or was too busy to answer, so that not all was looked at: it is worth
	// another try later.
	Down bool `json:"-"`
}

// Worst returns the gravest level of all findings.
func (r Report) Worst() Level {
	order := []Level{LevelOK, LevelNote, LevelWarn, LevelFail}
	worst := 0
	for _, f := range r.Findings {
		worst = max(worst, slices.Index(order, f.Level))
	}
	return order[worst]
}

func (r *Report) add(name string, level Level, cure, format string, args ...any) {
	r.Findings = append(r.Findings, Finding{Name: name, Level: level, Seen: fmt.Sprintf(format, args...), Cure: cure})
}

// DiagnoseOptions say what else to look at.
type DiagnoseOptions struct {
	// Origins are those of pages that send to the store, such as https://pawl.example.
	Origins []string
}
