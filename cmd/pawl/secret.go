package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// secretSetting is a setting that must not show. It stands in a variable, or in a file: the one that the variable's _FILE form names, or else, for a
// service of systemd, the one that LoadCredential= has put into $CREDENTIALS_DIRECTORY.
type secretSetting struct {
	value string // "" when a file holds it, or nothing is set
	file  string
	from  string // what names the file, for messages
}

// secret finds out where a secret setting is. systemd's name of PAWL_S3_ACCESS_KEY is pawl.s3-access-key, and so on.
func (a *app) secret(name string) (secretSetting, error) {
	s := secretSetting{value: a.getenv(name), file: a.getenv(name + "_FILE"), from: name + "_FILE"}
	switch {
	case s.value != "" && s.file != "":
		return s, configError{fmt.Errorf("%[1]s and %[1]s_FILE are both set; set one of them", name)}
	case s.value != "" || s.file != "":
		return s, nil
	}
	folder := a.getenv("CREDENTIALS_DIRECTORY")
	if folder == "" {
		return s, nil
	}
	credential := "pawl." + strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(name, "PAWL_")), "_", "-")
	file := filepath.Join(folder, credential)
	switch _, err := os.Stat(file); {
	case err == nil:
		s.file, s.from = file, "LoadCredential="+credential
	case !errors.Is(err, os.ErrNotExist):
		return s, configError{fmt.Errorf("LoadCredential=%s: %w; let the server read it", credential, err)}
	}
	return s, nil
}

// read returns the secret, "" when nothing is set. The line break that editors put behind a file is no part of it. A file is read each time, so
// one that was replaced counts.
func (s secretSetting) read() (string, error) {
	if s.file == "" {
		return s.value, nil
	}
	content, err := os.ReadFile(s.file)
	if err != nil {
		return "", configError{fmt.Errorf("%s: %w; name a file that can be read", s.from, err)}
	}
	text := strings.TrimRight(string(content), "\r\n")
	if text == "" || strings.ContainsAny(text, "\r\n") {
		return "", configError{fmt.Errorf("%s: %s must hold the secret on its only line", s.from, s.file)}
	}
	return text, nil
}

// databaseURL is where Postgres is, "" when nothing says so, and where that is written.
func (a *app) databaseURL() (string, secretSetting, error) {
	setting, err := a.secret("PAWL_DATABASE_URL")
	if err != nil {
		return "", setting, err
	}
	address, err := setting.read()
	return address, setting, err
}
