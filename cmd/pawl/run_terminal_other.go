//go:build unix && !linux

package main

// terminalState isn't needed here: the command never has the terminal, see inForeground.
type terminalState struct{}

func terminalNow() *terminalState { return nil }

func (*terminalState) restore() {}
