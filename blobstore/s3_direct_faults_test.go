package blobstore

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// TestDirectOutcomes replaces the first answer of every call behind a direct upload by every fault, with the request carried out and
// without. Each ends in one of four ways; made again, the upload comes to its end, and nothing unfinished is left after Discard.
func TestDirectOutcomes(t *testing.T) {
	t.Parallel()
	object := directName("f")
	for call, do := range map[string]func(*testing.T, *S3, publish.PartsID, []publish.Part) error{
		"CreateMultipart": func(t *testing.T, s *S3, _ publish.PartsID, _ []publish.Part) error {
			_, err := s.StartParts(t.Context(), object, "image/png")
			return err
		},
		"ListMultipart": func(t *testing.T, s *S3, id publish.PartsID, _ []publish.Part) error {
			found, err := s.FindParts(t.Context(), object)
			if err == nil && found != id {
				t.Errorf("found %q; want %q", found, id)
			}
			return err
		},
		"ListParts": func(t *testing.T, s *S3, id publish.PartsID, want []publish.Part) error {
			parts, err := s.ListParts(t.Context(), object, id)
			if err == nil && len(parts) != len(want) {
				t.Errorf("%d parts", len(parts))
			}
			return err
		},
		"Complete": func(t *testing.T, s *S3, id publish.PartsID, parts []publish.Part) error {
			return s.FinishParts(t.Context(), object, id, parts)
		},
		"HEAD": func(t *testing.T, s *S3, id publish.PartsID, parts []publish.Part) error {
			if err := s.FinishParts(t.Context(), object, id, parts); err != nil {
				return err
			}
			_, err := s.Prove(t.Context(), object)
			return err
		},
	} {
		for _, kind := range faultKinds[:len(faultKinds)-1] {
			for _, applied := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/applied=%t", call, kind, applied), func(t *testing.T) {
					t.Parallel()
					f := &s3Fault{call: call, kind: kind, applied: applied, times: 1}
					s := openFaulty(t, f)
					s.SetCapable(able)
					id, parts := sentPart(t, s, object)
					f.arm()
					want := stored
					switch {
					case call == "Complete" && applied:
						// The object bears the upload's mark, so whatever was answered, it is known to be there.
					case call == "Complete" && (kind == "404" || kind == "412"):
						// "No such upload", or "it is there already", and then nothing is there: to be tried again.
						want = retry
					case call == "Complete":
						if !isPassing(kind) {
							want = failed
						}
					case kind == "409":
						want = retry
					case kind == "404" && call != "CreateMultipart":
						want = notFound
					case !isPassing(kind):
						want = failed
					}
					if err := do(t, s, id, parts); outcome(err) != want {
						t.Errorf("it ended as %s (%v); want %s", outcome(err), err, want)
					}
					if f.seen() == 0 {
						t.Error("the fault never happened")
					}
					if err := s.FinishParts(t.Context(), object, id, parts); err != nil {
						t.Errorf("made again: %v", err)
					}
					if err := s.Discard(t.Context(), object); err != nil {
						t.Error(err)
					}
				})
			}
		}
	}
}

// sentPart begins an upload of one part and sends it, as a client does.
func sentPart(t *testing.T, s *S3, object publish.ObjectName) (publish.PartsID, []publish.Part) {
	t.Helper()
	id, err := s.StartParts(t.Context(), object, "image/png")
	if err != nil {
		t.Fatal(err)
	}
	data := bytes.Repeat([]byte("x"), 1000)
	crc := publish.CRC64NVMEOf(data)
	signed, err := s.SignPart(t.Context(), object, id, 1, int64(len(data)), &crc, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if status := send(t, signed, data); status != http.StatusOK {
		t.Fatalf("the part was answered with %d", status)
	}
	parts, err := s.ListParts(t.Context(), object, id)
	if err != nil {
		t.Fatal(err)
	}
	return id, parts
}
