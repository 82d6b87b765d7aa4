package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/publish"
)

// What somebody else has put in the lease file's place is left alone at the end, also when it is a lease; an own file is removed, however often
// it was rewritten.
func TestWrittenLeaseIsRemovedByItsOwner(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lease.json")
	lease := client.Lease{Lease: publish.Lease{Key: "k", Token: 1, LeaseID: publish.NewLeaseID()}}
	own, err := writeLease(path, lease)
	if err != nil {
		t.Fatal(err)
	}
	if err := own.write(lease); err != nil {
		t.Fatal(err)
	}
	other, err := writeLease(path, client.Lease{Lease: publish.Lease{Key: "k", Token: 2, LeaseID: publish.NewLeaseID()}})
	if err != nil {
		t.Fatal(err)
	}
	own.remove()
	if _, err := os.Stat(path); err != nil {
		t.Error("the first owner removed the file of the second:", err)
	}
	other.remove()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 0 {
		t.Errorf("left: %v, %v", entries, err)
	}
}
