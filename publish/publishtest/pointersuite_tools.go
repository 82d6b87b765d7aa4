package publishtest

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pawlhq/pawl/publish"
)

// suiteTTL is so long that no lease of the suite runs out by itself.
const suiteTTL = time.Hour

// suite is one subtest: its store, its keys, and the steps that tests are made of. Steps end the test when they
// fail, so a test reads as what happens.
type suite struct {
	*testing.T
	PointerHarness
	prefix string
}

// key makes a key that only this subtest uses.
func (s *suite) key(name string) publish.Key { return publish.Key(s.prefix + "/" + name) }

func acquireRequest(key publish.Key, holder string) publish.AcquireRequest {
	return publish.AcquireRequest{Key: key, Holder: holder, TTL: suiteTTL, LeaseID: publish.NewLeaseID()}
}

// acquire is granted a free key.
func (s *suite) acquire(key publish.Key, holder string) publish.Grant {
	s.Helper()
	lease, err := s.Store.Acquire(s.Context(), acquireRequest(key, holder))
	if err != nil {
		s.Fatalf("%s acquires %s: %v", holder, key, err)
	}
	return publish.Grant{Key: key, Token: lease.Token, LeaseID: lease.LeaseID}
}

// takeOver lets the running lease expire and is granted the key.
func (s *suite) takeOver(key publish.Key, holder string) publish.Grant {
	s.Helper()
	s.Expire(s.T, key)
	return s.acquire(key, holder)
}

// grants is granted a new key n times, by holders named after their tokens, and returns the grants; the first one has index 1, as its token.
func (s *suite) grants(key publish.Key, n int) []publish.Grant {
	s.Helper()
	grants := make([]publish.Grant, 1, n+1)
	for i := range n {
		grants = append(grants, s.takeOver(key, "worker "+string(rune('1'+i))))
		if got := grants[i+1].Token; got != publish.Token(i+1) {
			s.Fatalf("grant %d of %s has token %d", i+1, key, got)
		}
	}
	return grants
}

func newUploadID() (id publish.UploadID) {
	_, _ = rand.Read(id[:])
	return id
}

// fileOf is a file with its facts right.
func fileOf(path publish.Path, content string) publish.File {
	return publish.File{
		Path: path, Size: int64(len(content)), SHA256: sha256.Sum256([]byte(content)),
		ContentType: publish.ContentType(path, "text/plain"),
	}
}

func beginRequest(grant publish.Grant, path publish.Path) publish.BeginUploadRequest {
	return publish.BeginUploadRequest{Grant: grant, Path: path, ID: newUploadID()}
}

// begin starts an upload and leaves it pending.
func (s *suite) begin(grant publish.Grant, path publish.Path) publish.Upload {
	s.Helper()
	start, err := s.Store.BeginUpload(s.Context(), beginRequest(grant, path))
	if err != nil || start.Existing != nil {
		s.Fatalf("begin upload of %s under %d: %+v, %v", path, grant.Token, start, err)
	}
	return start.Upload
}

// complete registers the bytes of an upload.
func (s *suite) complete(upload publish.Upload, content string) publish.UploadResult {
	s.Helper()
	result, err := s.Store.CompleteUpload(s.Context(), upload, fileOf(upload.Path, content))
	if err != nil {
		s.Fatalf("complete upload of %s under %d: %v", upload.Path, upload.Grant.Token, err)
	}
	return result
}

// fail marks an upload as failed.
func (s *suite) fail(upload publish.Upload) {
	s.Helper()
	if err := s.Store.FailUpload(s.Context(), upload, "the suite says so"); err != nil {
		s.Fatalf("fail upload of %s: %v", upload.Path, err)
	}
}

// upload stores one file.
func (s *suite) upload(grant publish.Grant, path publish.Path, content string) publish.UploadResult {
	s.Helper()
	return s.complete(s.begin(grant, path), content)
}

// remove deletes a file.
func (s *suite) remove(grant publish.Grant, path publish.Path) {
	s.Helper()
	if err := s.Store.DeleteFile(s.Context(), grant, path); err != nil {
		s.Fatalf("delete %s under %d: %v", path, grant.Token, err)
	}
}

