package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// collectMemory bounds the collector's resident memory, in KiB, however many generations there are.
const collectMemory = 160 << 10

// A collection of many dead generations is killed at 20 random points. In the end no pointer is broken and no object is left, and no run has needed much
// memory. PAWL_TEST_LARGE=1 makes it 100,000 generations.
func TestCollectKilled(t *testing.T) {
	t.Parallel()
	dead, spread := 2000, 500*time.Millisecond
	if os.Getenv("PAWL_TEST_LARGE") == "1" {
		dead, spread = 100_000, 20*time.Second
	}
	dsn, bucket := testenv.Postgres(t), testenv.S3Bucket(t)
	s := serve(t, dsn, s3Address(bucket), append(s3Env(bucket), "PAWL_COLLECT=off")...)
	const keys = 10
	for n := range keys {
		if err := roundTrip(s, publish.Key(fmt.Sprint("k/", n)), fmt.Appendf(nil, "current %d", n), -1); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	bury(t, dsn, bucket, dead, keys)
	t.Logf("%d generations are dead after %s", dead, time.Since(began).Round(time.Millisecond))

	random := rand.New(rand.NewPCG(20, 14))
	killed := 0
	for range 20 {
		p := start(t, s.env, binary(t), "collect", "--grace", "0s", "--json")
		time.Sleep(200*time.Millisecond + time.Duration(random.Int64N(int64(spread)))) // The point is what is random.
		select {
		case <-p.done:
		default:
			checkMemory(t, p)
			killed++
			p.kill()
		}
	}
	began = time.Now()
	last := start(t, s.env, binary(t), "collect", "--grace", "0s", "--json")
	for running := true; running; {
		select {
		case <-last.done:
			running = false
		case <-time.After(20 * time.Millisecond):
			checkMemory(t, last)
		}
	}
	t.Logf("%d runs were killed; the last took %s and says %s", killed, time.Since(began).Round(time.Millisecond), strings.TrimSpace(last.out.String()))
	if last.err != nil || killed < 10 {
		t.Errorf("%d runs were killed; the last one: %v, %s", killed, last.err, last.errs.String())
	}
	checkStore(t, dsn, bucket)
	var condemned int
	if err := connect(t, dsn).QueryRow(t.Context(), `SELECT count(*) FROM pawl.generations WHERE state = 'condemned'`).Scan(&condemned); err != nil || condemned > 0 {
		t.Errorf("%d generations are condemned and not collected, %v", condemned, err)
	}
	for n := range keys {
		if got := s.read(fmt.Sprint("k/", n)); got != fmt.Sprint("current ", n) {
			t.Errorf("k/%d is %q", n, got)
		}
	}
}

// checkMemory looks at the most that a process has had in memory. One that has just ended has none. What the system tells of ended processes
// counts the memory of the test itself, from which they were forked.
func checkMemory(t *testing.T, p *process) {
	t.Helper()
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	_, rest, found := strings.Cut(string(status), "VmHWM:")
	var kib int64
	if _, err := fmt.Sscan(rest, &kib); found && (err != nil || kib > collectMemory) {
		t.Errorf("a run needed %d KiB, %v; want at most %d", kib, err, collectMemory)
	}
}

// bury makes generations that were abandoned a month ago, with an object each, spread over some keys. The rows are written as the grants and uploads
// would have, without the time that those take.
func bury(t *testing.T, dsn string, bucket testenv.S3, generations, keys int) {
	t.Helper()
	conn := connect(t, dsn)
	for _, sql := range []string{
		`UPDATE pawl.keys SET counter = counter + $1::integer, lease_sha256 = NULL, lease_expires_at = NULL`,
		`INSERT INTO pawl.generations (key_id, token, lease_sha256, holder, granted_at, released_at)
			SELECT k.id, 1 + n, sha256(convert_to(n::text, 'UTF8')), 'dead', now() - interval '30 days', now() - interval '30 days'
			FROM pawl.keys k, generate_series(1, $1::integer) n`,
		`INSERT INTO pawl.files (key_id, token, path, upload_id, state, size, sha256, content_type, from_revision, started_at, ended_at)
			SELECT k.id, 1 + n, 'out.bin', decode(md5(n::text), 'hex'), 'stored', 4, sha256('dead'), 'text/plain', 1,
				now() - interval '30 days', now() - interval '30 days'
			FROM pawl.keys k, generate_series(1, $1::integer) n`,
	} {
		if _, err := conn.Exec(t.Context(), sql, generations/keys); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := conn.Query(t.Context(), `SELECT format('%s/-/%s/%s/%s', k.name, f.token, encode(f.upload_id, 'hex'), f.path)
		FROM pawl.files f JOIN pawl.keys k ON k.id = f.key_id WHERE f.sha256 = sha256('dead')`)
	if err != nil {
		t.Fatal(err)
	}
	names := make(chan string)
	var senders sync.WaitGroup
	core := s3Client(t, bucket)
	for range 8 {
		senders.Go(func() {
			for name := range names {
				_, err := core.Client.PutObject(context.Background(), bucket.Bucket, "e2e/"+name, strings.NewReader("dead"), 4, minio.PutObjectOptions{DisableContentSha256: true})
				if err != nil {
					t.Errorf("burying %s: %v", name, err)
				}
			}
		})
	}
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Error(err)
		}
		names <- name
	}
	close(names)
	senders.Wait()
	if rows.Err() != nil || t.Failed() {
		t.Fatal(rows.Err())
	}
}

