package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// target is the folder that get --dir fills. Beside it, in the hidden folder .NAME.pawl-get, lies all that isn't the set's:
//
//	state.json      which folder is ours, so that no other one is removed by surprise
//	<hash>/         a set that isn't complete yet, named by key, token and manifest digest
//	new             a complete set on its way into place; after the swap, the old folder on its way out
//	away            the old folder, on a file system that can't swap
//
// The hidden folder is locked as long as this process lives, however it ends. So one run at a time fills a folder, each with
// what is current when its turn comes, and whatever lies there when the lock was got is left behind by a run that was killed.
type target struct {
	path   string // absolute, without links
	beside string
	lock   *os.File
	// exchange swaps two folders; tests make it fail.
	exchange func(a, b string) error
}

// lockPoll is how often a run looks whether the one before it has ended.
const lockPoll = 100 * time.Millisecond

// openTarget finds the folder and waits for its lock.
func (a *app) openTarget(ctx context.Context, folder string) (*target, error) {
	path, err := resolveTarget(folder)
	if err != nil {
		return nil, err
	}
	t := &target{path: path, beside: filepath.Join(filepath.Dir(path), besideName(filepath.Base(path))), exchange: exchangeFolders}
	for told := false; ; {
		if err := os.Mkdir(t.beside, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, ioError{err}
		}
		t.lock, err = lockFolder(t.beside)
		switch {
		case errors.Is(err, syscall.EWOULDBLOCK):
			if !told {
				a.notice("another pawl get is filling %s; waiting for it", folder)
				told = true
			}
			select {
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			case <-time.After(lockPoll):
			}
			continue
		case errors.Is(err, fs.ErrNotExist):
			continue // it was removed just now
		case err != nil:
			return nil, ioError{fmt.Errorf("locking %s, which keeps runs into one folder apart: %w", t.beside, err)}
		}
		if here, err := os.Lstat(t.beside); err == nil && isFolder(t.lock, here) {
			if err := t.isOurs(); err != nil {
				t.close()
				return nil, err
			}
			return t, nil
		}
		t.close()
	}
}

// close gives the lock back. An empty hidden folder goes with it.
func (t *target) close() {
	_ = os.Remove(t.beside) //nolint:errcheck // It has something in it.
	_ = t.lock.Close()      //nolint:errcheck // It was only locked.
}

// ourNames are the names in the hidden folder.
var ourNames = regexp.MustCompile(`^(state\.json|state\.tmp|new|away|[0-9a-f]{32})$`)

// isOurs refuses a hidden folder in which somebody keeps something else: it would be removed.
func (t *target) isOurs() error {
	entries, err := os.ReadDir(t.beside)
	if err != nil {
		return ioError{err}
	}
	for _, entry := range entries {
		if !ourNames.MatchString(entry.Name()) {
			return refusedError{fmt.Errorf("%s is where pawl get keeps what it needs, and holds %q, which isn't its own; move that away", t.beside, entry.Name())}
		}
	}
	return nil
}

// resolveTarget gives the absolute path of a folder that exists or could be made. What a link names is replaced, not the link.
func resolveTarget(folder string) (string, error) {
	path, err := filepath.Abs(folder)
	if err != nil {
		return "", ioError{err}
	}
	resolved, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(path); err == nil {
			return "", usageError{fmt.Errorf("--dir %s is a link to nothing; remove it, or name a folder", folder)}
		}
		var parent string
		parent, err = filepath.EvalSymlinks(filepath.Dir(path))
		resolved = filepath.Join(parent, filepath.Base(path))
	}
	if err != nil {
		return "", ioError{fmt.Errorf("--dir %s: %w", folder, err)}
	}
	here, err := os.Getwd()
	if err == nil {
		here, err = filepath.EvalSymlinks(here)
	}
	if err == nil && (resolved == here || strings.HasPrefix(here+"/", strings.TrimSuffix(resolved, "/")+"/")) {
		return "", usageError{fmt.Errorf("--dir %s is the working folder or holds it, and would be replaced below it; start the command elsewhere", folder)}
	}
	return resolved, refuseMount(folder, resolved)
}

// refuseMount refuses a folder that is another file system's root: it can't be swapped with one beside it.
func refuseMount(folder, path string) error {
	var here, above placed
	info, err := os.Stat(path)
	if err != nil || here.identify(info) != nil {
		return nil //nolint:nilerr // It isn't there yet, or this system doesn't tell.
	}
	if info, err = os.Stat(filepath.Dir(path)); err != nil || above.identify(info) != nil || above.Device == here.Device {
		return nil //nolint:nilerr // The same.
	}
	return usageError{fmt.Errorf("--dir %s is a mount point and can't be replaced as a whole; name a folder in it", folder)}
}

