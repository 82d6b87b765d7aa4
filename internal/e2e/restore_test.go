package e2e

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// A snapshot of the database's volume is put back. Neither the server nor its timeline tell, but the bucket has a witness: the epoch is raised before
// anything is granted, and readiness, log and metric say why. It is raised once.
func TestVolumeSnapshotPutBack(t *testing.T) {
	t.Parallel()
	primary := testenv.PrivatePostgres(t)
	dsn, bucket := primary.DSN(), testenv.S3Bucket(t)
	data := strings.TrimSpace(string(postgres(t, nil, "psql", "-At", "-d", dsn, "-c", "SHOW data_directory")))
	snapshot := filepath.Join(filepath.Dir(data), "snapshot")
	cp := func(from, to string) {
		t.Helper()
		if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
			t.Fatalf("cp: %v: %s", err, out)
		}
	}
	s := serve(t, dsn, s3Address(bucket), s3Env(bucket)...)
	s.ship("k", "W1", "one")
	s.kill()
	primary.Kill(t)
	cp(data, snapshot)
	primary.Restart(t)
	s.start() // It writes a witness.
	lost := s.ship("k", "W2", "two")
	if epoch := s.epoch(); epoch.Epoch != 0 {
		t.Fatalf("the epoch is %+v after a restart", epoch)
	}
	s.kill()
	primary.Kill(t)
	if err := errors.Join(os.RemoveAll(data), os.Rename(snapshot, data)); err != nil {
		t.Fatal(err)
	}
	primary.Restart(t)

	s.start()
	epoch := s.epoch()
	if epoch.Epoch == 0 || !strings.Contains(epoch.Reason, "earlier state of the volume was put back") {
		t.Errorf("the epoch is %+v, want one raised for the volume", epoch)
	}
	if line := s.metric("pawl_epoch "); line == "pawl_epoch 0" || line == "" {
		t.Errorf("the metric is %q", line)
	}
	awaitWord(t, s.process, "msg=epoch_raised")
	awaitWord(t, s.process, "put back")
	if err := s.upload(lost, "late"); !errors.Is(err, publish.ErrStaleToken) {
		t.Errorf("an upload of the lost history: %v, want stale-token", err)
	}
	if next := s.ship("k", "W3", "three"); next.Token <= 1_000_000_000 {
		t.Errorf("the next token is %d, want one of the new epoch", next.Token)
	}
	s.kill()
	s.start()
	if again := s.epoch(); again.Epoch != epoch.Epoch {
		t.Errorf("the epoch is %+v after another start, want %d still", again, epoch.Epoch)
	}
	objects, err := bucket.Objects()
	witnesses := 0
	for _, object := range objects {
		if strings.Contains(object, "-witness/") {
			witnesses++
		}
	}
	if err != nil || witnesses != 4 {
		t.Errorf("%d witnesses after 4 starts and more, %v; want 4", witnesses, err)
	}
}

// A base backup comes back, by point-in-time recovery or as it is. Nobody helps in either case: the timeline tells of the first, the witness of the second.
func TestBaseBackupRestored(t *testing.T) {
	t.Parallel()
	for name, to := range map[string]struct {
		current, reason string
		restore         func(t testing.TB, b *testenv.Backup, archive string) *testenv.PrivateServer
	}{
		"point in time": {"two", "point in time", func(t testing.TB, b *testenv.Backup, archive string) *testenv.PrivateServer {
			return b.Recover(t, archive, "after-two")
		}},
		"as it is": {"one", "put back", func(t testing.TB, b *testenv.Backup, _ string) *testenv.PrivateServer { return b.Start(t) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bucket, archive := testenv.S3Bucket(t), testenv.TempDir(t)
			primary := testenv.PrivatePostgres(t, "archive_mode", "on", "archive_command", "cp %p "+archive+"/%f")
			s := serve(t, primary.DSN(), s3Address(bucket), s3Env(bucket)...)
			s.ship("k", "W1", "one")
			backup := primary.BaseBackup(t)
			s.ship("k", "W2", "two")
			execSQL(t, primary.DSN(), `SELECT pg_create_restore_point('after-two')`)
			s.kill()
			s.start() // It writes a witness.
			lost := s.ship("k", "W3", "three")
			last := strings.TrimSpace(string(postgres(t, nil, "psql", "-At", "-d", primary.DSN(), "-c", "SELECT pg_walfile_name(pg_switch_wal())")))
			testenv.Eventually(t, patience, func() error {
				_, err := os.Stat(filepath.Join(archive, last))
				return err
			})
			s.kill()
			primary.Kill(t)

			s = serve(t, to.restore(t, backup, archive).DSN(), s3Address(bucket), s3Env(bucket)...)
			if got := s.read("k"); got != to.current {
				t.Errorf("current is %q, want %q", got, to.current)
			}
			if epoch := s.epoch(); epoch.Epoch == 0 || !strings.Contains(epoch.Reason, to.reason) {
				t.Errorf("the epoch is %+v, want one raised because of %q", epoch, to.reason)
			}
			if err := s.publish(lost); !errors.Is(err, publish.ErrStaleToken) {
				t.Errorf("a publish of the lost history: %v, want stale-token", err)
			}
			if next := s.ship("k", "W4", "four"); next.Token <= 1_000_000_000 {
				t.Errorf("the next token is %d, want one of the new epoch", next.Token)
			}
			if all := s.lost(); len(all) == 0 || !strings.HasPrefix(all[len(all)-1], "k 3 1 ") {
				t.Errorf("lost are %q, want the generation of 3 among them", all)
			}
		})
	}
}

// epoch is what readiness says of it.
func (s *server) epoch() publish.Epoch {
	s.t.Helper()
	body, err := get(s.url + "/readyz")
	if err != nil {
		s.t.Fatal(err)
	}
	var ready struct{ Epoch *publish.Epoch }
	if err := json.Unmarshal(body, &ready); err != nil || ready.Epoch == nil {
		s.t.Fatalf("readiness tells no epoch: %s, %v", body, err)
	}
	return *ready.Epoch
}

// One dump is restored again and again within minutes, and the epoch is raised by hand between: each history begins above all tokens of those before,
// whose witnesses are in the bucket.
func TestCase17RestoredAgain(t *testing.T) {
	t.Parallel()
	dsn, bucket := testenv.Postgres(t), testenv.S3Bucket(t)
	s := serve(t, dsn, s3Address(bucket), s3Env(bucket)...)
	greatest := s.ship("thumbs/a", "W", "before the dump").Token
	dump := postgres(t, nil, "pg_dump", "-Fc", "-d", dsn)
	for round := range 4 {
		s.kill()
		postgres(t, dump, "pg_restore", "--clean", "--if-exists", "--no-owner", "-d", dsn)
		s = serve(t, dsn, s3Address(bucket), s3Env(bucket)...)
		if round == 1 {
			s.operator(0, "recover", "--bump", "--yes")
		}
		next := s.ship("thumbs/a", "W", "after a restore").Token
		if next <= greatest {
			t.Errorf("after restore %d the token is %d; %d was granted before", round+1, next, greatest)
		}
		greatest = next
	}
}
