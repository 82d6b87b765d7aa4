package main

import (
	"testing"

	"github.com/pawlhq/pawl/blobstore"
	"github.com/pawlhq/pawl/pointer"
)

// Each fault that may lose commits has a line of its own, so that whoever cures one doesn't find the next only then.
func TestDoctorNamesAllRisks(t *testing.T) {
	t.Parallel()
	for synchronous, want := range map[bool]blobstore.Level{false: blobstore.LevelWarn, true: blobstore.LevelFail} {
		risks := 0
		for _, f := range judge(pointer.Diagnosis{SynchronousCommit: "off", Standbys: 1}, synchronous) {
			if f.Name != "postgres commits" {
				continue
			}
			if risks++; f.Level != want || f.Cure == "" {
				t.Errorf("%+v, want level %s and a cure", f, want)
			}
		}
		if risks != 4 {
			t.Errorf("%d lines about commits, want 4", risks)
		}
	}
}
