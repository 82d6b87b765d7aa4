package main

import (
	"fmt"
	"os"
	"strings"
	"sync"
)

// credential finds the credential, which never stands on a command line, and gives what to ask for it before each request.
func (a *app) credential() (func() (string, error), error) {
	path := a.client.credentialFile
	if path == "" {
		if credential := a.getenv("PAWL_CREDENTIAL"); credential != "" {
			return func() (string, error) { return credential, nil }, nil
		}
		path = a.getenv("PAWL_CREDENTIAL_FILE")
	}
	if path == "" {
		return nil, nil
	}
	file := &credentialFile{path: path}
	if err := file.read(); err != nil {
		return nil, configError{fmt.Errorf("PAWL_CREDENTIAL_FILE: %w; name a file that can be read", err)}
	}
	return file.credential, nil
}

// credentialFile is a file that holds a credential, or a token of a platform that puts a new one there while a command runs: Kubernetes does every
// hour or so. It is small, so it is read for each request.
type credentialFile struct {
	path string

	mu   sync.Mutex
	last string
}

// read takes over what the file holds.
func (f *credentialFile) read() error {
	text, err := os.ReadFile(f.path)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	// Who writes a file anew may empty it first.
	if credential := strings.TrimSpace(string(text)); credential != "" {
		f.last = credential
	}
	return nil
}

// credential gives what the file holds, or has held last: one that can't be read just now must not end a long run whose credential is still good.
func (f *credentialFile) credential() (string, error) {
	_ = f.read() //nolint:errcheck // The server says what it thinks of the last one.
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last, nil
}
