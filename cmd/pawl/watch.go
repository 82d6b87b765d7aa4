package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/publish"
)

// watchRetry is how long the server may be away: longer than it takes to restart it, or to promote a standby.
const watchRetry = time.Minute

func (a *app) watchCommand() *cobra.Command {
	var after string
	cmd := &cobra.Command{
		Use:   "watch [PREFIX]",
		Short: "Print what happens to keys, a line an event, as it happens",
		Long: "Print what happens to keys, a line an event, as it happens, until it is interrupted. Each line begins with the event's cursor; when the server\n" +
			"can't be reached for a while, it goes on behind the last one.\n\n" +
			"Events begin now, or behind --after: 0-0 begins at the oldest event that is kept. A cursor behind that,\n" +
			"or ahead of all events, as one of another database is, ends with code 82.",
		Args: cobra.MaximumNArgs(1),
		RunE: a.verb(func(ctx context.Context, args []string) error {
			prefix := ""
			if len(args) > 0 {
				prefix = args[0]
			}
			if _, err := publish.ParsePrefix(prefix); err != nil {
				return usageError{err}
			}
			var from *publish.EventCursor
			if after != "" {
				cursor, err := publish.ParseEventCursor(after)
				if err != nil {
					return usageError{fmt.Errorf("--after %q: %w", after, err)}
				}
				from = &cursor
			}
			return a.watch(ctx, prefix, from)
		}),
	}
	cmd.Flags().StringVar(&after, "after", "", "cursor of the event to go on behind, such as 0-17")
	return cmd
}

func (a *app) watch(ctx context.Context, prefix string, at *publish.EventCursor) error {
	c, err := a.newClient(watchRetry)
	if err != nil {
		return err
	}
	defer c.Close()
	for page, err := range c.Watch(ctx, prefix, at) {
		if err != nil {
			if refusal, ok := errors.AsType[*publish.Error](err); ok && refusal.Code == publish.ErrCursorExpired {
				at = cmp.Or(refusal.Oldest, refusal.Newest)
			}
			if at != nil {
				a.notice("to go on: %s", a.watchAgain(prefix, *at))
			}
			return err
		}
		at = page.Next
		for _, e := range page.Events {
			if err := a.printEvent(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// watchAgain is the command that goes on behind a cursor.
func (a *app) watchAgain(prefix string, at publish.EventCursor) string {
	command := "pawl watch"
	if prefix != "" {
		command += " " + shellWord(prefix)
	}
	if a.json {
		command += " --json"
	}
	return command + " --after " + at.String()
}

// shellWord writes a prefix so that a shell reads it as one word.
func shellWord(prefix string) string {
	special := func(c rune) bool {
		return !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("-._/", c)
	}
	if !strings.ContainsFunc(prefix, special) {
		return prefix
	}
	return "'" + strings.ReplaceAll(prefix, "'", `'\''`) + "'"
}

// printEvent prints one line.
func (a *app) printEvent(e publish.Event) error {
	if a.json {
		return a.printJSON(e)
	}
	version := ""
	switch {
	case e.Revision != 0:
		version = " " + e.Version().String()
	case e.Token != 0:
		version = fmt.Sprintf(" %d", e.Token)
	}
	key := ""
	if e.Key != "" {
		key = " " + string(e.Key)
	}
	a.printf("%s %s %s%s%s%s\n", e.Cursor, stamp(&e.At), e.Kind, key, version, about(e))
	return a.unwritten()
}

// about is what is particular about an event.
func about(e publish.Event) string {
	text := ""
	if e.By != "" {
		text = " by " + e.By
	}
	switch {
	case e.Kind == publish.EventRejected:
		text += fmt.Sprintf(": %s refused, token %d (%s) was ahead", e.Operation, cmp.Or(max(e.AcceptedToken, e.GrantedToken), e.Token), e.SupersededBy)
	case e.From != nil:
		text += fmt.Sprintf(" from %s (token %d)", e.From.Holder, e.From.Token)
	case e.RollbackTo != nil:
		text += fmt.Sprintf(" to %s: %s", e.RollbackTo, e.Reason)
	case e.Reason != "":
		text += ": " + e.Reason
	case e.Files != 0:
		text += fmt.Sprintf(": %d file(s), %d bytes", e.Files, e.Bytes)
	}
	return text
}