// besideName is the name of the hidden folder beside a folder. A file system takes names of up to 255 bytes.
func besideName(name string) string {
	const most = 200
	if len(name) > most {
		sum := sha256.Sum256([]byte(name))
		name = hex.EncodeToString(sum[:])
	}
	return "." + name + ".pawl-get"
}

func (t *target) join(name string) string { return filepath.Join(t.beside, name) }

// setName names the folder in which a version is put together.
func setName(key publish.Key, token publish.Token, manifest publish.Digest) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%d\n%s", key, token, manifest))
	return hex.EncodeToString(sum[:16])
}

// placed is a folder that get has put together, as state.json remembers it. It is recognised by where it lies on the disk and by when
// an entry was last added to it or removed: another folder of the same name isn't it. What became of its files and subfolders is told by
// target.changes.
type placed struct {
	Key            publish.Key     `json:"key"`
	Version        publish.Version `json:"version"`
	ManifestDigest publish.Digest  `json:"manifest_digest"`
	Device         uint64          `json:"device"`
	Inode          uint64          `json:"inode"`
	Modified       time.Time       `json:"modified"`
	Files          []placedFile    `json:"files"`
}

func (p placed) setName() string { return setName(p.Key, p.Version.Token, p.ManifestDigest) }

// identify notes which folder it is about.
func (p *placed) identify(info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ioError{errors.New("this system doesn't tell one folder from another")}
	}
	p.Device, p.Inode, p.Modified = uint64(stat.Dev), stat.Ino, info.ModTime().UTC()
	return nil
}

func (p placed) is(info fs.FileInfo) bool {
	var other placed
	return other.identify(info) == nil && p.Device == other.Device && p.Inode == other.Inode && p.Modified.Equal(other.Modified)
}

// state reads which folders are ours; none when that isn't known.
func (t *target) state() []placed {
	text, err := os.ReadFile(t.join("state.json"))
	if err != nil {
		return nil
	}
	var all []placed
	if json.Unmarshal(text, &all) != nil {
		return nil
	}
	return all
}

// remember replaces the state by another one, whole or not at all.
func (t *target) remember(all []placed) error {
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	temp, err := os.OpenFile(t.join("state.tmp"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o666)
	if err != nil {
		return ioError{err}
	}
	_, err = temp.Write(append(text, '\n'))
	if err = errors.Join(err, temp.Sync(), temp.Close()); err == nil {
		err = os.Rename(temp.Name(), t.join("state.json"))
	}
	if err != nil {
		return ioError{fmt.Errorf("noting which folder is ours: %w", err)}
	}
	return syncFolder(t.beside)
}

// present finds the folder as it is: whether it is there, and what is known of it when it is ours.
func (t *target) present() (info fs.FileInfo, known *placed, err error) {
	info, err = os.Lstat(t.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, ioError{err}
	}
	if !info.IsDir() {
		return nil, nil, usageError{fmt.Errorf("--dir %s is no folder; name another, or remove it", t.path)}
	}
	for _, p := range t.state() {
		if p.is(info) {
			return info, &p, nil
		}
	}
	return info, nil, nil
}

// mayReplace refuses to replace a folder that get hasn't put together, or that was changed since, unless that is asked for.
func (t *target) mayReplace(replace bool) error {
	info, known, err := t.present()
	if err != nil || info == nil || replace {
		return err
	}
	if known != nil {
		changed, err := t.changes(*known)
		if err == nil && len(changed) > 0 {
			err = refusedError{fmt.Errorf("%s was changed since pawl get put it there: %s; --replace removes it, or name another folder", t.path, someOf(changed))}
		}
		return err
	}
	folder, err := os.Open(t.path)
	if err != nil {
		return ioError{err}
	}
	defer folder.Close() //nolint:errcheck // It is only read.
	switch _, err := folder.Readdirnames(1); {
	case errors.Is(err, io.EOF):
		return nil // An empty folder is no loss.
	case err != nil:
		return ioError{err}
	}
	return refusedError{fmt.Errorf("%s holds what pawl get didn't put there, or was changed since: --replace removes it, or name another folder", t.path)}
}

// syncFolder makes the entries of a folder durable.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return ioError{err}
	}
	if err := errors.Join(folder.Sync(), folder.Close()); err != nil {
		return ioError{fmt.Errorf("syncing %s: %w", path, err)}
	}
	return nil
}
