package pointer_test

import "testing"

// An upload that started first and was seen last: its row is committed after a later upload of its path was complete. Whatever
// becomes of it, it blocks nothing, and the later one counts.
func TestLateRowOfAnEarlierUpload(t *testing.T) {
	t.Parallel()
	a, slow, _ := race(t)
	early := slow.call(beginCall, raceKey, "A", 1, "twice")
	a.put("A", 1, "twice")
	a.commit()
	slow.commit()
	a.begin()
	slow.begin()
	published := a.call(publishCall, raceKey, "A", 1)
	wantCode(t, "publish", published, "")
	if published.Receipt.Files != 2 {
		t.Errorf("the set has %d files, want 2", published.Receipt.Files)
	}
	a.commit()
	if late := slow.call(completeCall, raceKey, "A", 1, "twice", early.Number); late.code() != "generation-sealed" {
		t.Errorf("the early upload ends after the publish: %+v", late)
	}
}
