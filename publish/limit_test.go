package publish_test

import (
	"strings"
	"testing"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/publish/publishtest"
)

// An upload that is one too many for its generation leaves a failed row, and nothing in the store.
func TestUploadAboveTheLimitLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, upload := range map[string]func(r *rig) error{
		"streamed": func(r *rig) error { _, err := r.Upload(t.Context(), r.upload(long)); return err },
		"direct":   func(r *rig) error { _, err := r.direct(long); return err },
	} {
		r := directRig(t)
		r.pointers.Limit(publish.GenerationLimits{Bytes: int64(len(long)) - 1})
		is(t, name, upload(r), publish.ErrTooLarge)
		if got, want := r.uploads(), (publish.UploadCounts{Failed: 1}); got != want {
			t.Errorf("%s: uploads %+v, want %+v", name, got, want)
		}
		if names := r.blobs.Names(); len(names) != 0 {
			t.Errorf("%s: left %v", name, names)
		}
		_, err := r.Publish(t.Context(), r.final())
		is(t, name+", published", err, publish.ErrGenerationIncomplete)

		r.pointers.Limit(publish.GenerationLimits{Files: 1, Bytes: int64(len(long))})
		is(t, name+", within the limit", upload(r), "")
		_, err = r.Publish(t.Context(), r.final())
		is(t, name+", published within the limit", err, "")
	}
}

// When what is stored can't be removed, it is left to the sweep, and the client is told of the limit all the same.
func TestUploadAboveTheLimitThatStays(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"FailUpload", "Discard"} {
		r := newRig(t)
		r.pointers.Limit(publish.GenerationLimits{Bytes: 1})
		r.pointers.Faults.Add(publishtest.Fault{Operation: step})
		r.blobs.Faults.Add(publishtest.Fault{Operation: step})
		_, err := r.Upload(t.Context(), r.upload(long))
		is(t, step, err, publish.ErrTooLarge)
		if found := r.log.all(); len(found) != 1 || !strings.Contains(found[0], "object_left") {
			t.Errorf("%s: the log has %q", step, found)
		}
	}
}

// The sentence of a limit names the setting that makes it.
func TestLimitIsExplained(t *testing.T) {
	t.Parallel()
	for setting, limits := range map[string]publish.GenerationLimits{"PAWL_LIMIT_GENERATION": {Bytes: 1}, "PAWL_LIMIT_FILES": {Files: 1}} {
		r := newRig(t)
		first := r.upload("1")
		first.Path = "first"
		_, err := r.Upload(t.Context(), first)
		is(t, "first", err, "")
		r.pointers.Limit(limits)
		if _, err = r.Upload(t.Context(), r.upload("2")); err == nil || !strings.Contains(err.Error(), setting) || !strings.Contains(err.Error(), "2") {
			t.Errorf("got %v, want it to name %s", err, setting)
		}
	}
}
