package web

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// failedSignIns is how many sign-ins of one client may fail in a minute. Further ones are refused, good ones too: else a guess would go on being answered.
	// What shows a credential or a session in each request isn't held up by it.
	failedSignIns = 5
	// waitingSignIns bounds how many of one client wait at once until others have ended, and signInPatience how long each does: an issuer may take some seconds.
	waitingSignIns = 32
	signInPatience = 10 * time.Second
)

// signInLimit bounds how many sign-ins of one client fail: each of them takes one out of the client's bucket. No more are under way than the bucket has in it, so that
// many guesses at once don't get past it; the others wait for their turn. Good ones cost nothing. Its methods may be called from many goroutines at once.
type signInLimit struct {
	failures *rateLimit

	mu     sync.Mutex
	queues map[string]*signInQueue // of the clients that have sign-ins under way
}

// signInQueue is what one client has under way. The limit's lock guards it.
type signInQueue struct {
	failures         *rate.Limiter
	running, waiting int
	ended            chan struct{} // closed when one of them ends
}

func newSignInLimit() *signInLimit {
	return &signInLimit{failures: newRateLimit(failedSignIns/time.Minute.Seconds(), failedSignIns), queues: map[string]*signInQueue{}}
}

// signInAttempt is one that is under way. Who has begun it ends it.
type signInAttempt struct {
	limit  *signInLimit
	client string
	queue  *signInQueue
	now    func() time.Time
}

// begin lets an attempt of a client begin, when it may. wait is how long to wait, if it may not: then nothing is counted, and nothing is to be ended.
func (l *signInLimit) begin(ctx context.Context, client string, now func() time.Time) (_ *signInAttempt, wait time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, signInPatience)
	defer cancel()
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.forget(client)
	for {
		queue := l.queueOf(client)
		left := queue.failures.TokensAt(now())
		switch {
		case left < 1:
			return nil, time.Duration((1-left)/float64(l.failures.limit)*float64(time.Second)) + 1 // never 0
		case queue.running < int(left):
			queue.running++
			return &signInAttempt{limit: l, client: client, queue: queue, now: now}, 0
		case queue.waiting >= waitingSignIns || ctx.Err() != nil:
			return nil, time.Second
		}
		l.await(ctx, queue)
	}
}

// queueOf finds the queue of a client, or makes one.
func (l *signInLimit) queueOf(client string) *signInQueue {
	queue := l.queues[client]
	if queue == nil {
		queue = &signInQueue{failures: l.failures.bucketOf(client), ended: make(chan struct{})}
		l.queues[client] = queue
	}
	return queue
}

// forget drops the queue of a client that has nothing under way.
func (l *signInLimit) forget(client string) {
	if queue := l.queues[client]; queue.running == 0 && queue.waiting == 0 {
		delete(l.queues, client)
	}
}

// await waits until an attempt ends, with the lock given back meanwhile.
func (l *signInLimit) await(ctx context.Context, queue *signInQueue) {
	ended := queue.ended
	queue.waiting++
	l.mu.Unlock()
	select {
	case <-ended:
	case <-ctx.Done():
	}
	l.mu.Lock()
	queue.waiting--
}

// fail counts an attempt as failed. The bucket has one for each that is under way.
func (a *signInAttempt) fail() { a.queue.failures.AllowN(a.now(), 1) }

// end ends an attempt, so that another one may begin.
func (a *signInAttempt) end() {
	a.limit.mu.Lock()
	defer a.limit.mu.Unlock()
	close(a.queue.ended)
	a.queue.ended = make(chan struct{})
	a.queue.running--
	a.limit.forget(a.client)
}
