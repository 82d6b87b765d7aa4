package web

import (
	"fmt"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// refused is stale requests of one token and actor that are told as one, since they differ in their paths and times alone: a worker that comes back with a set
// sends one request a file.
type refused struct {
	last, most publish.Rejection // the newest of them, and the one that came most often
	first      publish.Time      // when the earliest came, zero where that isn't known
	paths      int64             // how many of them differ
	times      int               // with repeats
	atLeast    bool              // there are more than were counted
}

func (r *refused) add(rejection publish.Rejection) {
	r.paths++
	if r.times += rejection.Repeat; rejection.FirstAt.Before(r.first.Time) {
		r.first = rejection.FirstAt
	}
	if rejection.Repeat > r.most.Repeat {
		r.most = rejection
	}
}

func refusedOnce(r publish.Rejection) refused {
	return refused{last: r, most: r, first: r.FirstAt, paths: 1, times: r.Repeat}
}

// refusals tells of stale requests, newest first, of one generation or of none. sums tells of all of them, where there are more; nil otherwise.
func refusals(rejections []publish.Rejection, sums []publish.RefusedSum) []moment {
	var groups []refused
	for _, r := range rejections {
		if last := len(groups) - 1; last >= 0 && sameRefusal(groups[last].last, r) {
			groups[last].add(r)
		} else {
			groups = append(groups, refusedOnce(r))
		}
	}
	if sums != nil {
		groups = summed(groups, sums)
	}
	told := make([]moment, len(groups))
	for i, group := range groups {
		told[i] = refusal(group, false)
	}
	return told
}

// summed gives a group for each sum. Which request came most often is told by the groups of the newest rejections.
func summed(newest []refused, sums []publish.RefusedSum) []refused {
	groups, counted := make([]refused, len(sums)), int64(0)
	for i, sum := range sums {
		sum.Actor = publish.Actor{}
		groups[i] = refused{last: sum.Rejection, first: sum.FirstAt, paths: sum.Count, times: sum.Repeat}
		for _, group := range newest {
			// What is summed up may be of several actors.
			group.last.Actor = sum.Actor
			if sameRefusal(group.last, sum.Rejection) && group.most.Repeat > groups[i].most.Repeat {
				groups[i].most = group.most
			}
		}
		counted += sum.Count
	}
	if counted >= publish.MaxRefusedCounted {
		for i := range groups {
			groups[i].atLeast, groups[i].first = true, publish.Time{}
		}
	}
	return groups
}

func sameRefusal(a, b publish.Rejection) bool {
	return a.Token == b.Token && a.Operation == b.Operation && a.AcceptedToken == b.AcceptedToken && a.GrantedToken == b.GrantedToken && a.Actor == b.Actor
}

// refusal tells of stale requests of one kind: who came back, how long after whom, and how often. still says that they are known to go on.
func refusal(r refused, still bool) moment {
	m := moment{
		Kind: momentRejected, At: r.last.LastAt, Token: r.last.Token, Lost: r.last.Holder == "", Looping: r.most.Repeat >= publish.RetryLoopAt,
	}
	m.Said = cameBack(r.last, r.first).and(": its ", requested(r), " with ", r.last.Token, " ", wasOrWere(r.paths), " refused")
	if int64(r.times) > r.paths && !r.atLeast {
		m.Said = m.Said.and(fmt.Sprintf(" (%d times)", r.times))
	}
	if r.last.OverrunMillis > 0 {
		m.note("Its lease had ended ", span(time.Duration(r.last.OverrunMillis)*time.Millisecond), " before.")
	}
	if m.Looping {
		m.Notes = append(m.Notes, looping(r.most, still))
	}
	return m
}

// cameBack tells who came, and how long after the newer token the first time was; a zero first isn't known.
func cameBack(last publish.Rejection, first publish.Time) sentence {
	if last.Holder == "" {
		return say("Somebody", who("", last.Actor), " came with token ", last.Token, " of a history that the database has lost")
	}
	s := say(who(last.Holder, last.Actor), " came back")
	newer, what := last.AcceptedToken, "had won"
	if newer <= last.Token {
		newer, what = last.GrantedToken, "was granted"
	}
	if newer <= last.Token {
		return s
	}
	if since := last.SupersededAt; since != nil && !first.IsZero() {
		// Somebody newer may have won between two repeats; then the first one came before this winner.
		if first.Before(since.Time) {
			first = last.LastAt
		}
		s = s.and(" ", span(first.Sub(since.Time)))
	}
	s = s.and(" after ", newer)
	if last.SupersededBy != "" {
		s = s.and(" (", theirs(last.SupersededBy), ")")
	}
	return s.and(" ", what)
}

// requested names what was refused.
func requested(r refused) sentence {
	words := map[string][3]string{
		publish.OperationUpload: {"upload", " of ", "uploads of %s files"}, publish.OperationDelete: {"deletion", " of ", "deletions of %s files"},
		publish.OperationEffect: {"effect", " ", "%s effects"},
	}
	word, known := words[r.last.Operation]
	switch {
	case !known:
		return say(r.last.Operation)
	case r.paths > 1:
		count := fmt.Sprint(r.paths)
		if r.atLeast {
			count += " or more"
		}
		return say(fmt.Sprintf(word[2], count))
	case r.last.Path != "":
		return say(word[0], word[1], theirs(r.last.Path))
	}
	return say(word[0])
}

func wasOrWere(count int64) string {
	if count > 1 {
		return "were"
	}
	return "was"
}

// looping tells that a stale request is, or was, sent again and again.
func looping(r publish.Rejection, still bool) sentence {
	who := say(theirs(r.Holder))
	if who == nil {
		who = say("Somebody")
	}
	who = who.and(" has repeated this ", r.Repeat, " times within ", span(r.LastAt.Sub(r.FirstAt.Time)))
	if still {
		return who.and(": it doesn't stop at exit 80.")
	}
	return who.and(": it didn't stop at exit 80.")
}
