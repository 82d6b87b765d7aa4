//go:build unix && !linux

package child

import "syscall"

// setOrphanSignal does nothing: only Linux can signal a child at its parent's death.
func setOrphanSignal(*syscall.SysProcAttr, syscall.Signal) {}