// publish flips the pointer.
func (s *suite) publish(req publish.PublishRequest) publish.Receipt {
	s.Helper()
	receipt, err := s.Store.Publish(s.Context(), req)
	if err != nil {
		s.Fatalf("publish under %d: %v", req.Grant.Token, err)
	}
	return receipt
}

// final is the request of a final publish.
func final(grant publish.Grant) publish.PublishRequest {
	return publish.PublishRequest{Grant: grant, Final: true}
}

// output uploads one file and publishes it for good.
func (s *suite) output(grant publish.Grant, content string) publish.Receipt {
	s.Helper()
	s.upload(grant, "out.png", content)
	return s.publish(final(grant))
}

// ok ends the test when a call failed.
func (s *suite) ok(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// refused checks that err is a refusal with at least the facts of want, and returns it.
func (s *suite) refused(err error, want publish.Error) *publish.Error {
	s.Helper()
	var got *publish.Error
	if !errors.As(err, &got) || got.Code != want.Code {
		s.Fatalf("want %s, got %v", want.Code, err)
	}
	if !errors.Is(err, want.Code) {
		s.Errorf("%v doesn't unwrap to its code", err)
	}
	have, wanted := reflect.ValueOf(*got), reflect.ValueOf(want)
	for i := range wanted.NumField() {
		if name := wanted.Type().Field(i).Name; !wanted.Field(i).IsZero() {
			s.same(want.Code.Error()+": "+name, have.Field(i).Interface(), wanted.Field(i).Interface())
		}
	}
	return got
}

// same reports an unexpected difference. An absent map, slice or list is as good as an empty one, and times may differ by the
// microsecond that a store rounds to.
func (s *suite) same(what string, got, want any) {
	s.Helper()
	near := cmp.Comparer(func(a, b publish.Time) bool { return a.Sub(b.Time).Abs() <= time.Microsecond })
	if diff := cmp.Diff(want, got, near, cmpopts.EquateEmpty(), cmpopts.EquateComparable(publish.LeaseID{})); diff != "" {
		s.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// pointer reads the current pointer.
func (s *suite) pointer(key publish.Key) publish.Pointer {
	s.Helper()
	pointer, err := s.Store.Pointer(s.Context(), key)
	if err != nil {
		s.Fatalf("pointer of %s: %v", key, err)
	}
	return pointer
}

// current checks the version that a key resolves to; the zero version stands for none.
func (s *suite) current(key publish.Key, want publish.Version) {
	s.Helper()
	pointer, err := s.Store.Pointer(s.Context(), key)
	if err != nil && (!errors.Is(err, publish.ErrNotFound) || want != publish.Version{}) {
		s.Fatalf("pointer of %s: %v", key, err)
	}
	s.same("current version", pointer.Version(), want)
}

// generation reads one generation.
func (s *suite) generation(grant publish.Grant) publish.Generation {
	s.Helper()
	g, err := s.Store.Generation(s.Context(), grant.Key, grant.Token)
	if err != nil {
		s.Fatalf("generation %d of %s: %v", grant.Token, grant.Key, err)
	}
	return g
}

// files checks which files the last published revision of a generation names.
func (s *suite) files(grant publish.Grant, want ...publish.File) {
	s.Helper()
	page, err := s.Store.Files(s.Context(), grant.Key, grant.Token, "", publish.MaxPageSize)
	if err != nil {
		s.Fatalf("files of %d: %v", grant.Token, err)
	}
	s.same("published files", page, publish.FilePage{Files: want})
}

// changes are all calls that change a generation, each of them ready to be refused.
func (s *suite) changes(grant publish.Grant, path publish.Path) map[string]func() error {
	upload := publish.Upload{Grant: grant, Path: path, ID: newUploadID(), Number: 1 << 40}
	return map[string]func() error{
		"begin": func() error {
			_, err := s.Store.BeginUpload(s.Context(), beginRequest(grant, path))
			return err
		},
		"complete": func() error {
			_, err := s.Store.CompleteUpload(s.Context(), upload, fileOf(path, "late"))
			return err
		},
		"delete":  func() error { return s.Store.DeleteFile(s.Context(), grant, path) },
		"publish": func() error { _, err := s.Store.Publish(s.Context(), final(grant)); return err },
		"effect": func() error {
			_, err := s.Store.Effect(s.Context(), publish.EffectRequest{Grant: grant, Name: "effect", State: publish.EffectDone})
			return err
		},
	}
}
