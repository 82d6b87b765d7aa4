package blobstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// able is what versitygw does; the start-up check finds it out.
var able = Capabilities{CreateOnlyPut: true, CreateOnlyComplete: true, ChecksumSHA256: true, ChecksumCRC64NVME: true, Presign: true}

func directName(path string) publish.ObjectName {
	return publish.ObjectName("k/-/1/" + strings.Repeat("ab", 16) + "/" + path)
}

// send carries a signed request out and returns the status of its answer. A server that refuses a body may cut the
// connection under it: that counts as 400.
func send(t *testing.T, signed publish.SignedRequest, body []byte) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), signed.Method, signed.URL, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range signed.Headers {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return http.StatusBadRequest
	}
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

func fileOf(path string, data []byte) publish.File {
	return publish.File{Path: publish.Path(path), Size: int64(len(data)), SHA256: sha256.Sum256(data), ContentType: "image/png"}
}

// TestDirectPut: a signed single request stores the promised bytes and no others, before and after it was used. Whichever of the two
// promises a server keeps is enough for that.
func TestDirectPut(t *testing.T) {
	t.Parallel()
	good, bad, long := []byte("the promised bytes"), []byte("some other bytes.."), []byte("the promised bytes and more")
	for name, able := range map[string]Capabilities{
		"both":        able,
		"create only": {CreateOnlyPut: true, Presign: true},
		"checksum":    {ChecksumSHA256: true, Presign: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openS3(t, testenv.S3Bucket(t), "direct")
			s.SetCapable(able)
			if plan, offered := s.PlanDirect(int64(len(good))); !offered || plan.Parts != 0 {
				t.Fatalf("planned as %+v, %t", plan, offered)
			}
			object := directName("a+b %2B ü?x=1#y 🐾.png") // Case 33.
			signed, err := s.SignPut(t.Context(), object, fileOf("f", good), time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			if status := send(t, signed, long); status < 400 {
				t.Errorf("a body of another length was answered with %d", status)
			}
			unbound := signed
			unbound.Headers = map[string]string{"Content-Type": signed.Headers["Content-Type"]}
			if status := send(t, unbound, good); status < 400 {
				t.Errorf("the request without what binds it was answered with %d", status)
			}
			if able.ChecksumSHA256 {
				if status := send(t, signed, bad); status < 400 {
					t.Errorf("other bytes were answered with %d", status)
				}
			}
			if _, err := s.Prove(t.Context(), object); !errors.Is(err, publish.ErrObjectNotFound) {
				t.Fatalf("before the upload, Prove gave %v", err)
			}
			if status := send(t, signed, good); status != http.StatusOK {
				t.Fatalf("the promised bytes were answered with %d", status)
			}
			_ = send(t, signed, bad) // Used again: whatever the answer is, the bytes stay.
			checkObject(t, s, object, good)
			proof, err := s.Prove(t.Context(), object)
			if err != nil {
				t.Fatal(err)
			}
			if want := publish.Digest(sha256.Sum256(good)); able.ChecksumSHA256 && proof.SHA256 != want || proof.Size != int64(len(good)) {
				t.Errorf("proved %+v; want %s", proof, want)
			}
		})
	}
}

func checkObject(t *testing.T, s *S3, object publish.ObjectName, want []byte) {
	t.Helper()
	from, err := s.Open(t.Context(), object, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	if got, err := io.ReadAll(from); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the object has %d bytes, %v; want %d others", len(got), err, len(want))
	}
}

// TestDirectPlan: nothing is offered that could be overwritten, and parts are never more than S3 takes.
func TestDirectPlan(t *testing.T) {
	t.Parallel()
	s := openS3(t, testenv.S3Bucket(t), "direct")
	for _, test := range []struct {
		able    Capabilities
		size    int64
		offered bool
		plan    publish.DirectPlan
	}{
		{Capabilities{}, 5, false, publish.DirectPlan{}},
		{Capabilities{CreateOnlyPut: true, ChecksumSHA256: true}, 5, false, publish.DirectPlan{}},
		{Capabilities{Presign: true}, 5, true, publish.DirectPlan{PartSize: partSize, Parts: 1}},
		{Capabilities{Presign: true, CreateOnlyComplete: true}, 5, true, publish.DirectPlan{PartSize: partSize, Parts: 1}},
		{able, 0, false, publish.DirectPlan{}},
		{able, partSize, true, publish.DirectPlan{}},
		{able, partSize + 1, true, publish.DirectPlan{PartSize: partSize, Parts: 2, PartChecksum: true}},
		{able, 5 << 40, true, publish.DirectPlan{PartSize: 525 << 20, Parts: 9987, PartChecksum: true}},
	} {
		s.SetCapable(test.able)
		if plan, offered := s.PlanDirect(test.size); offered != test.offered || plan != test.plan {
			t.Errorf("%d bytes by %+v: planned as %+v, %t; want %+v, %t", test.size, test.able, plan, offered, test.plan, test.offered)
		}
	}
}

