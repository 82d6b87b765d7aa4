package client

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
)

// maxCredentialBytes bounds a file that is said to hold a credential, or a token of another issuer: servers take none that is longer.
const maxCredentialBytes = 16 << 10

// ErrCredentialFile is the kind of New's error when Options.CredentialFile can't be read, or holds no credential.
var ErrCredentialFile = errors.New("credential file")

// credential is what the client shows of itself: a text that was given, or what a file holds. It may be used from many goroutines at once.
type credential struct {
	file string // "" for one that was given

	mu   sync.Mutex
	text string // given, or last read
}

// newCredential looks whether the credential is there, and can be a header.
func newCredential(text, file string) (*credential, error) {
	switch {
	case text != "" && file != "":
		return nil, errors.New("both Credential and CredentialFile are set; set one of them")
	case file == "":
		return &credential{text: text}, nil
	}
	text, err := readCredential(file)
	if err != nil {
		return nil, err
	}
	return &credential{file: file, text: text}, nil
}

// current is the credential of now, "" for none. The file is read each time: that costs less than to find out whether it has changed. While it is being replaced
// it may be missing or empty for a moment: then the credential from before goes on.
func (c *credential) current() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.file != "" {
		if text, err := readCredential(c.file); err == nil {
			c.text = text
		}
	}
	return c.text
}

// readCredential reads a file. What it holds shows in no error.
func readCredential(file string) (string, error) {
	source, err := os.Open(file)
	if err != nil {
		return "", fmt.Errorf("%w: %w; name a file that can be read", ErrCredentialFile, err)
	}
	defer source.Close() //nolint:errcheck // It was only read.
	content, err := io.ReadAll(io.LimitReader(source, maxCredentialBytes+1))
	if err != nil {
		return "", fmt.Errorf("%w: %w; name a file that can be read", ErrCredentialFile, err)
	}
	text := strings.TrimSpace(string(content))
	if text == "" || len(content) > maxCredentialBytes || strings.ContainsFunc(text, func(r rune) bool { return r < '!' || r > '~' }) {
		return "", fmt.Errorf("%w: %s must hold the credential on its only line, in printable ASCII without spaces", ErrCredentialFile, file)
	}
	return text, nil
}
