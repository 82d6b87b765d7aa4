package client_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/publish"
)

// fakeParts is a server and its blob store behind one transport, so that time can be made to fly. The store forgets what doesn't
// come under a fresh signature, as S3 does.
type fakeParts struct {
	t        *testing.T
	content  []byte
	partSize int64
	validFor time.Duration
	// part decides about each part that comes, and takes its time; nil stores it at once.
	part func(number, attempt int) (status int)
	// complete decides about each completion; nil says yes.
	complete func(attempt int) (status int, body string)
	begin    func(attempt int) (status int, body string)

	mu        sync.Mutex
	stored    map[int][]byte
	attempts  map[int]int
	begun     int
	completed int
	signed    int // requests for signatures
	single    bool
}

func newFakeParts(t *testing.T, size int, partSize int64) *fakeParts {
	content := make([]byte, size)
	for i := range content {
		content[i] = byte(i * 7)
	}
	return &fakeParts{t: t, content: content, partSize: partSize, validFor: 15 * time.Minute, stored: map[int][]byte{}, attempts: map[int]int{}}
}

func (f *fakeParts) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Host == "store" {
		return f.storePart(req)
	}
	if req.Header.Get("Pawl-Lease") == "" || req.Header.Get("Authorization") != "Bearer canary" {
		f.t.Errorf("%s without the client's credentials", req.URL)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch path := req.URL.Path; {
	case strings.HasSuffix(path, "/uploads"):
		f.begun++
		if f.begin != nil {
			if status, body := f.begin(f.begun); status != 0 {
				return f.answer(req, status, body)
			}
		}
		return f.answer(req, 201, f.begunAnswer())
	case strings.HasSuffix(path, "/parts"):
		f.signed++
		var asked struct {
			Numbers []int `json:"part_numbers"`
		}
		if err := json.NewDecoder(req.Body).Decode(&asked); err != nil {
			return nil, err
		}
		var parts []map[string]any
		for _, number := range asked.Numbers {
			start := int64(number-1) * f.partSize
			part := f.sign(strconv.Itoa(number))
			part["part_number"], part["size"] = number, min(f.partSize, int64(len(f.content))-start)
			parts = append(parts, part)
		}
		return f.answer(req, 200, jsonOf(map[string]any{"parts": parts}))
	case strings.HasSuffix(path, "/complete"):
		f.completed++
		if f.complete != nil {
			if status, body := f.complete(f.completed); status != 0 {
				return f.answer(req, status, body)
			}
		}
		return f.answer(req, 201, `{"path":"f","size":`+strconv.Itoa(len(f.content))+`}`)
	default:
		return f.answer(req, 404, "")
	}
}

func (f *fakeParts) sign(number string) map[string]any {
	return map[string]any{
		"method": "PUT", "headers": map[string]string{"X-Bound": "yes"},
		"url":        fmt.Sprintf("http://store/%s?signature=%d", number, time.Now().Add(f.validFor).UnixMilli()),
		"expires_at": time.Now().Add(f.validFor).UTC().Format(time.RFC3339Nano),
	}
}

func (f *fakeParts) begunAnswer() string {
	answer := map[string]any{"upload_id": "id", "part_size": f.partSize, "parts": 0, "uploaded": []int{}}
	if f.single {
		answer["put"], answer["part_size"] = f.sign("0"), 0
		return jsonOf(answer)
	}
	uploaded := []int{}
	for number := range f.stored {
		uploaded = append(uploaded, number)
	}
	slices.Sort(uploaded)
	answer["parts"], answer["uploaded"] = publish.PartsOf(int64(len(f.content)), f.partSize), uploaded
	return jsonOf(answer)
}