// TestDirectParts: parts come in any order, some twice, some by a second attempt; finishing makes them an object whose checksum the
// server has computed, once and for all.
func TestDirectParts(t *testing.T) {
	t.Parallel()
	s := openS3(t, testenv.S3Bucket(t), "direct")
	s.SetCapable(able)
	object := directName("big.bin")
	const part = 5 << 20
	data := bytes.Repeat([]byte("0123456789abcdef!"), 11<<20/17)
	if _, err := s.FindParts(t.Context(), object); !errors.Is(err, publish.ErrObjectNotFound) {
		t.Fatalf("parts of nothing: %v", err)
	}
	empty, err := s.StartParts(t.Context(), object, "image/png") // The first answer was lost.
	if err != nil {
		t.Fatal(err)
	}
	id, err := s.StartParts(t.Context(), object, "image/png")
	if err != nil {
		t.Fatal(err)
	}
	sendPart := func(number int) publish.SignedRequest {
		t.Helper()
		chunk := data[(number-1)*part : min(len(data), number*part)]
		crc := publish.CRC64NVMEOf(chunk)
		signed, err := s.SignPart(t.Context(), object, id, number, int64(len(chunk)), &crc, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if status := send(t, signed, bytes.Repeat([]byte("x"), len(chunk))); status < 400 {
			t.Errorf("other bytes for a part were answered with %d", status)
		}
		if status := send(t, signed, chunk[:100]); status < 400 {
			t.Errorf("a part that is too short was answered with %d", status)
		}
		if status := send(t, signed, chunk); status != http.StatusOK {
			t.Fatalf("part %d was answered with %d", number, status)
		}
		return signed
	}
	for _, number := range []int{3, 1, 3} {
		sendPart(number)
	}
	if found, err := s.FindParts(t.Context(), object); err != nil || found != id {
		t.Errorf("found the parts %q, %v; want those of %q", found, err, id)
	}
	late := sendPart(2)
	parts, err := s.ListParts(t.Context(), object, id)
	if err != nil {
		t.Fatal(err)
	}
	var sizes []int64
	for _, p := range parts {
		sizes = append(sizes, int64(p.Number), p.Size)
	}
	if want := []int64{1, part, 2, part, 3, int64(len(data)) - 2*part}; !slices.Equal(sizes, want) {
		t.Fatalf("parts %d; want %d", sizes, want)
	}
	for range 2 {
		if err := s.FinishParts(t.Context(), object, id, parts); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.ListParts(t.Context(), object, id); !errors.Is(err, publish.ErrObjectNotFound) {
		t.Errorf("the id is still alive: %v", err)
	}
	if status := send(t, late, data[part:2*part]); status < 400 {
		t.Errorf("a part after the end was answered with %d", status)
	}
	checkObject(t, s, object, data)
	proof, err := s.Prove(t.Context(), object)
	if err != nil {
		t.Fatal(err)
	}
	if want := publish.CRC64NVMEOf(data); proof.CRC64NVME == nil || *proof.CRC64NVME != want || !proof.SHA256.IsZero() || proof.Size != int64(len(data)) {
		t.Errorf("proved %+v; want the CRC %016x", proof, want)
	}
	// What the lost answer has left goes with the object.
	if _, err := s.ListParts(t.Context(), object, empty); err != nil {
		t.Errorf("the upload of the lost answer: %v", err)
	}
	if err := s.Discard(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Prove(t.Context(), object); !errors.Is(err, publish.ErrObjectNotFound) {
		t.Errorf("after Discard, Prove gave %v", err)
	}
}

// TestDirectExpired: a signed request is refused after its time, and a canceled context ends what calls the server.
func TestDirectExpired(t *testing.T) {
	t.Parallel()
	s := openS3(t, testenv.S3Bucket(t), "direct")
	s.SetCapable(able)
	data := []byte("late")
	signed, err := s.SignPut(t.Context(), directName("f"), fileOf("f", data), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, 10*time.Second, func() error {
		if time.Until(signed.ExpiresAt.Add(time.Second)) > 0 {
			return errors.New("the request is valid still")
		}
		return nil
	})
	if status := send(t, signed, data); status != http.StatusForbidden {
		t.Errorf("an expired request was answered with %d", status)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, startErr := s.StartParts(ctx, directName("f"), "")
	_, findErr := s.FindParts(ctx, directName("f"))
	_, listErr := s.ListParts(ctx, directName("f"), "id")
	_, proveErr := s.Prove(ctx, directName("f"))
	for call, err := range map[string]error{
		"StartParts": startErr, "FindParts": findErr, "ListParts": listErr, "Prove": proveErr,
		"FinishParts": s.FinishParts(ctx, directName("f"), "id", nil),
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s gave %v", call, err)
		}
	}
}
