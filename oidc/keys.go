package oidc

import (
	"context"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/pawlhq/pawl/publish"
)

const (
	// keysFresh is how long keys are used without looking whether the issuer has taken one back.
	keysFresh = 15 * time.Minute
	// fetchPause lies between two questions to an issuer whose keys are held. So who makes up names of keys can't make this server a burden to it.
	fetchPause = time.Minute
	// firstPause lies between two attempts to get any keys at all.
	firstPause = 5 * time.Second
)

// keys holds what an issuer has published, and asks it again when that is old or a token names a key that isn't there. The first question is asked when the first
// token comes. What is held is used for as long as the issuer can't be asked. Its methods may be called from many goroutines at once; one at a time asks.
type keys struct {
	issuer string
	fetch  func(context.Context) (*published, error)
	now    func() time.Time

	mu      sync.Mutex
	held    *published // nil until there is something
	fetched time.Time  // when it came
	tried   time.Time  // when the last attempt ended
	failed  error      // of the last attempt
	running chan struct{}
}

// find gives the keys that may have signed a token: all of them if it names none, and none if the issuer has no such key. The error is an *publish.Error of kind
// unavailable where nobody can say.
func (k *keys) find(ctx context.Context, keyID string) ([]jose.JSONWebKey, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for {
		now := k.now()
		found := k.named(keyID)
		switch {
		case len(found) > 0 && (now.Sub(k.fetched) < keysFresh || k.running != nil || !k.due(now)):
			return found, nil
		case k.running != nil:
			if err := k.wait(ctx); err != nil {
				return nil, k.unavailable(err)
			}
		case k.due(now):
			k.ask(ctx)
		case k.failed != nil:
			return nil, k.unavailable(k.failed)
		default:
			return nil, nil
		}
	}
}

// provider gives what the issuer's discovery document says, which is fetched with the keys.
func (k *keys) provider(ctx context.Context) (*published, error) {
	if _, err := k.find(ctx, ""); err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.held, nil
}

// named are the held keys of a name.
func (k *keys) named(keyID string) []jose.JSONWebKey {
	if k.held == nil || keyID == "" {
		if k.held == nil {
			return nil
		}
		return k.held.keys
	}
	var found []jose.JSONWebKey
	for _, key := range k.held.keys {
		if key.KeyID == keyID {
			found = append(found, key)
		}
	}
	return found
}

// due reports whether the issuer may be asked.
func (k *keys) due(now time.Time) bool {
	pause := fetchPause
	if k.held == nil {
		pause = firstPause
	}
	return k.tried.IsZero() || now.Sub(k.tried) >= pause
}

// ask asks the issuer, with the lock given back meanwhile. It goes on when the request that it began with is given up, since others wait for it.
func (k *keys) ask(ctx context.Context) {
	k.running = make(chan struct{})
	k.mu.Unlock()
	var got *published
	err := context.Canceled // what stays if fetch panics
	defer func() {
		k.mu.Lock()
		k.tried, k.failed = k.now(), err
		if err == nil {
			k.held, k.fetched = got, k.tried
		}
		close(k.running)
		k.running = nil
	}()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*fetchTimeout)
	defer cancel()
	got, err = k.fetch(ctx)
}

// wait waits for the end of the attempt that goes on, with the lock given back meanwhile.
func (k *keys) wait(ctx context.Context) error {
	running := k.running
	k.mu.Unlock()
	defer k.mu.Lock()
	select {
	case <-running:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (k *keys) unavailable(cause error) error {
	return publish.Unavailable("the issuer "+k.issuer, cause)
}
