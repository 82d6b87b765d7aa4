package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// A live stream: ffmpeg writes a short playlist again with each segment and deletes old segments, while progressive publishes follow it.
// At any moment a player can play what is current. The playlist that is published is one whose segments have arrived: ffmpeg's own may
// be complete before the segment that it names.
func TestLiveStaysPlayable(t *testing.T) {
	t.Parallel()
	s := serve(t, testenv.Postgres(t), directory(t))
	const key = "live/two"
	job := s.transcode(key)
	ffmpeg := job.hls(s.addr, "next.m3u8", "-hls_list_size", "3", "-hls_flags", "delete_segments", "-hls_delete_threshold", "8")

	var player *audience
	published, next := 0, ""
	for deadline := time.Now().Add(patience); !strings.Contains(next, "#EXT-X-ENDLIST"); {
		if time.Now().After(deadline) {
			t.Fatalf("the end of the stream hasn't come; the last playlist is %q", next)
		}
		now, err := watch(job.secretFiles(s.addr) + "next.m3u8")
		if err != nil || now.media == next {
			<-time.After(20 * time.Millisecond) // Not there yet, or a segment isn't, or it is published.
			continue
		}
		next = now.media
		job.put("live.m3u8", next)
		if _, err := s.api.Publish(t.Context(), publish.PublishRequest{Grant: job.lease.Grant(), Primary: "live.m3u8"}); err != nil {
			t.Fatal(err)
		}
		if published++; player == nil {
			player = attend(t, func() (presentation, error) { return watch(s.url + "/v1/keys/" + key + "/-/current") })
		}
	}
	ended(t, ffmpeg)
	testenv.Eventually(t, patience, func() error {
		_, err := s.api.Publish(context.Background(), publish.PublishRequest{Grant: job.lease.Grant(), Final: true, Primary: "live.m3u8", Release: true})
		return err // Its last request, the deletion of a segment, may be under way.
	})
	player.finish(t)

	sequence := 0
	for _, p := range player.seen {
		var first int
		_, after, _ := strings.Cut(p.media, "#EXT-X-MEDIA-SEQUENCE:")
		if _, err := fmt.Sscan(after, &first); err != nil || first < sequence {
			t.Errorf("the stream went from segment %d to %d, %v", sequence, first, err)
		}
		sequence = first
	}
	if last := player.seen[len(player.seen)-1]; !last.ended || sequence != segments-3 {
		t.Errorf("the last playlist that was played is %q", last.media)
	}
	if _, err := get(job.files("", s.addr) + "next0.ts"); err == nil {
		t.Error("the first segment is there still")
	}
	// A busy machine may let some pass: what counts is that the set has changed under the player.
	if published < 4 || len(player.seen) < 4 {
		t.Errorf("%d publishes, and %d playlists were played", published, len(player.seen))
	}
}

// put uploads a text.
func (j transcode) put(path publish.Path, text string) {
	j.t.Helper()
	req := publish.UploadRequest{Grant: j.lease.Grant(), Path: path, Size: int64(len(text)), Body: strings.NewReader(text)}
	if _, err := j.s.api.Upload(context.Background(), req); err != nil {
		j.t.Fatal(errors.Join(fmt.Errorf("uploading %s", path), err))
	}
}
