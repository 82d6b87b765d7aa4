package publishtest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// DirectPartSize is the size of the double's parts, in bytes, and the most that it takes in a single request.
const DirectPartSize = 8

var _ publish.DirectStore = (*Blobs)(nil)

// multipart is one upload in parts.
type multipart struct {
	name  publish.ObjectName
	parts map[int][]byte
}

// PlanDirect takes files of up to DirectPartSize in a single request and others in parts.
func (b *Blobs) PlanDirect(size int64) (publish.DirectPlan, bool) {
	if size <= DirectPartSize {
		return publish.DirectPlan{}, size >= 1
	}
	return publish.DirectPlan{PartSize: DirectPartSize, Parts: publish.PartsOf(size, DirectPartSize)}, true
}

// SignPut makes a request that Deliver carries out: once, and with the promised length alone. It doesn't look at the bytes, as
// stores that only know create-only don't.
func (b *Blobs) SignPut(_ context.Context, name publish.ObjectName, file publish.File, validFor time.Duration) (publish.SignedRequest, error) {
	assertObjectName(name)
	return signed(url.Values{"name": {string(name)}, "size": {strconv.FormatInt(file.Size, 10)}}, validFor), nil
}

func signed(query url.Values, validFor time.Duration) publish.SignedRequest {
	return publish.SignedRequest{
		Method: http.MethodPut, URL: "double:?" + query.Encode(), Headers: map[string]string{},
		ExpiresAt: publish.Time{Time: time.Now().Add(validFor)},
	}
}

// StartParts begins an upload in parts.
func (b *Blobs) StartParts(ctx context.Context, name publish.ObjectName, _ string) (id publish.PartsID, err error) {
	assertObjectName(name)
	err = b.Faults.Do(ctx, "StartParts", func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.multiparts == nil {
			b.multiparts = map[publish.PartsID]*multipart{}
		}
		b.begun++
		id = publish.PartsID(fmt.Sprintf("parts-%d", b.begun))
		b.multiparts[id] = &multipart{name: name, parts: map[int][]byte{}}
		return nil
	})
	return id, err
}

// FindParts returns the upload of that name with the most parts.
func (b *Blobs) FindParts(ctx context.Context, name publish.ObjectName) (id publish.PartsID, err error) {
	err = b.Faults.Do(ctx, "FindParts", func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		most := -1
		for other, m := range b.multiparts {
			if m.name == name && len(m.parts) > most {
				id, most = other, len(m.parts)
			}
		}
		if id == "" {
			return publish.ErrObjectNotFound
		}
		return nil
	})
	return id, err
}

// SignPart makes a request that Deliver carries out.
func (b *Blobs) SignPart(_ context.Context, name publish.ObjectName, id publish.PartsID, number int, length int64, _ *uint64, validFor time.Duration) (publish.SignedRequest, error) {
	assertObjectName(name)
	return signed(url.Values{
		"name": {string(name)}, "id": {string(id)}, "part": {strconv.Itoa(number)}, "size": {strconv.FormatInt(length, 10)},
	}, validFor), nil
}

// Deliver carries a signed request out, as the store's own HTTP side would.
func (b *Blobs) Deliver(request publish.SignedRequest, body []byte) error {
	address, err := url.Parse(request.URL)
	if err != nil {
		return err
	}
	query := address.Query()
	name, id := publish.ObjectName(query.Get("name")), publish.PartsID(query.Get("id"))
	if query.Get("size") != strconv.Itoa(len(body)) || time.Now().After(request.ExpiresAt.Time) {
		return fmt.Errorf("delivering %d bytes to %s: the signature is about another request", len(body), name)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if id == "" {
		if _, taken := b.objects[name]; taken {
			return publish.ErrObjectExists
		}
		b.objects[name] = append([]byte(nil), body...)
		return nil
	}
	m := b.multiparts[id]
	number, err := strconv.Atoi(query.Get("part"))
	if m == nil || m.name != name || err != nil {
		return publish.ErrObjectNotFound
	}
	m.parts[number] = append([]byte(nil), body...)
	return nil
}

// ListParts returns what has been delivered.
func (b *Blobs) ListParts(ctx context.Context, name publish.ObjectName, id publish.PartsID) (parts []publish.Part, err error) {
	err = b.Faults.Do(ctx, "ListParts", func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		m := b.multiparts[id]
		if m == nil || m.name != name {
			return publish.ErrObjectNotFound
		}
		for number := 1; len(parts) < len(m.parts); number++ {
			if data, come := m.parts[number]; come {
				parts = append(parts, publish.Part{Number: number, Size: int64(len(data))})
			}
		}
		return nil
	})
	return parts, err
}

// FinishParts joins the parts.
func (b *Blobs) FinishParts(ctx context.Context, name publish.ObjectName, id publish.PartsID, parts []publish.Part) error {
	return b.Faults.Do(ctx, "FinishParts", func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.finished[id] == name && name != "" {
			return nil
		}
		m := b.multiparts[id]
		if m == nil || m.name != name {
			return publish.ErrObjectNotFound
		}
		if _, taken := b.objects[name]; taken {
			return publish.ErrObjectExists
		}
		var data []byte
		for _, part := range parts {
			data = append(data, m.parts[part.Number]...)
		}
		b.objects[name] = data
		delete(b.multiparts, id)
		if b.finished == nil {
			b.finished = map[publish.PartsID]publish.ObjectName{}
		}
		b.finished[id] = name
		return nil
	})
}

// Prove returns the length, and what ProvesSHA256 and ProvesCRC64NVME say.
func (b *Blobs) Prove(ctx context.Context, name publish.ObjectName) (proof publish.Proof, err error) {
	err = b.Faults.Do(ctx, "Prove", func() error {
		data, found := b.Object(name)
		if !found {
			return publish.ErrObjectNotFound
		}
		proof.Size = int64(len(data))
		if b.ProvesSHA256 {
			proof.SHA256 = sha256.Sum256(data)
		}
		if b.ProvesCRC64NVME {
			crc := publish.CRC64NVMEOf(data)
			proof.CRC64NVME = &crc
		}
		return nil
	})
	return proof, err
}

// Multiparts returns how many uploads in parts were begun and neither finished nor discarded.
func (b *Blobs) Multiparts() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.multiparts)
}