func (f *fakeParts) storePart(req *http.Request) (*http.Response, error) {
	for name := range req.Header {
		if name == "Pawl-Lease" || name == "Authorization" || name == "Cookie" {
			f.t.Errorf("%s goes to the store", name)
		}
	}
	if req.Header.Get("X-Bound") != "yes" {
		f.t.Error("a header that was signed is missing")
	}
	number, err := strconv.Atoi(strings.TrimPrefix(req.URL.Path, "/"))
	if err != nil {
		return nil, err
	}
	until, err := strconv.ParseInt(req.URL.Query().Get("signature"), 10, 64)
	if err != nil {
		return nil, err
	}
	late := time.Now().UnixMilli() > until // Told at the start, as S3 does.
	f.mu.Lock()
	f.attempts[number]++
	attempt := f.attempts[number]
	f.mu.Unlock()
	data, err := io.ReadAll(req.Body)
	if err != nil || int64(len(data)) != req.ContentLength {
		return nil, fmt.Errorf("%d bytes of %d: %w", len(data), req.ContentLength, err)
	}
	status := 200
	if late {
		status = 403
	} else if f.part != nil {
		status = f.part(number, attempt)
	}
	if status == 0 {
		return nil, errors.New("connection reset")
	}
	if status == 200 {
		f.mu.Lock()
		f.stored[number] = data
		f.mu.Unlock()
	}
	return f.answer(req, status, "<Error><Code>Injected</Code><Message>by the test</Message></Error>")
}

func (f *fakeParts) answer(req *http.Request, status int, body string) (*http.Response, error) {
	header := http.Header{"Content-Type": {"application/json"}}
	if status >= 400 && req.URL.Host != "store" {
		header.Set("Content-Type", "application/problem+json")
	}
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Request: req,
	}, nil
}

func jsonOf(v any) string {
	text, _ := json.Marshal(v)
	return string(text)
}

// upload uploads the content and returns how many bytes the caller was told of.
func (f *fakeParts) upload(ctx context.Context) (sent int64, err error) {
	c, err := client.New("http://pawl", client.Options{Credential: "canary", Transport: f})
	if err != nil {
		f.t.Fatal(err)
	}
	var told atomic.Int64
	_, err = c.UploadFile(ctx, client.FileUpload{
		Grant: publish.Grant{Key: "k", Token: 1, LeaseID: publish.NewLeaseID()}, Path: "f", Mode: client.DirectAlways,
		Source: bytes.NewReader(f.content), Size: int64(len(f.content)), Digest: sha256.Sum256(f.content),
		Sent: func(n int64) { told.Add(n) },
	})
	return told.Load(), err
}

// check fails unless the store has the content, whole.
func (f *fakeParts) check(sent int64, err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
	var got []byte
	for number := 1; number <= publish.PartsOf(int64(len(f.content)), f.partSize); number++ {
		got = append(got, f.stored[number]...)
	}
	if f.single {
		got = f.stored[0]
	}
	if !bytes.Equal(got, f.content) || f.completed == 0 {
		f.t.Errorf("the store has %d bytes, completed %d times", len(got), f.completed)
	}
	if sent != int64(len(f.content)) {
		f.t.Errorf("told of %d bytes of %d", sent, len(f.content))
	}
}

// TestCase31BadPartAlone: a part that fails in every way that passes is sent again, and no other is.
func TestCase31BadPartAlone(t *testing.T) {
	for _, status := range []int{0, 400, 403, 408, 409, 429, 500, 502, 503, 504} {
		synctest.Test(t, func(t *testing.T) {
			f := newFakeParts(t, 105, 10)
			f.part = func(number, attempt int) int {
				if number == 7 && attempt <= 3 {
					return status
				}
				return 200
			}
			f.check(f.upload(t.Context()))
			for number, attempts := range f.attempts {
				if want := map[bool]int{true: 4, false: 1}[number == 7]; attempts != want {
					t.Errorf("status %d: part %d was sent %d times; want %d", status, number, attempts, want)
				}
			}
		})
	}
}

