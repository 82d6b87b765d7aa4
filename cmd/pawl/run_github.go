package main

import (
	"crypto/rand"
	"fmt"
	"os"
	"strings"
)

// tellGitHub appends the result to the outputs of the step, when this is one of GitHub Actions. The value of each output stands
// between two lines of a random delimiter, so that no name of a key or file can end it early and begin another output.
// https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands#multiline-strings
func (a *app) tellGitHub(result runResult) error {
	path := a.getenv("GITHUB_OUTPUT")
	if a.getenv("GITHUB_ACTIONS") != "true" || path == "" {
		return nil
	}
	delimiter := "pawl_" + rand.Text()
	var text strings.Builder
	add := func(name string, value any) {
		fmt.Fprintf(&text, "%s<<%s\n%v\n%s\n", name, delimiter, value, delimiter)
	}
	add("pawl-outcome", result.Outcome)
	add("pawl-exit-code", result.ExitCode)
	if result.Key != "" {
		add("pawl-key", result.Key)
	}
	if result.Token != 0 {
		add("pawl-token", result.Token)
	}
	if r := result.Receipt; r != nil {
		add("pawl-revision", r.Revision)
		add("pawl-manifest-digest", r.ManifestDigest)
		if result.url != "" {
			add("pawl-url", result.url)
		}
	}
	if err := appendLines(path, text.String()); err != nil {
		return fmt.Errorf("GITHUB_OUTPUT: %w", err)
	}
	return nil
}

// appendLines appends whole lines to a file. What stands there may lack its last line's end.
func appendLines(path, lines string) (err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := file.Close(); err == nil {
			err = closeErr
		}
	}()
	if info, err := file.Stat(); err == nil && info.Mode().IsRegular() && info.Size() > 0 {
		last := []byte{0}
		if _, err := file.ReadAt(last, info.Size()-1); err != nil {
			return err
		}
		if last[0] != '\n' {
			lines = "\n" + lines
		}
	}
	_, err = file.WriteString(lines)
	return err
}
