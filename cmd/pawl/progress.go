package main

// meter is told how a transfer goes on. Its methods may be called from many goroutines at once.
type meter interface {
	// Expect adds to what is to be transferred.
	Expect(files int, bytes int64)
	// Add tells of bytes that went, or of a negative number when they must go again.
	Add(bytes int64)
	// FileDone tells that one more file is there.
	FileDone()
	// Stop ends the showing, whatever has come until then.
	Stop()
}

// noMeter shows nothing.
type noMeter struct{}

func (noMeter) Expect(int, int64) {}
func (noMeter) Add(int64)         {}
func (noMeter) FileDone()         {}
func (noMeter) Stop()             {}

func (a *app) meter() meter { return noMeter{} }