// TestCase31BadForEver: a part that never goes ends the upload with an error that names it, and leaves the rest for the next call.
func TestCase31BadForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeParts(t, 105, 10)
		bad := 503
		f.part = func(number, _ int) int {
			if number == 7 {
				return bad
			}
			return 200
		}
		_, err := f.upload(t.Context())
		if err == nil || !strings.Contains(err.Error(), "part 7") || !strings.Contains(err.Error(), "503 Injected") || f.completed != 0 {
			t.Fatalf("got %v, completed %d times", err, f.completed)
		}
		if strings.Contains(err.Error(), "signature") {
			t.Errorf("the error tells the signed address: %v", err)
		}
		before := len(f.stored)
		bad = 200
		f.check(f.upload(t.Context()))
		again := 0
		for number, attempts := range f.attempts {
			if number != 7 && attempts > 1 {
				again++
			}
		}
		if again > 0 || before == 0 {
			t.Errorf("%d of %d parts that had come were sent again", again, before)
		}
	})
}

// TestCase47 uploads for 40 minutes and more with requests that are valid for 15: each is signed shortly before it is used.
func TestCase47(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeParts(t, 400, 10)
		f.part = func(int, int) int {
			time.Sleep(4*time.Minute + 30*time.Second)
			return 200
		}
		start := time.Now()
		f.check(f.upload(t.Context()))
		if took := time.Since(start); took < 40*time.Minute {
			t.Fatalf("it took %s", took)
		}
		for number, attempts := range f.attempts {
			if attempts != 1 {
				t.Errorf("part %d was sent %d times", number, attempts)
			}
		}
	})
}

// TestDirectExpiredBySkew: where the store's clock is ahead, a refused signature is replaced at once.
func TestDirectExpiredBySkew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeParts(t, 30, 10)
		f.validFor = -time.Second
		f.part = func(int, int) int { return 200 }
		go func() {
			time.Sleep(50 * time.Millisecond)
			f.mu.Lock()
			defer f.mu.Unlock()
			f.validFor = time.Minute
		}()
		f.check(f.upload(t.Context()))
	})
}

// TestDirectPartsGone: what the store has lost is begun again, a few times.
func TestDirectPartsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeParts(t, 30, 10)
		f.part = func(number, attempt int) int {
			if number == 2 && attempt == 1 {
				return 404
			}
			return 200
		}
		f.complete = func(attempt int) (int, string) {
			if attempt == 1 {
				delete(f.stored, 3)
				return 400, `{"code":"length-mismatch"}`
			}
			return 0, ""
		}
		_, err := f.upload(t.Context())
		if err != nil || f.begun < 3 {
			t.Errorf("begun %d times: %v", f.begun, err)
		}
		f.part = func(int, int) int { return 404 }
		f.stored = map[int][]byte{}
		if _, err := f.upload(t.Context()); err == nil {
			t.Error("an upload whose parts are always lost came to an end")
		}
	})
}

// TestDirectVerifying: while the server verifies, the client waits on; its refusals come through as they are.
func TestDirectVerifying(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeParts(t, 30, 10)
		f.complete = func(attempt int) (int, string) {
			if attempt < 100 {
				return 202, `{"state":"verifying","verified_bytes":5}`
			}
			return 0, ""
		}
		f.check(f.upload(t.Context()))
	})
	for code, want := range map[string]error{"stale-token": publish.ErrStaleToken, "digest-mismatch": publish.ErrDigestMismatch} {
		synctest.Test(t, func(t *testing.T) {
			f := newFakeParts(t, 30, 10)
			f.complete = func(int) (int, string) { return 409, `{"code":"` + code + `"}` }
			if _, err := f.upload(t.Context()); !errors.Is(err, want) || f.completed != 1 {
				t.Errorf("got %v after %d completions", err, f.completed)
			}
		})
	}
}

