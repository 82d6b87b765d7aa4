//go:build !linux

package client

// bootClock returns nil: this system has no boot-time clock that the standard library can read.
func bootClock() clock { return nil }
