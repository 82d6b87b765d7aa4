package e2e

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

const (
	manyFiles = 100_000
	// manyUploads of them go through the server, unless PAWL_TEST_MANY_UPLOADS says how many: 100000 takes minutes.
	manyUploads = 20_000
	// manyMemory is by how much the server's memory may grow at most, in KiB.
	manyMemory = 64 << 10
)

// A generation of 100,000 small files, of which all are declared, through a real server: the final publish takes less than five seconds,
// the listing comes in pages, and the server's memory doesn't grow with the set. The rows of the files that aren't uploaded
// are written by the functions that the server itself calls for an upload.
func TestManyFiles(t *testing.T) {
	t.Parallel()
	uploads := manyUploads
	if text := os.Getenv("PAWL_TEST_MANY_UPLOADS"); text != "" {
		var err error
		if uploads, err = strconv.Atoi(text); err != nil || uploads < 1 || uploads > manyFiles {
			t.Fatalf("PAWL_TEST_MANY_UPLOADS is %q; it must be from 1 to %d", text, manyFiles)
		}
	}
	dsn := testenv.Postgres(t)
	s := serve(t, dsn, directory(t), "PAWL_LOG_LEVEL=warn")
	lease, err := s.api.Acquire(t.Context(), publish.AcquireRequest{Key: "many/frames", Holder: "A", TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	m := many{t, s, lease.Grant()}

	m.sideBySide("the first uploads", 1, uploads/10, m.upload)
	before := s.peakMemory(t)
	m.sideBySide("uploads", uploads/10+1, uploads, m.upload)
	if left := manyFiles - uploads; left > 0 {
		m.sideBySide("transactions for the other rows", 1, (left+registered-1)/registered, func(ctx context.Context, n int) error {
			return m.register(ctx, dsn, uploads+1+(n-1)*registered)
		})
	}

	start := time.Now()
	receipt, err := s.api.Publish(t.Context(), publish.PublishRequest{
		Grant: m.grant, Final: true, Expect: []string{fmt.Sprintf("frame.[%06d-%06d].exr", 1, manyFiles)}, Release: true,
	})
	if err != nil || receipt.Files != manyFiles {
		t.Fatalf("the publish: %+v, %v", receipt, err)
	}
	if took := time.Since(start); took > time.Minute/2 {
		t.Errorf("the publish took %s", took)
	} else {
		t.Logf("the publish took %s", took.Round(time.Millisecond))
	}
	m.list(receipt)
	if grown := s.peakMemory(t) - before; grown > manyMemory {
		t.Errorf("the server's memory has grown by %d MiB", grown>>10)
	} else {
		t.Logf("the server's memory has grown by %d MiB from %d MiB", grown>>10, before>>10)
	}
}

// many is the generation of many files.
type many struct {
	t     *testing.T
	s     *server
	grant publish.Grant
}

func (m many) path(n int) publish.Path { return publish.Path(fmt.Sprintf("frame.%06d.exr", n)) }
func (m many) content(n int) string    { return fmt.Sprintf("pixels of frame %d\n", n) }

func (m many) upload(ctx context.Context, n int) error {
	text := m.content(n)
	_, err := m.s.api.Upload(ctx, publish.UploadRequest{Grant: m.grant, Path: m.path(n), Size: int64(len(text)), Body: strings.NewReader(text)})
	return err
}

// registerSQL does what the server does in Postgres for each upload, by the same functions, but many in one transaction.
const registerSQL = `
WITH begun AS MATERIALIZED (
	SELECT n, path, pawl.begin_upload($1, $2, $3, path, decode(md5(path), 'hex'), NULL, false) AS upload
	FROM generate_series($4::int, $5::int) n, LATERAL (SELECT format('frame.%s.exr', lpad(n::text, 6, '0')) AS path) p),
completed AS MATERIALIZED (
	SELECT pawl.complete_upload($1, $2, $3, path, (upload->>'upload_no')::bigint, length(text), sha256(text::bytea), 'image/x-exr') AS answer
	FROM begun, LATERAL (SELECT format(E'pixels of frame %s\n', n) AS text) c)
SELECT count(*) FILTER (WHERE answer->'refused' IS NULL), min(answer->>'refused') FROM completed`

// registered is how many files one transaction makes known. Each path takes a lock, of which Postgres has some thousands for all tests.
const registered = 250

// register makes up to registered files from first on known to the database, as if they had been uploaded.
func (m many) register(ctx context.Context, dsn string, first int) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	last, secret := min(first+registered-1, manyFiles), m.grant.LeaseID.SHA256()
	var done int
	var refused *string
	if err := conn.QueryRow(ctx, registerSQL, string(m.grant.Key), int64(m.grant.Token), secret[:], first, last).Scan(&done, &refused); err != nil {
		return err
	}
	if refused != nil || done != last-first+1 {
		return fmt.Errorf("%d files from %d to %d, refused: %v", done, first, last, refused)
	}
	return nil
}

// sideBySide does something for the numbers from first to last, several at once.
func (m many) sideBySide(what string, first, last int, do func(context.Context, int) error) {
	m.t.Helper()
	ctx, fail := context.WithCancelCause(m.t.Context())
	defer fail(nil)
	start := time.Now()
	var next atomic.Int64
	next.Store(int64(first) - 1)
	var workers sync.WaitGroup
	for range 4 * runtime.NumCPU() {
		workers.Go(func() {
			for ctx.Err() == nil {
				n := int(next.Add(1))
				if n > last {
					return
				}
				if err := do(ctx, n); err != nil {
					fail(fmt.Errorf("%d of %s: %w", n, what, err))
				}
			}
		})
	}
	workers.Wait()
	if err := context.Cause(ctx); err != nil {
		m.t.Fatal(err)
	}
	m.t.Logf("%s: %d in %s", what, last-first+1, time.Since(start).Round(time.Millisecond))
}

// list reads all pages of the list of files, in pages as people and as programs ask for.
func (m many) list(receipt publish.Receipt) {
	m.t.Helper()
	listed, slowest := 0, time.Duration(0)
	for after := publish.Path(""); ; {
		start := time.Now()
		page, err := m.s.api.Files(m.t.Context(), receipt.Key, receipt.Token, after, publish.MaxPageSize)
		if err != nil {
			m.t.Fatal(err)
		}
		slowest = max(slowest, time.Since(start))
		for _, file := range page.Files {
			if listed++; file.Path != m.path(listed) || file.Size != int64(len(m.content(listed))) {
				m.t.Fatalf("file %d in the list is %+v", listed, file)
			}
		}
		if after = page.Next; after == "" {
			break
		}
		if len(page.Files) != publish.MaxPageSize || after != m.path(listed) {
			m.t.Fatalf("after %d files the page has %d and goes on after %s", listed, len(page.Files), after)
		}
	}
	m.t.Logf("%d files listed, the slowest page of %d in %s", listed, publish.MaxPageSize, slowest.Round(time.Millisecond))
	if listed != manyFiles || slowest > time.Second {
		m.t.Errorf("%d files are listed, the slowest page in %s", listed, slowest)
	}
}
