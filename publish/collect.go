package publish

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// DefaultCollectGrace is how long a replaced generation stays readable at least: long enough for a reader that has resolved it.
	DefaultCollectGrace = 24 * time.Hour
	// DefaultKeepUnpublished is how long a generation that was never published is kept where no policy says so.
	DefaultKeepUnpublished = 7 * 24 * time.Hour
	// collectLate is when a generation is looked at once more. What was signed before it was condemned has expired then, and a request that had begun
	// by that time is given the rest of a day.
	collectLate = 24 * time.Hour
	// collectPage is how many keys and generations, or objects, are looked at in one round trip.
	collectPage = 1000
	// collectParallel is how many generations are emptied at once, and how many objects of each are deleted at once.
	collectParallel = 4
	// collectGivesUp is how many failures in a row end a collection: a store is away then.
	collectGivesUp = 20
)

// CollectOptions say what a collection may take.
type CollectOptions struct {
	// Prefix is the key, or what lies below it; "" is all.
	Prefix string
	// Grace is how long every generation is kept, whatever the policies say: a published one since it was superseded, others since the last
	// sign of work. 0 is none at all; see DefaultCollectGrace.
	Grace time.Duration
	// Late is after how long a generation that was emptied is looked at once more; 0 means 24 h. Nothing that was signed before it was condemned
	// may be of use by then.
	Late time.Duration
	// DryRun changes nothing. What several generations share counts as kept, even if all of them would go.
	DryRun bool
	// Rate is how many objects may be deleted in a second; 0 is no limit.
	Rate int
	// Limit is how many generations may be condemned; 0 is no limit. What was condemned before is emptied in any case.
	Limit int
}

// CollectReport tells what a collection did, or would do.
type CollectReport struct {
	Condemned int   `json:"condemned"` // generations given up
	Collected int   `json:"collected"` // generations, condemned now or earlier, that have no object of their own left
	Objects   int   `json:"objects"`   // deleted
	Bytes     int64 `json:"bytes"`     // of deleted objects
	Aborted   int   `json:"aborted"`   // unfinished uploads that were removed
	Errors    int   `json:"errors"`    // what could not be deleted; it is tried again by the next collection
	More      bool  `json:"more"`      // Limit, or a store that is away, has ended it early
}

// Collect gives up generations that neither a policy nor the grace keeps, and deletes what no kept generation references of those that were
// given up. It may be killed at any point: what is condemned is found again by the next collection, of any process.
//
// Several may run at once, and one that was stopped for a day may go on: each deletes objects of condemned generations alone, of which it has seen that
// no kept generation references them, and neither is ever undone. It is needless work, no danger.
//
// What can't be deleted is logged and counted. The error is about the pointer store or the context; the report tells what was done before.
func (s *Service) Collect(ctx context.Context, opts CollectOptions) (CollectReport, error) {
	if opts.Late <= 0 {
		opts.Late = collectLate
	}
	c := &collection{Service: s, opts: opts, pace: newPace(opts.Rate)}
	err := c.run(ctx)
	if r := c.report; r != (CollectReport{}) && !opts.DryRun {
		s.log().InfoContext(ctx, "collected", "condemned", r.Condemned, "collected", r.Collected, "objects", r.Objects, "bytes", r.Bytes,
			"aborted", r.Aborted, "errors", r.Errors, "more", r.More)
	}
	return c.report, err
}

// collection is one run of Collect.
type collection struct {
	*Service
	opts CollectOptions
	pace *pace

	mu     sync.Mutex // for what follows
	report CollectReport
	inRow  int // failures without a success between
}

// run empties what is due, then condemns page by page and empties each before it goes on.
func (c *collection) run(ctx context.Context) error {
	if err := c.emptyDue(ctx); err != nil {
		return err
	}
	var after *GenerationName
	for {
		found, next, err := c.Pointers.Collectable(ctx, c.opts.Prefix, c.opts.Grace, after, collectPage)
		if err != nil {
			return fmt.Errorf("looking for what may be collected: %w", err)
		}
		if left := c.opts.Limit - c.report.Condemned; c.opts.Limit > 0 && len(found) > left {
			found, next, c.report.More = found[:left], nil, true
		}
		if err := c.giveUp(ctx, found); err != nil {
			return err
		}
		switch {
		case c.stopped():
			c.report.More = true
			return nil
		case next == nil:
			return nil
		}
		after = next
	}
}

// giveUp condemns generations and empties them. A crash between leaves them condemned, which is due.
func (c *collection) giveUp(ctx context.Context, found []GenerationName) error {
	if c.opts.DryRun {
		c.report.Condemned += len(found)
		return inParallel(found, func(name GenerationName) error {
			_, err := c.empty(ctx, name)
			return err
		})
	}
	err := inParallel(found, func(name GenerationName) error {
		condemned, err := c.Pointers.Condemn(ctx, name, c.opts.Grace)
		if err == nil && condemned {
			c.count(func(r *CollectReport) { r.Condemned++ })
		}
		if refusal := refusalOf(err, ErrUnavailable); refusal != nil && ctx.Err() == nil {
			// Who holds the key's lock keeps it from being condemned now. If it is the database that is away, that adds up.
			c.failed(ctx, name, "", err)
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("condemning: %w", err)
	}
	if len(found) == 0 {
		return nil
	}
	return c.emptyDue(ctx)
}

// emptyDue empties all that is due at its start, and what becomes due by that.
func (c *collection) emptyDue(ctx context.Context) error {
	var after *DueGeneration
	for !c.stopped() {
		due, err := c.Pointers.DueGenerations(ctx, after, collectPage)
		if err != nil {
			return fmt.Errorf("looking for condemned generations: %w", err)
		}
		// What these have referenced becomes due later than they did, so it is found on the way.
		err = inParallel(due, func(d DueGeneration) error {
			if c.stopped() || !covers(c.opts.Prefix, d.Key) {
				return ctx.Err()
			}
			return c.emptyOne(ctx, d)
		})
		if err != nil {
			return err
		}
		if len(due) == 0 {
			return nil
		}
		after = &due[len(due)-1]
	}
	return nil
}

// emptyOne empties one generation and notes it, unless something could not be deleted.
func (c *collection) emptyOne(ctx context.Context, due DueGeneration) error {
	whole, err := c.empty(ctx, due.GenerationName)
	if err != nil || !whole || c.opts.DryRun {
		return err
	}
	done, err := c.Pointers.Emptied(ctx, due, c.opts.Late)
	if err != nil {
		return fmt.Errorf("noting that %s is empty: %w", due.objects(), err)
	}
	if done {
		c.count(func(r *CollectReport) { r.Collected++ })
	}
	return nil
}

// covers reports whether a key is prefix or lies below it.
func covers(prefix string, key Key) bool {
	return prefix == "" || string(key) == prefix || len(key) > len(prefix) && string(key[:len(prefix)+1]) == prefix+"/"
}

func (c *collection) count(change func(*CollectReport)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.report)
	c.inRow = 0
}

func (c *collection) failed(ctx context.Context, name GenerationName, object ObjectName, err error) {
	c.log().WarnContext(ctx, "collect_failed", "key", name.Key, "token", name.Token, "object", object, "error", err)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.report.Errors++
	c.inRow++
}

func (c *collection) stopped() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.inRow >= collectGivesUp
}
