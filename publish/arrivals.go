package publish

import (
	"context"
	"sync"
)

// arrivals keeps requests about one path in the order in which they came to this process, up to where the store gives them
// their numbers. A client that waits for no answers, as ffmpeg, sends a playlist again while the one before is still being looked
// at; without this either could count as the last one. Over several replicas there is no such order.
//
// The zero value is ready.
type arrivals struct {
	mu   sync.Mutex
	last map[place]chan struct{} // closed when the request that came last has left
}

// place is what is kept in order. It has the lease id, so that nobody but the holder can make the holder wait.
type place struct {
	grant Grant
	path  Path
}

// enter waits until everything that entered before has left, or ctx ends. leave must be called either way.
func (a *arrivals) enter(ctx context.Context, grant Grant, path Path) (leave func(), err error) {
	at, mine := place{grant, path}, make(chan struct{})
	a.mu.Lock()
	if a.last == nil {
		a.last = map[place]chan struct{}{}
	}
	before := a.last[at]
	a.last[at] = mine
	a.mu.Unlock()
	leave = func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		close(mine)
		if a.last[at] == mine {
			delete(a.last, at)
		}
	}
	if before == nil {
		return leave, nil
	}
	select {
	case <-before:
		return leave, nil
	case <-ctx.Done():
		return leave, ctx.Err()
	}
}

// begin is the store's BeginUpload, in order of arrival.
func (s *Service) begin(ctx context.Context, req BeginUploadRequest) (UploadStart, error) {
	leave, err := s.arrivals.enter(ctx, req.Grant, req.Path)
	defer leave()
	if err != nil {
		return UploadStart{}, err
	}
	return s.Pointers.BeginUpload(ctx, req)
}

// beginAs is begin for a file of a content type: the same bytes under another type are another file, so they are stored again.
func (s *Service) beginAs(ctx context.Context, req BeginUploadRequest, contentType string) (UploadStart, error) {
	leave, err := s.arrivals.enter(ctx, req.Grant, req.Path)
	defer leave()
	if err != nil {
		return UploadStart{}, err
	}
	start, err := s.Pointers.BeginUpload(ctx, req)
	if err == nil && start.Existing != nil && !start.Sealed && start.Existing.ContentType != contentType {
		req.Digest = Digest{}
		start, err = s.Pointers.BeginUpload(ctx, req)
	}
	return start, err
}
