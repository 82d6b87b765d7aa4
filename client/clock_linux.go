package client

import (
	"syscall"
	"time"
	"unsafe"
)

// clockBoottime is CLOCK_BOOTTIME of clock_gettime(2): monotonic, and it goes on while the system is suspended.
const clockBoottime = 7

// bootClock returns the kernel's boot-time clock, or nil where it can't be read, as in some sandboxes.
func bootClock() clock {
	if _, ok := readBootTime(); !ok {
		return nil
	}
	return func() time.Duration {
		// What could be read once can be read again: the call knows no passing faults.
		t, _ := readBootTime()
		return t
	}
}

func readBootTime() (time.Duration, bool) {
	var t syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&t)), 0)
	return time.Duration(t.Nano()), errno == 0
}
