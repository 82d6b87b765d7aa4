package pointer

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// place writes where to go on for the database's functions.
func place(after *publish.GenerationName) (key *string, token int64) {
	if after == nil {
		return nil, 0
	}
	name := string(after.Key)
	return &name, int64(after.Token)
}

const collectableSQL = `SELECT pawl.collectable($1, coalesce($2, ''), $3, $4, $5)`

// Collectable returns generations that may be condemned.
func (s *Store) Collectable(ctx context.Context, prefix string, grace time.Duration, after *publish.GenerationName, limit int) ([]publish.GenerationName, *publish.GenerationName, error) {
	key, token := place(after)
	var page struct {
		Found []publish.GenerationName `json:"found"`
		Next  *struct {
			Key   publish.Key `json:"key"`
			Token int64       `json:"token"` // 0 is none: a key is still to be begun
		} `json:"next"`
	}
	_, err := s.read(ctx, &page, collectableSQL, prefix, key, token, grace.Milliseconds(), limit)
	if err != nil || page.Next == nil {
		return page.Found, nil, err
	}
	return page.Found, &publish.GenerationName{Key: page.Next.Key, Token: publish.Token(page.Next.Token)}, nil
}

const condemnSQL = `SELECT pawl.condemn($1, $2, $3)`

// Condemn gives a generation up.
func (s *Store) Condemn(ctx context.Context, name publish.GenerationName, grace time.Duration) (bool, error) {
	answer, err := s.change(ctx, condemnSQL, string(name.Key), int64(name.Token), grace.Milliseconds())
	return answer.Done, err
}

const dueGenerationsSQL = `SELECT pawl.due_generations($1, $2, $3, $4)`

// DueGenerations returns generations whose objects are to be deleted.
func (s *Store) DueGenerations(ctx context.Context, after *publish.DueGeneration, limit int) (due []publish.DueGeneration, err error) {
	var since *time.Time
	var key *string
	var token int64
	if after != nil {
		since = &after.Since
		key, token = place(&after.GenerationName)
	}
	_, err = s.read(ctx, &due, dueGenerationsSQL, since, key, token, limit)
	return due, err
}

const referencedSQL = `SELECT pawl.referenced($1, $2, $3, $4)`

// Referenced tells which objects of a condemned generation others name.
func (s *Store) Referenced(ctx context.Context, name publish.GenerationName, objects []publish.StoredUpload) ([]bool, error) {
	ids, paths := make([][]byte, len(objects)), make([]string, len(objects))
	for i, object := range objects {
		ids[i], paths[i] = object.ID[:], string(object.Path)
	}
	var places []int
	if _, err := s.read(ctx, &places, referencedSQL, string(name.Key), int64(name.Token), ids, paths); err != nil {
		return nil, err
	}
	referenced := make([]bool, len(objects))
	for _, place := range places {
		referenced[place-1] = true
	}
	return referenced, nil
}

const emptiedSQL = `SELECT pawl.emptied($1, $2, $3, $4)`

// Emptied notes that a generation has no object left.
func (s *Store) Emptied(ctx context.Context, due publish.DueGeneration, late time.Duration) (bool, error) {
	answer, err := s.change(ctx, emptiedSQL, string(due.Key), int64(due.Token), due.Since, late.Milliseconds())
	return answer.Done, err
}

const takeDutySQL = `SELECT pawl.take_duty($1, $2, $3)`

// TakeDuty gives a duty to a holder.
func (s *Store) TakeDuty(ctx context.Context, duty, holder string, ttl time.Duration) (bool, error) {
	answer, err := s.change(ctx, takeDutySQL, duty, holder, ttl.Milliseconds())
	return answer.Done, err
}

const leaveDutySQL = `SELECT pawl.leave_duty($1, $2)`

// LeaveDuty gives a duty back.
func (s *Store) LeaveDuty(ctx context.Context, duty, holder string) error {
	_, err := s.change(ctx, leaveDutySQL, duty, holder)
	return err
}
