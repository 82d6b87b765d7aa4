package publishtest

import (
	"context"
	"errors"
	"sync"

	"github.com/pawlhq/pawl/publish"
)

// ErrInjected is the cause of every injected failure that names no error of its own.
var ErrInjected = errors.New("publishtest: injected fault")

// Fault is one thing to go wrong in a double.
type Fault struct {
	// Operation is the method that it happens in, e.g. "Publish".
	Operation string
	// Times is how many calls it happens to; 0 means one, a negative number all.
	Times int
	// Applied lets the call be carried out and then loses its answer. Otherwise nothing is changed.
	Applied bool
	// Err is what the caller gets. nil means outcome-unknown when Applied, else unavailable.
	Err error
	// Before is called at the start of the call, e.g. to block it until a test goes on or ctx ends. A fault with
	// nothing but Before lets the call succeed.
	Before func(ctx context.Context)
}

// Faults makes the calls of a double fail. The zero value makes none fail. It may be used from many goroutines at once.
type Faults struct {
	mu    sync.Mutex
	armed []Fault
	calls map[string]int
}

// Add arms a fault. Faults of one operation happen in the order in which they were added.
func (f *Faults) Add(fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fault.Times = max(fault.Times, -1)
	if fault.Times == 0 {
		fault.Times = 1
	}
	f.armed = append(f.armed, fault)
}

// Clear disarms all faults.
func (f *Faults) Clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed = nil
}

// Calls is how often an operation was called.
func (f *Faults) Calls(operation string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[operation]
}

// AllCalls is how often any operation was called.
func (f *Faults) AllCalls() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, calls := range f.calls {
		n += calls
	}
	return n
}

// Do carries out one call of a double, with the fault that is armed for it if there is one.
func (f *Faults) Do(ctx context.Context, operation string, call func() error) error {
	fault := f.take(operation)
	if fault.Before != nil {
		fault.Before(ctx)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if fault.Before != nil && fault.Err == nil && !fault.Applied {
		fault.Operation = ""
	}
	switch {
	case fault.Operation == "":
		return call()
	case !fault.Applied && fault.Err == nil:
		return publish.Unavailable("the store", ErrInjected)
	case !fault.Applied:
		return fault.Err
	}
	_ = call() // Its answer is what gets lost.
	if fault.Err != nil {
		return fault.Err
	}
	return &publish.Error{Code: publish.ErrOutcomeUnknown, Detail: "the answer was lost; repeat the request", Cause: ErrInjected}
}

// take counts a call and uses up one time of the first fault that is armed for it.
func (f *Faults) take(operation string) Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.calls == nil {
		f.calls = map[string]int{}
	}
	f.calls[operation]++
	for i, fault := range f.armed {
		if fault.Operation != operation || fault.Times == 0 {
			continue
		}
		if fault.Times > 0 {
			f.armed[i].Times--
		}
		return fault
	}
	return Fault{}
}
