package e2e

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// setFiles is how many files each version of a set has.
const setFiles = 120

// setFile gives the name and the bytes of a file: half of the names are in both versions, and some of the bytes too.
func setFile(version, i int) (name, body string) {
	name = fmt.Sprintf("frames/%03d/%04d.txt", i/10, i)
	if i%2 == 1 {
		name = fmt.Sprintf("v%d/%s", version, name)
	}
	if i%5 == 0 {
		return name, strings.Repeat(fmt.Sprintf("the same %d\n", i), 500)
	}
	return name, strings.Repeat(fmt.Sprintf("version %d file %d\n", version, i), 1+i*i)
}

// publishSets publishes versions 1 and 2 of a set.
func publishSets(t *testing.T, s *server, key publish.Key) {
	t.Helper()
	ctx := context.Background()
	for version := 1; version <= 2; version++ {
		lease, err := s.api.Acquire(ctx, publish.AcquireRequest{Key: key, Holder: "W", TTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		for i := range setFiles {
			name, body := setFile(version, i)
			if _, err := s.api.Upload(ctx, publish.UploadRequest{
				Grant: lease.Grant(), Path: publish.Path(name), Size: int64(len(body)), Body: strings.NewReader(body),
			}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.api.Publish(ctx, publish.PublishRequest{Grant: lease.Grant(), Final: true, Release: true}); err != nil {
			t.Fatal(err)
		}
	}
}

// versionIn checks that a folder is exactly one version of the set, and says which; 0 when there is no folder.
func versionIn(folder string) (int, error) {
	found := map[string]string{}
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(folder, path)
		found[name] = string(text)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) && len(found) == 0 {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	fault := errors.New("the folder is a mix")
	for version := 1; version <= 2; version++ {
		good := 0
		for i := range setFiles {
			name, body := setFile(version, i)
			switch text, there := found[name]; {
			case there && text == body:
				good++
			case there:
				fault = fmt.Errorf("%s has %d bytes, not those of version %d", name, len(text), version)
			}
		}
		if good == setFiles && len(found) == setFiles {
			return version, nil
		}
	}
	return 0, fmt.Errorf("%d files: %w", len(found), fault)
}

// A `pawl get --dir` that is killed at any point leaves the folder of before or the new one, never a mix, also with a second one at work; the
// next run needs nothing but to be started. Who looks into the folder meanwhile never misses it.
func TestKilledGetFolder(t *testing.T) {
	t.Parallel()
	s := serve(t, testenv.Postgres(t), directory(t))
	publishSets(t, s, "shots/010")
	folder := filepath.Join(t.TempDir(), "comp")
	args := func(version int) []string {
		return []string{"get", "shots/010", "--dir", folder, "--token", fmt.Sprint(version), "--parallel", "3"}
	}
	// From nothing: the folder is absent or whole.
	for range 5 {
		p := s.pawl(args(1)...)
		killAfter(p, rand.N(40*time.Millisecond))
		if got, err := versionIn(folder); err != nil || got > 1 {
			t.Fatalf("from nothing: version %d, %v", got, err)
		}
	}
	started := time.Now()
	if p := s.pawl(args(1)...); p.exit() != 0 {
		t.Fatal(p.errs.String())
	}
	took := time.Since(started)

	stop, watched := make(chan struct{}), make(chan error, 1)
	go func() { watched <- watchFolder(folder, stop) }()
	seen := map[int]int{}
	finished := 0
	for round := range 40 {
		version := 1 + round%2
		first := s.pawl(args(version)...)
		var second *process
		if round%4 == 3 {
			second = s.pawl(args(3 - version)...)
		}
		if killAfter(first, rand.N(took)) {
			finished++
		}
		if second != nil {
			killAfter(second, rand.N(took))
		}
		got, err := versionIn(folder)
		if err != nil || got == 0 {
			t.Fatalf("round %d: version %d, %v", round, got, err)
		}
		seen[got]++
	}
	for version := 1; version <= 2; version++ {
		if p := s.pawl(args(version)...); p.exit() != 0 {
			t.Fatal(p.errs.String())
		}
		if got, err := versionIn(folder); got != version || err != nil {
			t.Fatalf("at last: version %d, %v; want %d", got, err, version)
		}
	}
	close(stop)
	if err := <-watched; err != nil {
		t.Error(err)
	}
	entries, err := os.ReadDir(filepath.Join(filepath.Dir(folder), ".comp.pawl-get"))
	if err != nil || len(entries) != 1 {
		t.Errorf("beside the folder is left: %v, %v", entries, err)
	}
	t.Logf("of 40 runs %d ended by themselves; the folder was version 1 and 2: %v", finished, seen)
}

// killAfter kills a process after a while, and reports whether it had ended by itself in good order.
func killAfter(p *process, d time.Duration) bool {
	select {
	case <-p.done:
	case <-time.After(d):
		p.signal(syscall.SIGKILL)
		<-p.done
	}
	return p.cmd.ProcessState.ExitCode() == 0
}

// watchFolder looks into the folder over and over. Through one open folder it must see files of one version only, though they may be removed
// while it looks; and there must always be a folder.
func watchFolder(folder string, stop <-chan struct{}) error {
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		root, err := os.OpenRoot(folder)
		if err != nil {
			return fmt.Errorf("the folder is away: %w", err)
		}
		versions := map[string]bool{}
		for i := range setFiles {
			for version := 1; version <= 2; version++ {
				name, _ := setFile(version, i)
				if text, err := root.ReadFile(name); err == nil && strings.HasPrefix(string(text), "version ") {
					versions[string(text[:len("version 1")])] = true
				}
			}
		}
		_ = root.Close()
		if len(versions) > 1 {
			return errors.New("one folder showed files of two versions")
		}
	}
}

// Two runs into one folder that nobody kills both succeed, and the folder is one version.
func TestTwoGetFolders(t *testing.T) {
	t.Parallel()
	s := serve(t, testenv.Postgres(t), directory(t))
	publishSets(t, s, "k")
	folder := filepath.Join(t.TempDir(), "out")
	var group sync.WaitGroup
	runs := make([]*process, 6)
	for i := range runs {
		runs[i] = s.pawl("get", "k", "--dir", folder, "--token", fmt.Sprint(1+i%2))
		group.Go(func() { <-runs[i].done })
	}
	group.Wait()
	for _, p := range runs {
		if p.exit() != 0 {
			t.Errorf("exit code %d: %s", p.exit(), p.errs.String())
		}
	}
	if version, err := versionIn(folder); version == 0 || err != nil {
		t.Errorf("version %d, %v", version, err)
	}
}
