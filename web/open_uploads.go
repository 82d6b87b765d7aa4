package web

import (
	"fmt"
	"sync"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// uploadsFullRetry is when to try again to send one upload too many.
const uploadsFullRetry = time.Second

// openUploads counts the uploads that each caller is sending through this server just now. Callers that send none are not in it, so it is
// no larger than the connections are many. It may be used from many goroutines at once.
type openUploads struct {
	most int // 0 is no limit

	mu sync.Mutex
	of map[string]int
}

// enter counts an upload in, or refuses it. leave must be called when it is over, unless it was refused.
func (o *openUploads) enter(caller string) (leave func(), err error) {
	if o.most == 0 {
		return func() {}, nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.of[caller] >= o.most {
		return nil, &publish.Error{
			Code: publish.ErrRateLimited, Limit: int64(o.most), RetryAfterMillis: uploadsFullRetry.Milliseconds(),
			Detail: fmt.Sprintf("%d uploads of yours are open at this server, which is all that PAWL_LIMIT_UPLOADS allows; send this one again when another has ended", o.most),
		}
	}
	if o.of == nil {
		o.of = map[string]int{}
	}
	o.of[caller]++
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.of[caller]--; o.of[caller] == 0 {
			delete(o.of, caller)
		}
	}, nil
}
