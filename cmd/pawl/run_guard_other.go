//go:build unix && !linux

package main

import (
	"errors"
	"os/exec"
)

// Only Linux lets a guard find all descendants. Elsewhere the command is a child of this process, in a group of its own.
func canGuard() bool { return false }

func inForeground() bool { return false }

func startGuarded(*exec.Cmd, bool) (*command, error) { return nil, errors.ErrUnsupported }

func guard([]string) (code int, asked bool) { return 0, false }
