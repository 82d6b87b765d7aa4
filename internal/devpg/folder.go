//go:build unix

package devpg

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/pawlhq/pawl/internal/devpg/child"
)

// FolderError tells that the account under which the server runs can't reach its folder, because it may not
// enter Blocked, one of the folders above.
type FolderError struct {
	Dir, Blocked, User string
}

// Error says what to do about it.
func (e *FolderError) Error() string {
	return fmt.Sprintf("PostgreSQL does not run as root, so it runs as %s, who may not enter %s: "+
		"choose another folder than %s, or allow it with `chmod o+x %s`", e.User, e.Blocked, e.Dir, e.Blocked)
}

// DefaultDir returns the folder in which a program like `pawl dev` should keep its data: $XDG_DATA_HOME/pawl or
// ~/.local/share/pawl, and /var/lib/pawl for root, whose home other accounts may not enter.
func DefaultDir() (string, error) {
	if os.Geteuid() == 0 {
		return "/var/lib/pawl", nil
	}
	// The XDG specification says to ignore relative paths.
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "pawl"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("data folder: %w", err)
	}
	return filepath.Join(home, ".local", "share", "pawl"), nil
}

// account is the user under whom the server runs: our own, except for root, whom PostgreSQL refuses.
type account struct {
	name     string
	uid, gid uint32
	switched bool // not our own
}

func currentAccount() account {
	if os.Geteuid() != 0 {
		return account{}
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			continue
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			continue
		}
		return account{name: name, uid: uint32(uid), gid: uint32(gid), switched: true}
	}
	// A container can lack even /etc/passwd. Most systems give this number to nobody.
	return account{name: "uid 65534", uid: 65534, gid: 65534, switched: true}
}

func (a account) credential() *syscall.Credential {
	if !a.switched {
		return nil
	}
	return &syscall.Credential{Uid: a.uid, Gid: a.gid}
}

// own makes dir the account's, closed to all others.
func (a account) own(dir string) error {
	if a.switched {
		if err := os.Chown(dir, int(a.uid), int(a.gid)); err != nil {
			return fmt.Errorf("give folder to %s: %w", a.name, err)
		}
	}
	return os.Chmod(dir, 0o700)
}

// makeFolder makes dir for account as, with the folders above it as needed.
func makeFolder(dir string, as account) error {
	switch info, err := os.Stat(dir); {
	case err == nil && !info.IsDir():
		return fmt.Errorf("postgres folder: %s is not a folder", dir)
	case err == nil:
		return as.own(dir)
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("postgres folder: %w", err)
	}
	if err := makeParents(filepath.Dir(dir), as); err != nil {
		return fmt.Errorf("postgres folder: %w", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("postgres folder: %w", err)
	}
	return as.own(dir)
}

// makeParents is os.MkdirAll, except that new folders can be entered by account as whatever the umask says.
func makeParents(dir string, as account) error {
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := makeParents(filepath.Dir(dir), as); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if as.switched {
		return os.Chmod(dir, 0o755)
	}
	return nil
}

// checkReachable tells whether account as can work in dir, by trying it: permissions alone don't say, since
// there are access lists and security modules as well.
func checkReachable(ctx context.Context, bin binaries, dir string, as account) error {
	cmd := bin.command(ctx, as, "initdb", "--version")
	cmd.Dir = dir
	err := child.Run(cmd)
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	if !errors.Is(err, fs.ErrPermission) || !as.switched {
		return fmt.Errorf("run initdb in %s: %w", dir, err)
	}
	return &FolderError{Dir: dir, Blocked: blockedAt(dir, as), User: as.name}
}

// blockedAt returns the first folder on the way to dir that account as may not enter, judged by permissions.
func blockedAt(dir string, as account) string {
	if parent := filepath.Dir(dir); parent != dir {
		if blocked := blockedAt(parent, as); blocked != parent || !enters(parent, as) {
			return blocked
		}
	}
	return dir
}

func enters(dir string, as account) bool {
	info, err := os.Stat(dir)
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	switch mode := info.Mode().Perm(); {
	case stat.Uid == as.uid:
		return mode&0o100 != 0
	case stat.Gid == as.gid:
		return mode&0o010 != 0
	default:
		return mode&0o001 != 0
	}
}
