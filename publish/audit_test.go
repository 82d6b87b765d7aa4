package publish_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/publish/publishtest"
)

// refusalRig is a service that has refused things, with a log.
func refusalRig() (*publish.Service, *publishtest.Pointers, *strings.Builder) {
	var lines strings.Builder
	pointers := publishtest.NewPointers()
	return &publish.Service{Pointers: pointers, Blobs: publishtest.NewBlobs(), Log: slog.New(slog.NewTextHandler(&lines, nil))}, pointers, &lines
}

func forbidden(by publish.Operator, subject string) publish.RefusedAction {
	return publish.RefusedAction{By: by, Action: "publish", Subject: subject, Code: publish.ErrForbidden}
}

func auditOf(t *testing.T, s *publish.Service) []publish.AuditEntry {
	t.Helper()
	page, err := s.Audit(t.Context(), publish.AuditRequest{Reach: publish.Everything, Limit: publish.MaxPageSize})
	if err != nil {
		t.Fatal(err)
	}
	return page.Entries
}

// A flood of refusals is bounded for each caller, in the audit and in round trips, and begins anew with each minute.
func TestRefusalsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		service, pointers, lines := refusalRig()
		defer service.Close()
		ctx := publish.WithClient(t.Context(), netip.MustParseAddr("10.0.0.7"))
		record := func(by publish.Operator, subject string) {
			t.Helper()
			if err := service.RecordRefusal(ctx, forbidden(by, subject)); err != nil {
				t.Fatal(err)
			}
		}
		for n := range 300 {
			record("ci", fmt.Sprintf("k/%d", n%250))
			record("ci", "k/0")
		}
		record("other", "k/0")
		if entries := auditOf(t, service); len(entries) != 101 || entries[0].By != "other" || entries[0].From != "10.0.0.7" {
			t.Errorf("%d entries, the last one %+v", len(entries), entries[0])
		}
		if n := strings.Count(lines.String(), "refusals_not_audited by=ci limit=100"); n != 1 {
			t.Errorf("%d lines: %s", n, lines.String())
		}
		time.Sleep(time.Minute)
		record("ci", "k/249")
		record("ci", "k/249")
		if entries := auditOf(t, service); len(entries) != 102 || entries[0].Subject != "k/249" {
			t.Errorf("%d entries after a minute", len(entries))
		}

		// What could not be recorded is recorded the next time, whether or not the answer alone was lost.
		time.Sleep(time.Minute)
		for _, lost := range []bool{false, true} {
			subject := fmt.Sprintf("lost/%t", lost)
			pointers.Faults.Add(publishtest.Fault{Operation: "RecordRefusal", Applied: lost})
			if err := service.RecordRefusal(ctx, forbidden("ci", subject)); err == nil {
				t.Fatal("the fault is gone")
			}
			record("ci", subject)
			if entries := auditOf(t, service); entries[0].Subject != subject || entries[1].Subject == subject {
				t.Errorf("%s: the last entries are %+v", subject, entries[:2])
			}
		}
	})
}

func TestBadRefusals(t *testing.T) {
	t.Parallel()
	service, _, _ := refusalRig()
	defer service.Close()
	for _, bad := range []publish.RefusedAction{
		forbidden("", "k"), forbidden("a\nb", "k"),
		{By: "ci", Subject: "k", Code: publish.ErrForbidden},
		{By: "ci", Action: "publish", Subject: "k"},
		{By: "ci", Action: strings.Repeat("x", 65), Code: publish.ErrForbidden},
		{By: "ci", Action: "a\nb", Code: publish.ErrForbidden},
	} {
		if err := service.RecordRefusal(context.Background(), bad); !errors.Is(err, publish.ErrInvalidRequest) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if n := len(auditOf(t, service)); n != 0 {
		t.Errorf("%d entries", n)
	}
}
