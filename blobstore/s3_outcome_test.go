package blobstore

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// The ways in which a call against S3 ends.
const (
	stored   = "stored"   // Also: done.
	conflict = "conflict" // The name is another's.
	retry    = "retry"    // Nothing is known to be there; sending it again may help.
	failed   = "failed"
	notFound = "not found"
)

func outcome(err error) string {
	var kinds []string
	if errors.Is(err, publish.ErrObjectExists) {
		kinds = append(kinds, conflict)
	}
	if errors.Is(err, publish.ErrUnavailable) {
		kinds = append(kinds, retry)
	}
	if errors.Is(err, publish.ErrObjectNotFound) {
		kinds = append(kinds, notFound)
	}
	switch {
	case err == nil:
		return stored
	case len(kinds) == 0:
		return failed
	}
	return strings.Join(kinds, " and ") // More than one is a mistake.
}

// faultKinds are what a call gets in the place of its answer.
var faultKinds = []string{"400", "403", "404", "409", "412", "429", "500", "502", "503", "504", "reset", "timeout", "blanks"}

// isPassing says which of them may be gone when the request is sent again.
func isPassing(kind string) bool {
	switch kind {
	case "400", "403", "404", "412":
		return false
	}
	return true
}

// smallParts is the least that S3 takes, which makes these tests faster.
const smallParts = 5 << 20

// openFaulty opens a store whose way to the server leads through a fault, with small parts.
func openFaulty(t *testing.T, f *s3Fault) *S3 {
	t.Helper()
	server := testenv.S3Bucket(t)
	server.Endpoint = f.start(t, server.Endpoint)
	s := openS3(t, server, "faults")
	s.memory = newPartMemory(4*smallParts, smallParts)
	s.pause = 10 * time.Millisecond
	if f.kind == "timeout" {
		s.transport.ResponseHeaderTimeout = time.Second
	}
	return s
}

// TestS3Outcomes is cases 13 and 14 and their kind: it replaces the first answer of every call that writes by every fault, with the request carried out
// and without, with the name free and taken. Whatever happens, the end is the one that is true, and no multipart upload
// is left (see openS3).
func TestS3Outcomes(t *testing.T) {
	t.Parallel()
	calls := []struct {
		call string
		size int
		in   int64 // the declared length
	}{
		{call: "PUT", size: 1000, in: 1000},
		{call: "PUT", size: 1000, in: -1}, // From memory.
		{call: "CreateMultipart", size: smallParts + 1, in: smallParts + 1},
		{call: "UploadPart", size: smallParts + 1, in: -1},
		{call: "Complete", size: smallParts + 1, in: smallParts + 1},
	}
	for _, c := range calls {
		for _, kind := range faultKinds {
			if kind == "blanks" && c.call != "Complete" {
				continue
			}
			for _, applied := range []bool{false, true} {
				for _, taken := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s%d/%s/applied=%t/taken=%t", c.call, c.in, kind, applied, taken), func(t *testing.T) {
						t.Parallel()
						want := stored
						streamed := c.call == "PUT" && c.in > 0
						ends := c.call == "PUT" || c.call == "Complete"
						switch {
						case taken && (ends || isPassing(kind)):
							want = conflict
						case ends && applied, isPassing(kind) && !streamed:
						case isPassing(kind), kind == "412" && ends, kind == "404" && strings.Contains("UploadPart Complete", c.call):
							want = retry
						default:
							want = failed
						}
						testOutcome(t, &s3Fault{call: c.call, kind: kind, applied: applied, times: 1}, c.size, c.in, taken, want)
					})
				}
			}
		}
	}
}

// TestS3OutcomesOfAbort has a part that fails for ever, and then the clean-up fails, too.
func TestS3OutcomesOfAbort(t *testing.T) {
	t.Parallel()
	for _, kind := range faultKinds {
		for _, applied := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/applied=%t", kind, applied), func(t *testing.T) {
				t.Parallel()
				f := &s3Fault{call: "Abort", kind: kind, applied: applied, times: 1, partsFail: true}
				testOutcome(t, f, smallParts+1, -1, false, retry)
			})
		}
	}
}

