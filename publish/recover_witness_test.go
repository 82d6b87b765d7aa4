package publish_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/publish/publishtest"
)

// history is the side of Postgres for witnesses: those that it knows.
type history struct {
	known   []string
	written int
	raised  int
}

func (h *history) Witness(context.Context) (publish.Witness, error) {
	h.written++
	nonce := fmt.Sprintf("n%d", h.written)
	h.known = append(h.known, nonce)
	return publish.Witness{Lineage: "l", Nonce: nonce, LogPosition: fmt.Sprintf("%X/0", h.written)}, nil
}

func (h *history) CheckWitness(_ context.Context, w publish.Witness) (bool, error) {
	if slices.Contains(h.known, w.Nonce) {
		return false, nil
	}
	h.raised++
	return true, nil
}

// The newest four witnesses stay, over more than one digit of the log's position, and all of them are held against the database.
func TestWitnessesAreBounded(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	blobs, h := publishtest.NewBlobs(), &history{}
	for range 20 {
		if raised, err := publish.CheckWitnesses(ctx, h, blobs); raised || err != nil {
			t.Fatalf("raised %t, %v", raised, err)
		}
	}
	count := 0
	for info, err := range blobs.List(ctx, "") {
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := publish.ParseObjectName(info.Name); ok {
			t.Errorf("%s is the name of an upload", info.Name)
		}
		count++
	}
	if count != 4 {
		t.Errorf("%d witnesses, want 4", count)
	}
	// The database forgets the last one.
	h.known = h.known[:19]
	if raised, err := publish.CheckWitnesses(ctx, h, blobs); !raised || err != nil || h.raised != 1 {
		t.Errorf("raised %t %d times, %v; want once", raised, h.raised, err)
	}
}

func TestParseObjectName(t *testing.T) {
	t.Parallel()
	const id = "00112233445566778899aabbccddeeff"
	for name, ok := range map[string]bool{
		"a/b/-/17/" + id + "/x/-/y":                 true,
		"a/-/17/published/receipt.json":             true,
		"a/-/17/published/other.json":               false,
		"a/-/017/" + id + "/x":                      false,
		"a/-/0/" + id + "/x":                        false,
		"a/-/17/" + id[:30] + "/x":                  false,
		"a/-/17/00112233445566778899AABBCCDDEEFF/x": false,
		"a/-/17/" + id:                              false,
		"a/-/17/" + id + "/../x":                    false,
		"-/store":                                   false,
		"-witness/1":                                false,
	} {
		parts, got := publish.ParseObjectName(publish.ObjectName(name))
		if got != ok || ok && string(parts.Name()) != name {
			t.Errorf("%s: %t, %+v", name, got, parts)
		}
	}
}