// A collector is a stale worker, too: it is stopped in the middle for longer than its duty lasts; another replica collects, workers publish on top of
// what is kept. Resumed, it deletes nothing that it shouldn't, and ends.
func TestCollectorStopped(t *testing.T) {
	t.Parallel()
	dsn, bucket := testenv.Postgres(t), testenv.S3Bucket(t)
	plain := serve(t, dsn, s3Address(bucket), append(s3Env(bucket), "PAWL_COLLECT=off")...)
	setPolicy(t, plain, publish.Policy{FenceMode: publish.FenceAccepted, KeepGenerations: 1, KeepFor: seconds(1), KeepUnpublishedFor: seconds(3600)})
	soak := &soak{t: t, replicas: []*server{plain}, keys: []publish.Key{"k"}, known: map[publish.Key]map[publish.Token]int64{"k": {}}}
	more := func() {
		for range 15 {
			soak.publish("w")
		}
	}
	more()
	proxy := proxyS3(t, bucket)
	reached, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	proxy.set(func(r *http.Request) int {
		if r.Method == http.MethodDelete && strings.Contains(r.URL.Path, "/k/-/") {
			once.Do(func() { close(reached) })
			<-goOn
		}
		return 0
	})
	env := append(s3Env(bucket), "PAWL_COLLECT_INTERVAL=1s", "PAWL_COLLECT_GRACE=1s")
	a := serve(t, dsn, s3Address(proxy.bucket), env...)
	<-reached // It has asked which objects are referenced.
	a.signal(syscall.SIGSTOP)
	more()
	b := serve(t, dsn, s3Address(bucket), env...)
	testenv.Eventually(t, 2*patience, func() error {
		if line := b.metric("pawl_collect_objects_total"); line == "" || strings.HasSuffix(line, " 0") {
			return fmt.Errorf("B has collected nothing: %q", line)
		}
		return nil
	})
	more()
	soak.check("k")
	close(goOn)
	a.signal(syscall.SIGCONT)
	testenv.Eventually(t, patience, func() error {
		if !strings.Contains(a.errs.String(), "collect_stopped") && !strings.Contains(a.errs.String(), "msg=collected") {
			return fmt.Errorf("A's collection goes on")
		}
		return nil
	})
	soak.check("k")
	soak.compare("k")
	for _, s := range []*server{a, b} {
		s.signal(syscall.SIGINT)
		<-s.done
	}
	soak.check("k")
	conn := connect(t, dsn)
	testenv.Eventually(t, 2*patience, func() error {
		collect(t, plain, "--grace", "0s")
		var left int
		err := conn.QueryRow(t.Context(), `SELECT count(*) FROM pawl.generations WHERE state IN ('open', 'sealed') AND revision > 0`).Scan(&left)
		if err == nil && left != 2 {
			err = fmt.Errorf("%d published generations are kept, want the current one and one more", left)
		}
		return err
	})
	checkStore(t, dsn, bucket)
	soak.check("k")
}
