package client

import (
	"fmt"
	"os"
	"testing"
	"time"
)

// The kernel tells the same clock in another place: /proc/uptime counts suspension, too (proc(5)).
func TestBootClock(t *testing.T) {
	t.Parallel()
	boot := bootClock()
	if boot == nil {
		t.Fatal("this kernel's boot-time clock can't be read")
	}
	text, err := os.ReadFile("/proc/uptime")
	if err != nil {
		t.Fatal(err)
	}
	var seconds float64
	if _, err := fmt.Sscan(string(text), &seconds); err != nil {
		t.Fatal(err)
	}
	if apart := boot() - time.Duration(seconds*float64(time.Second)); apart.Abs() > 2*time.Second {
		t.Errorf("it is %s apart from the system's uptime", apart)
	}
}
