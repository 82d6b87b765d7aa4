package web

import (
	"fmt"
	"slices"

	"github.com/pawlhq/pawl/publish"
)

// Timeline tells a history, a line a moment: when, counted from start, what, and about which version.
func Timeline(page publish.HistoryPage, older *publish.Generation, newer bool, epoch *publish.Epoch, start publish.Time) []string {
	var lines []string
	for _, m := range timeline(page, older, newer, epoch) {
		line := fmt.Sprint(m.At.Sub(start.Time).Seconds(), " ", m.Kind)
		for word, said := range map[string]bool{" looping": m.Looping, " collected": m.Collected} {
			if said {
				line += word
			}
		}
		switch {
		case m.Revision > 0:
			line += " " + m.Version().String()
		case m.Token > 0:
			line += fmt.Sprint(" ", m.Token)
		}
		if m.Current {
			line += " current,"
		}
		if m.Previous != nil {
			line += " before " + m.Previous.String()
		}
		line += " " + m.Said.String()
		if m.Reason != "" {
			line += " [" + m.Reason + "]"
		}
		for _, note := range m.Notes {
			line += " / " + note.String()
		}
		lines = append(lines, line)
	}
	return lines
}

// TimelineParts gives what a history says in our own words, and what others chose.
func TimelineParts(page publish.HistoryPage) (own string, others []string) {
	for _, m := range timeline(page, nil, true, nil) {
		for _, part := range append(m.Said, slices.Concat(m.Notes...)...) {
			if part.Theirs {
				others = append(others, part.Text)
			} else {
				own += part.Text
			}
		}
	}
	return own, others
}
