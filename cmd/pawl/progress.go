package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/sys/unix"
)

// meter is told how a transfer goes on. Its methods may be called from many goroutines at once.
type meter interface {
	// Expect adds to what is to be transferred.
	Expect(files int, bytes int64)
	// Add tells of bytes that went, or of a negative number when they must go again.
	Add(bytes int64)
	// FileDone tells that one more file is there.
	FileDone()
	// Stop ends the showing, whatever has come until then. It may be called again.
	Stop()
}

// When a meter shows something first, and how often it is drawn anew, and on a terminal that can only go on to the next line.
const (
	meterDelay = 300 * time.Millisecond
	meterTick  = 150 * time.Millisecond
	lineEvery  = 10 * time.Second
)

// meter shows a transfer on stderr when that is a terminal and nobody has asked for silence. A terminal that knows no escape codes gets a line
// now and then.
func (a *app) meter() meter {
	terminal, ok := a.stderr.(*os.File)
	if !ok || a.json || a.quiet || !isTerminal(terminal) {
		return noMeter{}
	}
	m := &tally{start: time.Now(), stop: make(chan struct{}), ended: make(chan struct{})}
	if term := a.getenv("TERM"); term == "" || term == "dumb" {
		go m.showLines(a, lineEvery)
	} else {
		go m.showBar(terminal)
	}
	return m
}

// isTerminal reports whether a file is a terminal: only they have a size.
func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ) //nolint:gosec // A file descriptor is small.
	return err == nil
}

// noMeter shows nothing.
type noMeter struct{}

func (noMeter) Expect(int, int64) {}
func (noMeter) Add(int64)         {}
func (noMeter) FileDone()         {}
func (noMeter) Stop()             {}

// toldReader tells of bytes as they come.
type toldReader struct {
	from io.Reader
	told func(n int64)
}

func (r *toldReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	if n > 0 {
		r.told(int64(n))
	}
	return n, err
}

// toldSeeker is a toldReader that takes back what it has told when it is rewound.
type toldSeeker struct {
	toldReader
	seeker io.Seeker
	n      int64
}

// tellOf wraps a reader, and keeps it an io.Seeker if it is one.
func tellOf(from io.Reader, told func(n int64)) io.Reader {
	seeker, ok := from.(io.Seeker)
	if !ok {
		return &toldReader{from, told}
	}
	s := &toldSeeker{seeker: seeker}
	s.toldReader = toldReader{from, func(n int64) { s.n += n; told(n) }}
	return s
}

// Seek goes to another place, from which all is sent anew.
func (s *toldSeeker) Seek(offset int64, whence int) (int64, error) {
	at, err := s.seeker.Seek(offset, whence)
	if err == nil && whence == io.SeekStart && s.n != 0 {
		s.told(-s.n)
	}
	return at, err
}

// tally counts, and a goroutine of its own shows the counts until Stop.
type tally struct {
	files, bytes         atomic.Int64 // to be transferred
	filesDone, bytesDone atomic.Int64
	start                time.Time
	once                 sync.Once
	stop, ended          chan struct{}
}

func (t *tally) Expect(files int, bytes int64) {
	t.files.Add(int64(files))
	t.bytes.Add(bytes)
}

func (t *tally) Add(bytes int64) { t.bytesDone.Add(bytes) }
func (t *tally) FileDone()       { t.filesDone.Add(1) }

func (t *tally) Stop() {
	t.once.Do(func() { close(t.stop) })
	<-t.ended
}

// wait waits for d and reports whether Stop let it.
func (t *tally) wait(d time.Duration) bool {
	select {
	case <-t.stop:
		return false
	case <-time.After(d):
		return true
	}
}

func (t *tally) showBar(terminal *os.File) {
	defer close(t.ended)
	if !t.wait(meterDelay) {
		return
	}
	progress := mpb.New(mpb.WithOutput(terminal), mpb.WithRefreshRate(meterTick))
	files := decor.Any(func(decor.Statistics) string {
		if all := t.files.Load(); all != 1 {
			return fmt.Sprintf("%d/%d files ", t.filesDone.Load(), all)
		}
		return ""
	})
	// With a total of 0 the bar ends only when it is told to: bytes may have to go again.
	bar := progress.AddBar(0,
		mpb.PrependDecorators(files, decor.CountersKibiByte("% .1f / % .1f ")),
		mpb.AppendDecorators(
			decor.NewAverageSpeed(decor.SizeB1024(0), "% .1f", t.start),
			decor.Name(" "),
			decor.NewAverageETA(decor.ET_STYLE_GO, t.start, nil),
		),
	)
	for more := true; more; more = t.wait(meterTick) {
		done := max(t.bytesDone.Load(), 0)
		bar.SetTotal(max(t.bytes.Load(), done, 1), false)
		bar.SetCurrent(done)
	}
	bar.Abort(false)
	progress.Wait()
}

func (t *tally) showLines(a *app, every time.Duration) {
	defer close(t.ended)
	for t.wait(every) {
		done, all, took := max(t.bytesDone.Load(), 0), t.bytes.Load(), time.Since(t.start)
		left := "?"
		if done > 0 {
			left = time.Duration(float64(took) / float64(done) * float64(max(all-done, 0))).Round(time.Second).String()
		}
		a.notice("%d/%d files, %.1f / %.1f, %.1f/s, %s left", t.filesDone.Load(), t.files.Load(),
			decor.SizeB1024(done), decor.SizeB1024(all), decor.SizeB1024(float64(done)/took.Seconds()), left)
	}
}
