package publish_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/pawlhq/pawl/publish"
)

// records is Postgres as far as it knows its store. fail is called before each step, with its name; an error ends it, for
// the step with "lost" in front after it was done.
type records struct {
	mu     sync.Mutex
	record publish.StoreRecord
	fail   func(step string) error
}

func (r *records) do(step string, change func()) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fail != nil {
		if err := r.fail(step); err != nil {
			return err
		}
	}
	change()
	if r.fail != nil {
		return r.fail("lost " + step)
	}
	return nil
}

func (r *records) RecordedStore(context.Context) (record publish.StoreRecord, err error) {
	err = r.do("recorded", func() { record = r.record })
	return record, err
}

func (r *records) ProposeStore(_ context.Context, id publish.StoreID) (record publish.StoreRecord, err error) {
	err = r.do("propose", func() {
		if r.record.ID == "" {
			r.record.ID = id
		}
		record = r.record
	})
	return record, err
}

func (r *records) ConfirmStore(_ context.Context, id publish.StoreID) error {
	return r.do("confirm", func() { r.record.Confirmed = r.record.ID == id })
}

func (r *records) AdoptStore(_ context.Context, id publish.StoreID) error {
	return r.do("adopt", func() { r.record = publish.StoreRecord{ID: id, Confirmed: true} })
}

// marked is a blob store as far as it bears a mark.
type marked struct {
	records // for do
	mark    publish.StoreID
}

func (m *marked) Mark(context.Context) (mark publish.StoreID, err error) {
	err = m.do("mark", func() { mark = m.mark })
	if err == nil && mark == "" {
		err = publish.ErrObjectNotFound
	}
	return mark, err
}

func (m *marked) SetMark(_ context.Context, id publish.StoreID) error {
	taken := false
	err := m.do("set", func() {
		if taken = m.mark != ""; !taken {
			m.mark = id
		}
	})
	if err == nil && taken {
		err = publish.ErrObjectExists
	}
	return err
}

func TestMatchStore(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	database, store := &records{}, &marked{}
	if id, err := publish.CompareStore(ctx, database, store); id != "" || err != nil {
		t.Fatalf("before the first start: %q, %v", id, err)
	}
	id, err := publish.MatchStore(ctx, database, store)
	if err != nil || !id.Valid() || store.mark != id || !database.record.Confirmed {
		t.Fatalf("the first start: %q, %v", id, err)
	}
	for range 2 {
		if again, err := publish.MatchStore(ctx, database, store); again != id || err != nil {
			t.Fatalf("a later start: %q, %v", again, err)
		}
	}
	other := &marked{mark: publish.NewStoreID()}
	for what, pair := range map[string]struct {
		database *records
		store    *marked
		text     string
	}{
		"another store":                {database, other, "bears the mark " + string(other.mark) + ", but the database has recorded store " + string(id)},
		"a store without a mark":       {database, &marked{}, "bears no mark, but the database has recorded store " + string(id)},
		"a new database, a used store": {&records{}, &marked{mark: id}, "bears the mark " + string(id) + " of another database"},
	} {
		mark, confirmed := pair.store.mark, pair.database.record.Confirmed
		_, err := publish.MatchStore(ctx, pair.database, pair.store)
		_, compared := publish.CompareStore(ctx, pair.database, pair.store)
		for _, err := range []error{err, compared} {
			var refused *publish.OtherStoreError
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), pair.text) {
				t.Errorf("%s: %v, want %q", what, err, pair.text)
			}
		}
		if pair.store.mark != mark || pair.database.record.Confirmed != confirmed {
			t.Errorf("%s: something was changed", what)
		}
	}

	// Adopting makes any pair one.
	for what, pair := range map[string]struct {
		database *records
		store    *marked
	}{
		"another store": {database, other}, "a store without a mark": {&records{record: database.record}, &marked{}}, "a new database": {&records{}, &marked{mark: id}},
	} {
		mark := pair.store.mark
		adopted, err := publish.AdoptStore(ctx, pair.database, pair.store)
		if err != nil || pair.store.mark != adopted || mark != "" && adopted != mark {
			t.Errorf("adopting %s: %q, %v", what, adopted, err)
		}
		if again, err := publish.MatchStore(ctx, pair.database, pair.store); again != adopted || err != nil {
			t.Errorf("after adopting %s: %q, %v", what, again, err)
		}
	}
}

// TestMatchStoreCrashes ends the first start at each of its steps, before it is done and after. The next start goes on.
func TestMatchStoreCrashes(t *testing.T) {
	t.Parallel()
	crash := errors.New("crash")
	for _, step := range []string{"propose", "lost propose", "mark", "set", "lost set", "confirm", "lost confirm"} {
		database, store := &records{}, &marked{}
		fail := func(at string) error {
			if at == step {
				return crash
			}
			return nil
		}
		database.fail, store.fail = fail, fail
		if _, err := publish.MatchStore(t.Context(), database, store); !errors.Is(err, crash) && step != "lost set" {
			t.Errorf("%s: %v", step, err) // When only the answer to the mark was lost, the mark itself tells.
		}
		database.fail, store.fail = nil, nil
		if id, err := publish.MatchStore(t.Context(), database, store); err != nil || store.mark != id || !database.record.Confirmed {
			t.Errorf("after %s: %q, %v", step, id, err)
		}
	}
}
