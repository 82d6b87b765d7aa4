package e2e

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/testenv"
)

// BenchmarkPut compares `pawl put` of 1 GiB, from its start to the receipt, with a plain program of the same S3 library, by turns in one
// run on one S3 server. It prints every time, both medians, and their ratio.
func BenchmarkPut(b *testing.B) {
	bucket := testenv.S3Bucket(b)
	s := serveS3(b, bucket)
	dir := b.TempDir()
	plain := filepath.Join(dir, "plainput")
	if out, err := exec.Command("go", "build", "-o", plain, "github.com/pawlhq/pawl/bench/plainput").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	file := filepath.Join(dir, "1GiB.bin")
	f, err := os.Create(file)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := io.CopyN(f, rand.NewChaCha8([32]byte{1}), 1<<30); err != nil {
		b.Fatal(err)
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
	run := func(command *exec.Cmd) time.Duration {
		b.Helper()
		command.Env = append(append(os.Environ(), "PAWL_URL="+s.url), s3Env(bucket)...)
		start := time.Now()
		if out, err := command.CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
		return time.Since(start)
	}
	const rounds = 7
	for b.Loop() {
		var plainTimes, pawlTimes []time.Duration
		for round := range rounds {
			name := fmt.Sprintf("bench-%d", round)
			plainTimes = append(plainTimes, run(exec.Command(plain, bucket.Endpoint, bucket.Bucket, name, file)))
			pawlTimes = append(pawlTimes, run(exec.Command(binary(b), "put", "bench/"+name, file)))
			b.Logf("round %d: plain %6.2f s, pawl put %6.2f s", round+1, plainTimes[round].Seconds(), pawlTimes[round].Seconds())
		}
		slices.Sort(plainTimes)
		slices.Sort(pawlTimes)
		median, ours := plainTimes[rounds/2].Seconds(), pawlTimes[rounds/2].Seconds()
		b.ReportMetric(median, "plain-s")
		b.ReportMetric(ours, "pawl-s")
		b.ReportMetric(ours/median, "ratio")
	}
}
