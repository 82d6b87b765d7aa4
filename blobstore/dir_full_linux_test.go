package blobstore

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/pawlhq/pawl/publish"
)

// fullDiskVariable tells the test binary that it is the child of TestDirFull, which has a mount namespace of its own.
const fullDiskVariable = "PAWL_TEST_FULL_DISK"

// TestDirFull fills a real file system. The test binary starts itself in a mount namespace of its own, so the small
// file system is nobody else's and goes with the process.
func TestDirFull(t *testing.T) {
	if folder := os.Getenv(fullDiskVariable); folder != "" {
		fillDisk(t, folder)
		return
	}
	t.Parallel()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestDirFull$", "-test.count=1", "-test.v")
	child.Env = append(os.Environ(), fullDiskVariable+"="+t.TempDir())
	child.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if uid, gid := os.Getuid(), os.Getgid(); uid != 0 {
		// Only a namespace of its own lets an ordinary user mount something.
		child.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		child.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
		child.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: gid, Size: 1}}
	}
	out, err := child.CombinedOutput()
	if errors.Is(err, syscall.EPERM) || strings.Contains(string(out), mountRefused) {
		t.Skipf("this machine lets nobody mount a small file system: %v\n%s", err, out)
	}
	if err != nil || !strings.Contains(string(out), "--- PASS: TestDirFull") {
		t.Errorf("%v\n%s", err, out)
	}
}

const mountRefused = "mounting a small file system was refused"

// fillDisk puts onto a file system of 1 MiB what fits, what doesn't, and again what fits.
func fillDisk(t *testing.T, folder string) {
	if err := errors.Join(
		syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""),
		syscall.Mount("pawl", folder, "tmpfs", 0, "size=1m"),
	); err != nil {
		t.Fatalf("%s: %v", mountRefused, err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(folder, 0); err != nil {
			t.Error(err)
		}
	})
	d, err := OpenDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	put := func(name publish.ObjectName, size int) error {
		return d.Put(t.Context(), name, bytes.NewReader(make([]byte, size)), int64(size), "")
	}
	if err := put("a/-/1/u/fits", 600<<10); err != nil {
		t.Fatal(err)
	}
	for range 3 { // What failed takes no space, so this can go on for ever.
		err := put("a/-/1/u/large", 600<<10)
		var full *publish.Error
		if !errors.As(err, &full) || full.Code != publish.ErrQuotaExceeded || !strings.Contains(full.Detail, "no space left") {
			t.Errorf("Put gave %v", err)
		}
		if temps := temporaries(t, d); len(temps) != 0 {
			t.Errorf("temporary files are left: %q", temps)
		}
	}
	if err := put("a/-/1/u/small", 300<<10); err != nil {
		t.Errorf("Put of what fits gave %v", err)
	}
	if got := tree(t, d); len(got) != 6 {
		t.Errorf("there are %q", got)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}
