// Package page measures what people wait for: the reads behind the web page, and its screens. It has no code of its own beside the tests.
package page

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/pawlhq/pawl/blobstore"
	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/pointer"
	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// most is what a screen may take on the server.
const most = 50 * time.Millisecond

// BenchmarkPage prints the server's time of each read and of each screen with 1,000,000 keys in Postgres (PAWL_BENCH_KEYS names another
// number): the median and the greatest of 20, and how many rows were looked at or how long the page is. It fails where a median is 50 ms or more, and
// ends after measureTime at the latest.
func BenchmarkPage(b *testing.B) {
	n := 1_000_000
	if text := os.Getenv("PAWL_BENCH_KEYS"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			b.Fatal(err)
		}
	}
	dsn := testenv.Postgres(b)
	fill(b, dsn, n)
	service, done := serve(b, dsn)
	defer done()
	if err := put(b.Context(), service.Blobs, n); err != nil {
		b.Fatal(err)
	}
	handler, err := web.New(service, web.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(b.Context(), measureTime)
	defer cancel()
	for b.Loop() {
		m := measurement{B: b}
		for _, call := range reads(n) {
			m.measure(call.name, "rows", func() (int, error) { return call.do(ctx, service) })
		}
		for _, path := range screens(n) {
			m.measure("GET "+path, "bytes", func() (int, error) { return get(ctx, handler, path) })
		}
		b.ReportMetric(float64(m.worst.Microseconds())/1000, "worst-median-ms")
		b.ReportMetric(0, "ns/op")
		b.Logf("%d reads and screens; the slowest median is %s: %s", m.count, m.worst.Round(time.Millisecond/10), m.slowest)
	}
}

// measureTime bounds the measurements.
const measureTime = 10 * time.Minute

// measurement is what the reads have taken so far.
type measurement struct {
	*testing.B
	count   int
	worst   time.Duration // the greatest median
	slowest string
}

// measure runs a read often enough to tell its usual time, less often one that is far too slow.
func (m *measurement) measure(name, unit string, do func() (int, error)) {
	m.Helper()
	const warm, rounds = 2, 20
	var times []time.Duration
	size := 0
	for round, begun := 0, time.Now(); round < warm+rounds && (len(times) == 0 || time.Since(begun) < 2*rounds*most); round++ {
		begun := time.Now()
		var err error
		if size, err = do(); err != nil {
			m.Fatalf("%s: %v", name, err)
		}
		if round >= warm {
			times = append(times, time.Since(begun))
		}
	}
	slices.Sort(times)
	median := times[len(times)/2]
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	m.Logf("%7.2f ms, at most %7.2f, %7d %-5s  %s", ms(median), ms(times[len(times)-1]), size, unit, name)
	if median >= most {
		m.Errorf("%s takes %s, and may take less than %s", name, median, most)
	}
	if m.count++; median > m.worst {
		m.worst, m.slowest = median, name
	}
}

// serve ties the database to an empty blob store; done lets go of both.
func serve(t testing.TB, dsn string) (service *publish.Service, done func()) {
	t.Helper()
	pointers, err := pointer.Open(context.WithoutCancel(t.Context()), dsn, pointer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	blobs, err := blobstore.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	service = &publish.Service{Pointers: pointers, Blobs: blobs, Log: slog.New(slog.DiscardHandler)}
	return service, func() {
		service.Close()
		pointers.Close()
		_ = blobs.Close() //nolint:errcheck // It is empty.
	}
}

// get asks the handler for a page, and returns its length.
func get(ctx context.Context, handler http.Handler, path string) (int, error) {
	req := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	req.Host = "localhost"
	req.Header.Set("Accept", "text/html")
	res := httptest.NewRecorder()
	handler.ServeHTTP(res, req)
	if res.Code != http.StatusOK {
		return 0, fmt.Errorf("status %d: %.300s", res.Code, res.Body)
	}
	return res.Body.Len(), nil
}
