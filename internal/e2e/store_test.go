package e2e

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pawlhq/pawl/internal/testenv"
)

const (
	exitConfig = 78
	canary     = "canary-canary" // a secret
)

// settings are the variables of a server on a database and a store.
func settings(t *testing.T, dsn, blobs string, more ...string) []string {
	t.Helper()
	return append([]string{"PAWL_DATABASE_URL=" + dsn, "PAWL_BLOBS=" + blobs, "PAWL_LISTEN=127.0.0.1:0"}, more...)
}

// refused runs a command that must end with exit code 78, and say all of the texts.
func refused(t *testing.T, env []string, texts []string, args ...string) {
	t.Helper()
	p := start(t, env, binary(t), args...)
	if code := p.exit(); code != exitConfig {
		t.Errorf("pawl %s ended with %d, want %d", args[0], code, exitConfig)
	}
	if strings.Contains(p.out.String()+p.errs.String(), canary) {
		t.Errorf("pawl %s tells a secret", args[0])
	}
	for _, text := range texts {
		if said := p.out.String() + p.errs.String(); !strings.Contains(said, text) {
			t.Errorf("pawl %s doesn't say %q: %s", args[0], text, said)
		}
	}
}

// A server refuses a store that isn't its database's own, and says what to do. Adopting it is deliberate, and works.
func TestServerRefusesAnotherStore(t *testing.T) {
	t.Parallel()
	buckets := map[string]func() (blobs string, env []string){
		"directory": func() (string, []string) { return directory(t), nil },
		"s3": func() (string, []string) {
			bucket := testenv.S3Bucket(t)
			return s3Address(bucket), s3Env(bucket)
		},
	}
	for name, fresh := range buckets {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn, other := testenv.Postgres(t), testenv.Postgres(t)
			blobs, keys := fresh()
			elsewhere, _ := fresh()
			first := serve(t, dsn, blobs, keys...)
			first.kill()
			first.start() // The same pair again.
			first.signal(syscall.SIGTERM)
			if code := first.exit(); code != 0 {
				t.Fatalf("it ended with %d", code)
			}
			wrong := settings(t, dsn, elsewhere, keys...)
			refused(t, wrong, []string{"bears no mark", "correct PAWL_BLOBS", "-/store", "pawl doctor --adopt-bucket"}, "serve")
			taken := settings(t, other, blobs, keys...)
			refused(t, taken, []string{"of another database", "PAWL_DATABASE_URL", "pawl doctor --adopt-bucket"}, "serve")
			refused(t, taken, []string{"FAIL", "identity", "of another database"}, "doctor")
			second := serve(t, other, elsewhere, keys...)
			second.kill()
			refused(t, wrong, []string{"but the database has recorded store", "correct PAWL_BLOBS or PAWL_DATABASE_URL"}, "serve")

			doctor := start(t, wrong, binary(t), "doctor", "--adopt-bucket")
			if code := doctor.exit(); code != 0 || !strings.Contains(doctor.out.String(), "the database's own") {
				t.Errorf("adopting ended with %d", code)
			}
			serve(t, dsn, elsewhere, keys...).kill()
		})
	}
}

// A store that is down doesn't keep a server from starting, but from being ready. It is compared as soon as it answers.
func TestServerWaitsForItsStore(t *testing.T) {
	t.Parallel()
	bucket, dsn := testenv.S3Bucket(t), testenv.Postgres(t)
	proxy := testenv.Proxy(t, "tcp", strings.TrimPrefix(bucket.Endpoint, "http://"))
	proxy.Refuse(true)
	bucket.Endpoint = "http://" + proxy.Addr
	s := launch(t, dsn, s3Address(bucket), s3Env(bucket)...)
	testenv.Eventually(t, patience, func() error {
		_, err := get(s.url + "/livez")
		return err
	})
	if body, err := get(s.url + "/readyz"); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("before the store answers it is ready: %s, %v", body, err)
	}
	if put := s.pawl("put", "k", binary(t), "--path", "f", "--retry-for", "0s"); put.exit() != 69 {
		t.Errorf("an upload before the store answers: %s", put.errs.String())
	}
	if said := s.errs.String(); !strings.Contains(said, "store_not_ready") || !strings.Contains(said, "endpoint=… in PAWL_BLOBS") {
		t.Errorf("the log doesn't name the setting: %s", said)
	}
	proxy.Refuse(false)
	testenv.Eventually(t, patience, func() error {
		_, err := get(s.url + "/readyz")
		return err
	})
	if put := s.pawl("put", "k", binary(t), "--path", "f"); put.exit() != 0 {
		t.Errorf("an upload afterwards: %s", put.errs.String())
	}
	s.kill()

	// When it turns out to be another's, the server ends.
	other := testenv.S3Bucket(t)
	proxy.Refuse(true)
	bucket.Bucket = other.Bucket
	s = launch(t, dsn, s3Address(bucket), s3Env(bucket)...)
	testenv.Eventually(t, patience, func() error {
		_, err := get(s.url + "/livez")
		return err
	})
	proxy.Refuse(false)
	if code := s.exit(); code != exitConfig || !strings.Contains(s.errs.String(), "bears no mark") {
		t.Errorf("it ended with %d", code)
	}
}

// The doctor says what works and what doesn't, for people and as JSON, and tells no secret (case 50).
func TestDoctor(t *testing.T) {
	t.Parallel()
	bucket, dsn := testenv.S3Bucket(t), testenv.Postgres(t)
	doctor := start(t, settings(t, dsn, s3Address(bucket), append(s3Env(bucket), "PAWL_AUTH=required", "PAWL_CONTENT_ORIGIN=https://files.example")...), binary(t), "doctor", "--json")
	var report struct {
		Findings []struct{ Name, Level, Seen, Cure string }
		Capable  map[string]bool `json:"capabilities"`
	}
	if code := doctor.exit(); code != 0 {
		t.Errorf("it ended with %d", code)
	}
	if err := json.Unmarshal([]byte(doctor.out.String()), &report); err != nil || len(report.Findings) < 15 || !report.Capable["presign"] {
		t.Errorf("%+v, %v", report, err)
	}
	for _, f := range report.Findings {
		// The Postgres of tests needn't survive a crash of the machine, and its user owns the schema.
		if f.Level != "ok" && f.Name != "cors" && f.Name != "postgres commits" && f.Name != "postgres audit" {
			t.Errorf("%+v", f)
		}
	}
	refused(t, settings(t, dsn, s3Address(bucket), "PAWL_S3_ACCESS_KEY="+bucket.AccessKey, "PAWL_S3_SECRET_KEY="+canary),
		[]string{"FAIL", "PAWL_S3_SECRET_KEY", "see the lines with FAIL"}, "doctor")
	refused(t, settings(t, "postgres://127.0.0.1:1/none?user=pawl&password="+canary, directory(t)), []string{"FAIL", "PAWL_DATABASE_URL"}, "doctor")
	refused(t, []string{"PAWL_BLOBS="}, []string{"PAWL_BLOBS is not set"}, "doctor")
	folder := start(t, []string{"PAWL_BLOBS=file://" + filepath.Join(t.TempDir(), "blobs")}, binary(t), "doctor")
	if code := folder.exit(); code != 0 || !strings.Contains(folder.out.String(), "set PAWL_DATABASE_URL") || !strings.Contains(folder.out.String(), "ok    rename") {
		t.Errorf("of a folder: %d", code)
	}
	http.DefaultClient.CloseIdleConnections()
}
