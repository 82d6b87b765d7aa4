package e2e

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// Case 21: a set of a master playlist, three variants and sixty segments is current. Runs for the next generation die after two
// variants, one by the death of ffmpeg, one by that of the wrapper; then one succeeds. A player sees one whole generation at any moment, and
// whoever holds the first generation's master can fetch all of it for ever.
func TestCase21GenerationsOfSegments(t *testing.T) {
	t.Parallel()
	s := serve(t, testenv.Postgres(t), directory(t))
	const key = "vod/three"
	current := s.url + "/v1/keys/" + key + "/-/current/master.m3u8"
	first := s.transcode(key)
	ended(t, first.variants(s.addr, 30))
	first.finish("master.m3u8")
	old, err := play(first.files("", s.addr) + "master.m3u8")
	if err == nil {
		err = old.whole()
	}
	if err != nil {
		t.Fatal(err)
	}
	player := attend(t, func() (presentation, error) { return watch(current) })

	dying := s.transcode(key)
	p := dying.variants(s.addr, 32)
	awaitUpload(t, dying.secretFiles(s.addr)+"v1/004.ts")
	p.kill()
	if err := s.api.Release(context.Background(), key, dying.lease.LeaseID); err != nil {
		t.Fatal(err)
	}
	s.killedAfterTwoVariants(key)
	if now, err := play(current); err != nil || !maps.Equal(now.files, old.files) {
		t.Errorf("after two runs that died, current is generation %s, %v; want the first, unchanged", now.token, err)
	}

	// ffmpeg is gone before its last uploads are answered: the wrapper waits for them.
	good := start(t, []string{"PAWL_URL=" + s.url}, binary(t), append([]string{
		"run", "--key", key, "--ttl", "30s", "--wait", "30s", "--primary", "master.m3u8",
		"--expect", "master.m3u8", "--expect", "v[0-2]/out.m3u8", "--expect", fmt.Sprintf("v[0-2]/[000-%03d].ts", segments-1), "--", "sh", "-c", encode, "sh",
	}, append(ffmpegArgs(), variantArgs("FILES/", 34)...)...)...)
	if code := good.exit(); code != 0 {
		t.Fatalf("the good run exits %d: %s", code, good.errs.String())
	}
	now, err := play(current)
	if err == nil {
		err = now.whole()
	}
	if err != nil || now.token != "4" || maps.Equal(now.files, old.files) {
		t.Errorf("current is generation %s, %v", now.token, err)
	}
	if tokens := player.finish(t); !slices.Equal(tokens, []string{"1", "4"}) {
		t.Errorf("a player has seen the generations %v", tokens)
	}
	for _, p := range player.seen {
		if want := map[string]presentation{"1": old, "4": now}[p.token]; !maps.Equal(p.files, want.files) {
			t.Errorf("a player was given %d files of generation %s that aren't what it holds", len(p.files), p.token)
		}
	}
	if still, err := play(first.files("", s.addr) + "master.m3u8"); err != nil || !maps.Equal(still.files, old.files) {
		t.Errorf("the first generation gives %v, %v", still.files, err)
	}
}

// encode is a worker's command: ffmpeg, whose arguments it is given, with the address of its generation's files in place of FILES/.
const encode = `files="http://lease:$PAWL_LEASE_ID@${PAWL_FILES_URL#http://}"
for arg; do
	shift
	case $arg in FILES/*) arg=$files${arg#FILES/} ;; esac
	set -- "$@" "$arg"
done
exec ffmpeg "$@"`

// killedAfterTwoVariants runs a worker that encodes one variant after the other, and kills its wrapper in the third. Nobody gets to
// tell the server: the lease has to expire.
func (s *server) killedAfterTwoVariants(key publish.Key) {
	s.t.Helper()
	const perVariant = `files="http://lease:$PAWL_LEASE_ID@${PAWL_FILES_URL#http://}"
for v in 0 1 2; do
	if [ $v = 2 ]; then echo begins >"$NOTES/third"; fi
	ffmpeg "$@" -hls_list_size 0 -hls_segment_filename "${files}v$v/%03d.ts" "${files}v$v/out.m3u8" || exit
done`
	args := ffmpegArgs()
	for i := range args {
		args[i] = strings.TrimSuffix(args[i], ",realtime") // Nobody reads these playlists.
	}
	notes := s.t.TempDir()
	run := start(s.t, []string{"PAWL_URL=" + s.url, "NOTES=" + notes}, binary(s.t),
		append([]string{"run", "--key", string(key), "--ttl", "1s", "--", "sh", "-c", perVariant, "sh"}, args...)...)
	awaitFile(s.t, filepath.Join(notes, "third"))
	run.kill()
}

func awaitUpload(t *testing.T, address string) {
	t.Helper()
	testenv.Eventually(t, patience, func() error {
		_, err := get(address)
		return err
	})
}
