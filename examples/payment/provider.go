package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
)

// charge is what the provider answers.
type charge struct {
	ID    string `json:"id"`
	Cents int    `json:"cents"`
}

// provider is a payment provider as they come: it knows nothing of leases and tokens, but charges once for each idempotency key, and
// answers a repeat as it answered the first time.
type provider struct {
	mu       sync.Mutex
	requests int
	charges  map[string]charge // by idempotency key
}

// ServeHTTP takes POST {"cents": n} with an Idempotency-Key.
func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var order charge
	key := r.Header.Get("Idempotency-Key")
	if err := json.NewDecoder(r.Body).Decode(&order); err != nil || key == "" || r.Method != http.MethodPost {
		http.Error(w, "want a POST of JSON with an Idempotency-Key", http.StatusBadRequest)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests++
	made, known := p.charges[key]
	switch {
	case known && made.Cents != order.Cents:
		http.Error(w, "this Idempotency-Key came with another order before", http.StatusUnprocessableEntity)
		return
	case known:
		w.Header().Set("Idempotent-Replayed", "true")
	default:
		made = charge{ID: fmt.Sprintf("ch_%d", len(p.charges)+1), Cents: order.Cents}
		p.charges[key] = made
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(made) //nolint:errcheck // Whoever misses the answer asks again.
}

// counts tells how many requests came, and how many charges they led to.
func (p *provider) counts() (requests, charges int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests, len(p.charges)
}