// TestDirectSingle: one request, sent again until it is there; a condition that fails on our own object is success.
func TestDirectSingle(t *testing.T) {
	for _, statuses := range [][]int{{200}, {503, 200}, {0, 412}, {403, 0, 500, 200}} {
		synctest.Test(t, func(t *testing.T) {
			f := newFakeParts(t, 30, 0)
			f.single = true
			f.part = func(_, attempt int) int {
				if status := statuses[attempt-1]; status != 412 {
					return status
				}
				f.mu.Lock()
				defer f.mu.Unlock()
				f.stored[0] = f.content
				return 412
			}
			f.check(f.upload(t.Context()))
		})
	}
}

// TestDirectFenced: a worker that is superseded in the middle stops at the next signature.
func TestDirectFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeParts(t, 1000, 10)
		stale := &staleSigner{fakeParts: f}
		c, err := client.New("http://pawl", client.Options{Credential: "canary", Transport: stale})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.UploadFile(t.Context(), client.FileUpload{
			Grant: publish.Grant{Key: "k", Token: 1, LeaseID: publish.NewLeaseID()}, Path: "f", Mode: client.DirectAlways,
			Source: bytes.NewReader(f.content), Size: 1000, Digest: sha256.Sum256(f.content),
		})
		if !errors.Is(err, publish.ErrStaleToken) || f.completed != 0 || len(f.stored) > 40 {
			t.Errorf("got %v after %d parts and %d completions", err, len(f.stored), f.completed)
		}
	})
}

type staleSigner struct{ *fakeParts }

func (s *staleSigner) RoundTrip(req *http.Request) (*http.Response, error) {
	if strings.HasSuffix(req.URL.Path, "/parts") && s.signed >= 2 {
		return s.answer(req, 409, `{"code":"stale-token"}`)
	}
	return s.fakeParts.RoundTrip(req)
}

// TestDirectCanceled: a context ends the upload soon, with its cause.
func TestDirectCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeParts(t, 1000, 10)
		f.part = func(int, int) int { time.Sleep(time.Second); return 503 }
		cause := errors.New("lease lost")
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			time.Sleep(1500 * time.Millisecond)
			cancel(cause)
		}()
		if _, err := f.upload(ctx); !errors.Is(err, cause) || f.completed != 0 {
			t.Errorf("got %v", err)
		}
	})
}

// unreachable is a server whose store has an address that leads nowhere from here.
type unreachable struct {
	*fakeParts
	put int // files that came through the server
}

func (u *unreachable) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Host == "store" {
		return nil, &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "store", IsNotFound: true}}
	}
	if req.Method == http.MethodPut {
		u.put++
		data, err := io.ReadAll(req.Body)
		if err != nil || !bytes.Equal(data, u.content) {
			u.t.Errorf("%d bytes came: %v", len(data), err)
		}
		return u.answer(req, 201, `{"path":"f"}`)
	}
	return u.fakeParts.RoundTrip(req)
}

// TestDirectUnreachable: where the store can't be reached from here, the file goes through the server, unless it must not.
func TestDirectUnreachable(t *testing.T) {
	for mode, through := range map[client.DirectMode]int{client.DirectAuto: 1, client.DirectAlways: 0} {
		f := newFakeParts(t, client.DirectFrom+5, client.DirectFrom/2)
		way := &unreachable{fakeParts: f}
		c, err := client.New("http://pawl", client.Options{Credential: "canary", Transport: way})
		if err != nil {
			t.Fatal(err)
		}
		var told atomic.Int64
		_, err = c.UploadFile(t.Context(), client.FileUpload{
			Grant: publish.Grant{Key: "k", Token: 1, LeaseID: publish.NewLeaseID()}, Path: "f", Mode: mode,
			Source: bytes.NewReader(f.content), Size: int64(len(f.content)), Digest: sha256.Sum256(f.content),
			Sent: func(n int64) { told.Add(n) },
		})
		if (err == nil) != (through == 1) || way.put != through || f.completed != 0 {
			t.Errorf("%s: %v; %d came through the server", mode, err, way.put)
		}
		if want := int64(through * len(f.content)); told.Load() != want {
			t.Errorf("%s: told of %d bytes; want %d", mode, told.Load(), want)
		}
	}
}