func testOutcome(t *testing.T, f *s3Fault, size int, declared int64, taken bool, want string) {
	t.Helper()
	s := openFaulty(t, f)
	theirs, ours := []byte("theirs"), bytes.Repeat([]byte("o"), size)
	if taken {
		if err := s.Put(t.Context(), someName, bytes.NewReader(theirs), int64(len(theirs)), ""); err != nil {
			t.Fatal(err)
		}
	}
	f.arm()
	err := s.Put(t.Context(), someName, bytes.NewReader(ours), declared, "")
	if got := outcome(err); got != want {
		t.Errorf("Put ended as %s (%v); want %s", got, err, want)
	}
	if f.seen() == 0 {
		t.Error("the fault never happened")
	}
	reader, err := s.Open(t.Context(), someName, 0, -1)
	var there []byte
	if err == nil {
		there, err = io.ReadAll(reader)
		err = errors.Join(err, reader.Close())
	}
	if err != nil && !errors.Is(err, publish.ErrObjectNotFound) {
		t.Fatal(err)
	}
	switch {
	case taken && !bytes.Equal(there, theirs), want == stored && !bytes.Equal(there, ours), !taken && want != stored && there != nil:
		t.Errorf("%d bytes are stored", len(there))
	}
}

// TestS3OutcomesOfReading does the same with the calls that may always be sent again.
func TestS3OutcomesOfReading(t *testing.T) {
	t.Parallel()
	for call, do := range map[string]func(*testing.T, *S3) error{
		"HEAD": func(t *testing.T, s *S3) error { _, err := s.Stat(t.Context(), someName); return err },
		"GET": func(t *testing.T, s *S3) error {
			reader, err := s.Open(t.Context(), someName, 0, -1)
			if err != nil {
				return err
			}
			got, err := io.ReadAll(reader)
			if err == nil && string(got) != "ours" {
				t.Errorf("%q was read", got)
			}
			return errors.Join(err, reader.Close())
		},
		"DELETE": func(t *testing.T, s *S3) error { return s.Delete(t.Context(), someName) },
		"LIST": func(t *testing.T, s *S3) (err error) {
			n := 0
			for _, err = range s.List(t.Context(), "") {
				n++
			}
			if err == nil && n != 1 {
				t.Errorf("%d objects were listed", n)
			}
			return err
		},
	} {
		for _, kind := range faultKinds[:len(faultKinds)-1] {
			for _, applied := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/applied=%t", call, kind, applied), func(t *testing.T) {
					t.Parallel()
					want := stored
					switch {
					case kind == "409":
						want = retry
					case kind == "404" && call != "LIST":
						want = notFound
					case !isPassing(kind):
						want = failed
					}
					f := &s3Fault{call: call, kind: kind, applied: applied, times: 1}
					s := openFaulty(t, f)
					if err := s.Put(t.Context(), someName, strings.NewReader("ours"), 4, ""); err != nil {
						t.Fatal(err)
					}
					f.arm()
					if err := do(t, s); outcome(err) != want {
						t.Errorf("it ended as %s (%v); want %s", outcome(err), err, want)
					}
					if f.seen() == 0 {
						t.Error("the fault never happened")
					}
				})
			}
		}
	}
}

// TestS3FaultsThatLast repeats a fault for ever: the end comes after a bounded number of requests.
func TestS3FaultsThatLast(t *testing.T) {
	t.Parallel()
	for call, size := range map[string]int{"PUT": 1000, "CreateMultipart": smallParts + 1, "UploadPart": smallParts + 1, "Complete": smallParts + 1} {
		for _, kind := range []string{"409", "503", "reset"} {
			t.Run(call+"/"+kind, func(t *testing.T) {
				t.Parallel()
				f := &s3Fault{call: call, kind: kind, times: 1000}
				testOutcome(t, f, size, -1, false, retry)
				if got := f.seen(); got < attempts || call != "UploadPart" && got != attempts || got > 2*attempts {
					t.Errorf("it was sent %d times", got)
				}
			})
		}
	}
}
