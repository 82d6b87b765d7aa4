package publish

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// keptCompletion is how long the end of a completion is kept for a client that doesn't wait for it just then.
const keptCompletion = time.Minute

// completions are the verifications of direct uploads that are under way in this process. They go on when their clients leave, so that one
// which takes longer than a proxy waits still comes to its end. The zero value is ready.
type completions struct {
	mu      sync.Mutex
	running map[UploadID]*completion
	end     func() // of all that run
	base    context.Context
	group   sync.WaitGroup
}

// completion is one of them. result and err may be read when done is closed.
type completion struct {
	id       UploadID
	done     chan struct{}
	result   UploadResult
	err      error
	verified atomic.Int64 // bytes
}

// of returns the completion of an upload that is running or has just ended. For a pending upload without one, it starts
// work; for another one it returns nil.
func (cs *completions) of(ctx context.Context, upload DirectUpload, work func(context.Context, *completion) (UploadResult, error)) *completion {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if c := cs.running[upload.ID]; c != nil || upload.State != UploadPending {
		return c
	}
	cs.init()
	c := &completion{id: upload.ID, done: make(chan struct{})}
	cs.running[upload.ID] = c
	// The values of the request go along, not its end.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(cs.base, cancel)
	cs.group.Go(func() {
		defer cancel()
		defer stop()
		c.result, c.err = work(ctx, c)
		close(c.done)
		time.AfterFunc(keptCompletion, func() { cs.forget(c) })
	})
	return c
}

func (cs *completions) init() {
	if cs.running == nil {
		cs.running = map[UploadID]*completion{}
		cs.base, cs.end = context.WithCancel(context.Background())
	}
}

// forget drops a completion whose end somebody has learned. What comes later starts anew, from what the store says.
func (cs *completions) forget(c *completion) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.running[c.id] == c {
		delete(cs.running, c.id)
	}
}

// Close ends the verifications of direct uploads that are under way, and the notes of who uses a credential, and waits for them. The uploads stay
// pending: completing them again, at any replica, goes on. The Service takes no more of either.
func (s *Service) Close() {
	s.callers.close()
	s.sessions.close()
	cs := &s.completions
	cs.mu.Lock()
	cs.init()
	cs.end()
	cs.mu.Unlock()
	cs.group.Wait()
}
