//go:build unix

package testenv

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Backup is a base backup of a PrivateServer.
type Backup struct {
	dir, database string
}

// BaseBackup copies the running server by pg_basebackup.
func (s *PrivateServer) BaseBackup(t testing.TB) *Backup {
	t.Helper()
	dir := TempDir(t)
	if err := s.server.BaseBackup(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	return &Backup{dir: dir, database: s.database}
}

// Start starts a server on the backup as it is, once: without recovery from an archive, which stays on the timeline of the original.
func (b *Backup) Start(t testing.TB) *PrivateServer {
	t.Helper()
	if err := os.Remove(filepath.Join(b.dir, "data", "standby.signal")); err != nil {
		t.Fatal(err)
	}
	server := startPrivate(t, b.dir, []string{"primary_conninfo", ""})
	server.database = b.database
	return server
}

// Recover starts a server on the backup, once, which replays an archive up to a named restore point and then takes writes.
func (b *Backup) Recover(t testing.TB, archive, point string) *PrivateServer {
	t.Helper()
	data := filepath.Join(b.dir, "data")
	if err := os.Rename(filepath.Join(data, "standby.signal"), filepath.Join(data, "recovery.signal")); err != nil {
		t.Fatal(err)
	}
	server := startPrivate(t, b.dir, []string{
		"primary_conninfo", "", "restore_command", "cp " + archive + "/%f %p",
		"recovery_target_name", point, "recovery_target_action", "promote",
	})
	server.database = b.database
	Eventually(t, 60*time.Second, func() error {
		if scanText(t, server.DSN(), `SELECT pg_is_in_recovery()::text`) == "true" {
			return errors.New("it is still recovering")
		}
		return nil
	})
	return server
}
