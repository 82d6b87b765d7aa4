//go:build unix

package devpg

// NotInstalledMessage is the text of ErrNotInstalled on another system.
func NotInstalledMessage(goos string) string { return notInstalled(goos) }
