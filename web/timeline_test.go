package web_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

// at gives a time so many seconds into the story.
func at(seconds float64) publish.Time {
	begin := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	return publish.Time{Time: begin.Add(time.Duration(seconds * float64(time.Second)))}
}

func since(seconds float64) *publish.Time {
	t := at(seconds)
	return &t
}

func version(token publish.Token, revision int64) *publish.Version {
	return &publish.Version{Token: token, Revision: revision}
}

// Each kind of moment in its words, and all of them in the order of time, newest first.
func TestTimeline(t *testing.T) {
	t.Parallel()
	published := func(token publish.Token, seconds float64, change func(*publish.Receipt)) publish.Receipt {
		r := publish.Receipt{Token: token, Revision: 1, PublishedAt: at(seconds), Publisher: "worker-b", Files: 1, Bytes: 2048, Final: true}
		if change != nil {
			change(&r)
		}
		return r
	}
	stale := publish.Rejection{
		Token: 41, Operation: "publish", Holder: "worker-a", AcceptedToken: 42, GrantedToken: 42, SupersededBy: "worker-b", SupersededAt: since(40),
		FirstAt: at(52), LastAt: at(52), Repeat: 1, OverrunMillis: 22_000,
	}
	again := func(change func(*publish.Rejection)) publish.Rejection {
		r := stale
		change(&r)
		return r
	}
	tests := []struct {
		name        string
		generations []publish.Generation
		older       *publish.Generation
		newer       bool
		page        publish.HistoryPage
		epoch       *publish.Epoch
		want        []string
	}{
		{
			name: "a stalled worker comes back",
			generations: []publish.Generation{
				{
					Token: 42, Holder: "worker-b", GrantedAt: at(33), SealedAt: since(40), ReleasedAt: since(41), State: publish.StateSealed, Revision: 1, Current: true,
					Receipts: []publish.Receipt{published(42, 40, func(r *publish.Receipt) { r.Previous = version(17, 1) })},
				},
				{
					Token: 41, Holder: "worker-a", GrantedAt: at(0), LeaseEndedAt: since(30), State: publish.StateOpen,
					Uploads:    publish.UploadCounts{Unpublished: 2, Failed: 1},
					Rejections: []publish.Rejection{stale},
				},
			},
			older: &publish.Generation{Token: 17, Holder: "worker-z", GrantedAt: at(-90), ReleasedAt: since(-80), SealedAt: since(-80), Revision: 1},
			want: []string{
				"52 refused 41 worker-a came back 12 s after 42 (worker-b) had won: its publish with 41 was refused / Its lease had ended 22 s before.",
				"40 published 42.1 current, before 17.1 worker-b published 42.1: 1 file, 2.0 KiB, 7 s after its grant",
				"33 taken over 42 worker-b took the key over with token 42: the lease of worker-a (token 41) had ended 3 s before / It held the key for 8 s and gave it back.",
				"30 never current 41 3 uploads of worker-a under token 41 never became current / 1 of them had not arrived whole.",
				"0 granted 41 worker-a was granted token 41 / It held the key for 30 s and never gave it back.",
			},
		},
		{
			name: "a retry loop, and a set that comes back file by file",
			generations: []publish.Generation{{Token: 41, Holder: "worker-a", GrantedAt: at(0), LeaseEndedAt: since(30), Revision: 1, Rejections: []publish.Rejection{
				again(func(r *publish.Rejection) { r.Repeat, r.LastAt = 40, at(172) }),
				again(func(r *publish.Rejection) {
					r.Operation, r.Path, r.LastAt, r.OverrunMillis = "upload", "b.png", at(60), 0
				}),
				again(func(r *publish.Rejection) { r.Operation, r.Path = "upload", "a.png" }),
				again(func(r *publish.Rejection) {
					r.Operation, r.Path, r.LastAt, r.AcceptedToken, r.GrantedToken = "effect", "mail", at(50), 0, 42
				}),
				again(func(r *publish.Rejection) {
					r.Operation, r.Path, r.LastAt, r.FirstAt = "delete", "c.png", at(49.5), at(39)
				}),
			}}},
			newer: true,
			want: []string{
				"172 refused looping 41 worker-a came back 12 s after 42 (worker-b) had won: its publish with 41 was refused (40 times) / Its lease had ended 22 s before. / worker-a has repeated this 40 times within 2 min: it didn't stop at exit 80.",
				"60 refused 41 worker-a came back 12 s after 42 (worker-b) had won: its uploads of 2 files with 41 were refused",
				"50 refused 41 worker-a came back 12 s after 42 (worker-b) was granted: its effect mail with 41 was refused / Its lease had ended 22 s before.",
				"49.5 refused 41 worker-a came back 9 s after 42 (worker-b) had won: its deletion of c.png with 41 was refused / Its lease had ended 22 s before.",
				"0 granted 41 worker-a was granted token 41 / It held the key for 30 s and never gave it back.",
			},
		},
		{
			name: "more files come back than are listed",
			generations: []publish.Generation{{
				Token: 41, Holder: "worker-a", GrantedAt: at(0), LeaseEndedAt: since(30), Revision: 1,
				Rejections: []publish.Rejection{
					again(func(r *publish.Rejection) {
						r.Operation, r.Path, r.LastAt, r.FirstAt = "upload", "300.png", at(90), at(90)
					}),
					again(func(r *publish.Rejection) {
						r.Operation, r.Path, r.LastAt, r.FirstAt, r.Repeat = "upload", "299.png", at(89), at(79), 11
					}),
				},
				Refused: []publish.RefusedSum{
					{Rejection: again(func(r *publish.Rejection) {
						r.Operation, r.Path, r.LastAt, r.FirstAt, r.Repeat = "upload", "300.png", at(90), at(41), 310
					}), Count: 300},
					{Rejection: stale, Count: 1},
				},
			}},
			newer: true,
			want: []string{
				"90 refused looping 41 worker-a came back 1 s after 42 (worker-b) had won: its uploads of 300 files with 41 were refused (310 times) / Its lease had ended 22 s before. / worker-a has repeated this 11 times within 10 s: it didn't stop at exit 80.",
				"52 refused 41 worker-a came back 12 s after 42 (worker-b) had won: its publish with 41 was refused / Its lease had ended 22 s before.",
				"0 granted 41 worker-a was granted token 41 / It held the key for 30 s and never gave it back.",
			},
		},
		{
			name: "more files come back than are counted",
			generations: []publish.Generation{{
				Token: 41, Holder: "worker-a", GrantedAt: at(0), LeaseEndedAt: since(30), Revision: 1,
				Refused: []publish.RefusedSum{
					{Rejection: again(func(r *publish.Rejection) { r.Operation, r.Path, r.Repeat = "upload", "1.png", 20_000 }), Count: publish.MaxRefusedCounted},
				},
			}},
			newer: true,
			want: []string{
				"52 refused 41 worker-a came back after 42 (worker-b) had won: its uploads of 1000 or more files with 41 were refused / Its lease had ended 22 s before.",
				"0 granted 41 worker-a was granted token 41 / It held the key for 30 s and never gave it back.",
			},
		},
		{
			name: "what people did",
			generations: []publish.Generation{
				{Token: 45, Kind: publish.KindRetire, Holder: "mia", Reason: "shot was cut", GrantedAt: at(50), ReleasedAt: since(50), Target: version(44, 1)},
				{
					Token: 44, Kind: publish.KindRollback, Holder: "mia", GrantedAt: at(40), ReleasedAt: since(40), Revision: 1, SealedAt: since(40),
					Receipts: []publish.Receipt{published(44, 40, func(r *publish.Receipt) {
						r.RollbackTo, r.Reason, r.Publisher = version(42, 1), "43 flickers", "mia"
					})},
				},
				{
					Token: 43, Holder: "worker-a", GrantedAt: at(10), LeaseEndedAt: since(40), Revision: 2,
					Uploads: publish.UploadCounts{Unpublished: 1},
					Receipts: []publish.Receipt{
						published(43, 30, func(r *publish.Receipt) { r.Revision, r.ReuseFrom, r.ReusedFiles, r.ReusedBytes = 2, 42, 7, 1<<20 }),
						published(43, 20, func(r *publish.Receipt) { r.Final, r.LeaseExpired, r.Files = false, true, 3 }),
					},
				},
				{Token: 42, Holder: "worker-b", GrantedAt: at(0), ReleasedAt: since(5), State: publish.StateCollected},
			},
			page: publish.HistoryPage{Pinned: &publish.Pin{By: "ola", Reason: "review", At: at(45)}},
			want: []string{
				"50 retired 45 mia retired the key under token 45: 44.1 was current until then [shot was cut]",
				"45 pinned ola pinned the key to what was current: publishes are refused until it is unpinned [review]",
				"40 rolled back 44.1 mia brought 42.1 back as 44.1 [43 flickers] / This ended the lease of worker-a (token 43).",
				"40 never current 43 1 upload of worker-a under token 43 came after its last publish and never became current",
				"30 published 43.2 worker-b published 43.2: 1 file, 2.0 KiB / 7 files (1.0 MiB) carried over from generation 42.",
				"20 published 43.1 worker-b published 43.1: 3 files, 2.0 KiB, 10 s after its grant / Its lease had run out, but nobody newer had published, so this was accepted. / Not the last one of its generation: more may follow.",
				"10 granted 43 worker-a was granted token 43 / It held the key for 30 s and never gave it back.",
				"5 never current collected 42 worker-b published nothing under token 42",
				"0 granted collected 42 worker-b was granted token 42 / It held the key for 5 s and gave it back.",
			},
		},
		{
			name: "after a restore",
			generations: []publish.Generation{
				{Token: 1_000_000_001, Holder: "worker-b", GrantedAt: at(10)},
				{Token: 1_000_000_000, Holder: "worker-a", GrantedAt: at(0), ReleasedAt: since(1), Revision: 1},
			},
			page:  publish.HistoryPage{Lost: []publish.Rejection{{Token: 12, Operation: "publish", FirstAt: at(20), LastAt: at(20), Repeat: 2}}},
			epoch: &publish.Epoch{Epoch: 1, Reason: "restored from a dump"},
			want: []string{
				"20 refused 12 Somebody came with token 12 of a history that the database has lost: its publish with 12 was refused (2 times)",
				"10 granted 1000000001 worker-b was granted token 1000000001",
				"10 new epoch Epoch 1: the database had lost a part of its history, so tokens leapt above all that can have been granted in it [restored from a dump]",
				"0 granted 1000000000 worker-a was granted token 1000000000 / It held the key for 1 s and gave it back.",
			},
		},
		{
			name:        "on a later page, what holds for the key as a whole is left out, and every grant is superseded",
			generations: []publish.Generation{{Token: 1, Holder: "worker-a", GrantedAt: at(0)}},
			newer:       true,
			page:        publish.HistoryPage{Lost: []publish.Rejection{stale}, Pinned: &publish.Pin{By: "ola", At: at(1)}},
			want: []string{
				"0 never current 1 worker-a published nothing under token 1",
				"0 granted 1 worker-a was granted token 1",
			},
		},
		{
			name: "a lease is broken",
			generations: []publish.Generation{
				{Token: 2, Holder: "worker-b", GrantedAt: at(31)},
				{Token: 1, Holder: "worker-a", GrantedAt: at(0), ReleasedAt: since(30), Broken: &publish.Break{Reason: "node is gone", By: "mia", At: at(30)}},
			},
			want: []string{
				"31 granted 2 worker-b was granted token 2",
				"30 never current 1 worker-a published nothing under token 1",
				"30 lease broken 1 mia ended the lease of worker-a (token 1) [node is gone]",
				"0 granted 1 worker-a was granted token 1",
			},
		},
		{
			name: "whose credentials those were",
			generations: []publish.Generation{
				{
					Token: 3, Kind: publish.KindRetire, Holder: "mia", Actor: publish.Actor{Credential: "mia", From: "10.0.0.7"}, GrantedAt: at(9), State: publish.StateCollected,
					Rejections: []publish.Rejection{again(func(r *publish.Rejection) {
						r.Token, r.AcceptedToken, r.GrantedToken, r.SupersededAt, r.Actor = 3, 0, 0, nil, publish.Actor{Credential: "laptop"}
					})},
				},
				{
					Token: 2, Holder: "page: mia", Actor: publish.Actor{Credential: "mia"}, GrantedAt: at(5), ReleasedAt: since(8), State: publish.StateSealed, Revision: 1,
					Receipts: []publish.Receipt{published(2, 7, func(r *publish.Receipt) { r.Publisher, r.Actor = "page: mia", publish.Actor{Credential: "mia"} })},
				},
				{
					Token: 1, Holder: "worker-b", Actor: publish.Actor{Credential: "render farm", From: "10.0.0.9"}, GrantedAt: at(0), ReleasedAt: since(2), SealedAt: since(1),
					State: publish.StateSealed, Revision: 1,
					Receipts: []publish.Receipt{published(1, 1, func(r *publish.Receipt) { r.Actor = publish.Actor{Credential: "laptop"} })},
				},
			},
			want: []string{
				"52 refused 3 worker-a as laptop came back: its publish with 3 was refused / Its lease had ended 22 s before.",
				"9 retired 3 mia from 10.0.0.7 retired the key under token 3",
				"7 published 2.1 page: mia published 2.1: 1 file, 2.0 KiB, 2 s after its grant",
				"5 granted 2 page: mia was granted token 2 / It held the key for 3 s and gave it back.",
				"1 published 1.1 worker-b as laptop published 1.1: 1 file, 2.0 KiB, 1 s after its grant",
				"0 granted 1 worker-b as render farm from 10.0.0.9 was granted token 1 / It held the key for 2 s and gave it back.",
			},
		},
		{name: "nothing older", newer: true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.page.Generations = test.generations
			got := web.Timeline(test.page, test.older, test.newer, test.epoch, at(0))
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("the timeline differs (-want +got):\n%s", diff)
			}
		})
	}
}

// A name that others chose is a part of its own, whatever is in it, and nothing of it gets into the parts around it.
func TestSentenceKeepsNamesApart(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"\u05d0\u05d1", "<b>", "a, token 9"} {
		history := publish.HistoryPage{Generations: []publish.Generation{{Token: 1, Holder: name, GrantedAt: at(0), Rejections: []publish.Rejection{
			{Token: 1, Operation: "upload", Path: publish.Path(name), Holder: name, SupersededBy: name, AcceptedToken: 2, FirstAt: at(1), LastAt: at(1), Repeat: 3},
		}}}}
		own, others := web.TimelineParts(history)
		if strings.Contains(own, name) {
			t.Errorf("%q stands in our own words: %s", name, own)
		}
		if !slices.Contains(others, name) || len(others) < 4 {
			t.Errorf("%q isn't kept apart: %q", name, others)
		}
	}
}
