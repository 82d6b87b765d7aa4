// Package publishtest holds stores to the contracts of package publish, and stands in for them: TestPointerStore and
// TestBlobStore are the suites that every store must pass, Pointers and Blobs are stores in memory that pass them, and
// Faults makes these fail, before or after a call was carried out.
package publishtest
