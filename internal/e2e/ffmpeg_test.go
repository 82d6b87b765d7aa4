package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// transcode is one worker that lets ffmpeg write into a generation, with nothing but the lease as the password in a URL.
type transcode struct {
	t     testing.TB
	s     *server
	lease client.Lease
}

func (s *server) transcode(key publish.Key) transcode {
	s.t.Helper()
	lease, err := s.api.Acquire(context.Background(), publish.AcquireRequest{Key: key, Holder: "ffmpeg", TTL: time.Hour})
	if err != nil {
		s.t.Fatal(err)
	}
	return transcode{s.t, s, lease}
}

// files is the address of the generation's files; that for ffmpeg leads through addr and has the password in it.
func (j transcode) files(userinfo, addr string) string {
	return fmt.Sprintf("http://%s%s/v1/keys/%s/-/generations/%d/files/", userinfo, addr, j.lease.Key, j.lease.Token)
}

func (j transcode) secretFiles(addr string) string {
	return j.files("lease:"+j.lease.LeaseID.Hex()+"@", addr)
}

// segments is how many segments ffmpeg writes, each a quarter of a second.
const segments = 20

// ffmpegArgs are the arguments of an ffmpeg that makes HLS of a test picture, no faster than it plays. ffmpeg waits for no answers, so
// on a busy machine uploads of one path that it sends at the same moment may come in any order.
func ffmpegArgs() []string {
	return []string{
		"-nostdin", "-loglevel", "warning", "-f", "lavfi", "-i", fmt.Sprintf("testsrc=size=160x120:rate=8:duration=%d,realtime", segments/4),
		"-c:v", "libx264", "-preset", "ultrafast", "-threads", "1", "-g", "2", "-f", "hls", "-hls_time", "0.25", "-method", "PUT",
	}
}

// variantArgs are the further arguments for a master playlist of three variants. The bytes of all segments depend on quality, from 0,
// the best, to 51. files is the address to write to.
func variantArgs(files string, quality int) []string {
	return []string{
		"-map", "0:v", "-map", "0:v", "-map", "0:v", "-qp", fmt.Sprint(quality), "-b:v", "100k", "-s:v:1", "96x72", "-s:v:2", "64x48", "-var_stream_map", "v:0 v:1 v:2",
		"-master_pl_name", "master.m3u8", "-hls_list_size", "0", "-hls_segment_filename", files + "v%v/%03d.ts", files + "v%v/out.m3u8",
	}
}

// hls starts ffmpeg, which writes one playlist and its segments.
func (j transcode) hls(addr, playlist string, args ...string) *process {
	j.t.Helper()
	return start(j.t, nil, "ffmpeg", append(append(ffmpegArgs(), args...), j.secretFiles(addr)+playlist)...)
}

// variants starts ffmpeg, which writes master.m3u8, three variants and their segments.
func (j transcode) variants(addr string, quality int) *process {
	j.t.Helper()
	return start(j.t, nil, "ffmpeg", append(ffmpegArgs(), variantArgs(j.secretFiles(addr), quality)...)...)
}

func (j transcode) publish(primary publish.Path) (publish.Receipt, error) {
	return j.s.api.Publish(context.Background(), publish.PublishRequest{Grant: j.lease.Grant(), Final: true, Primary: primary, Release: true})
}

// finish publishes what ffmpeg wrote. ffmpeg exits before its last uploads are answered, so a careful worker first looks, with its
// lease, whether all has arrived.
func (j transcode) finish(playlist string) publish.Receipt {
	j.t.Helper()
	var receipt publish.Receipt
	testenv.Eventually(j.t, patience, func() error {
		_, err := play(j.secretFiles(j.s.addr) + playlist)
		if err == nil {
			receipt, err = j.publish(publish.Path(playlist))
		}
		return err
	})
	return receipt
}

func ended(t *testing.T, p *process) {
	t.Helper()
	if code := p.exit(); code != 0 {
		t.Fatalf("ffmpeg exits %d", code)
	}
}

// A live playlist: ffmpeg uploads it again with every segment and deletes the segments that have left it.
func TestFFmpegLivePlaylist(t *testing.T) {
	t.Parallel()
	s := serve(t, testenv.Postgres(t), directory(t))
	job := s.transcode("live/one")
	p := job.hls(s.addr, "out.m3u8", "-hls_list_size", "1", "-hls_flags", "delete_segments", "-hls_delete_threshold", "1")
	ended(t, p)
	if _, err := get(job.files("", s.addr) + "out.m3u8"); err == nil {
		t.Error("anyone can read what isn't published")
	}
	receipt := job.finish("out.m3u8")
	// One segment is in the list, one may still be played, the oldest one is deleted.
	if receipt.Files != 3 || receipt.Primary != "out.m3u8" {
		t.Errorf("the receipt is %+v", receipt)
	}
	if body := s.read("live/one"); !strings.Contains(body, "out19.ts") || strings.Contains(body, "out18.ts") {
		t.Errorf("current is %s", body)
	}
	if _, err := play(s.url + "/v1/keys/live/one/-/current/out.m3u8"); err != nil {
		t.Error(err)
	}
	if _, err := get(job.files("", s.addr) + "out0.ts"); err == nil {
		t.Error("a deleted segment is there")
	}
	list, err := s.api.Files(context.Background(), "live/one", job.lease.Token, "", 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range list.Files {
		if want := map[string]string{".m3u8": "application/vnd.apple.mpegurl", ".ts": "video/mp2t"}[path.Ext(string(file.Path))]; file.ContentType != want {
			t.Errorf("%s has type %q", file.Path, file.ContentType)
		}
	}
	if id := job.lease.LeaseID.Hex(); strings.Contains(s.out.String()+s.errs.String(), id) {
		t.Error("the lease id is in the server's log")
	}
}

// Case 24: the network breaks one segment in the middle. ffmpeg goes on and exits 0; the publish names the segment, of one variant
// or of three.
func TestCase24BrokenSegment(t *testing.T) {
	t.Parallel()
	s := serve(t, testenv.Postgres(t), directory(t))
	for name, broken := range map[string]string{"one": "out1.ts", "three": "v1/001.ts"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := s.transcode(publish.Key("vod/broken/" + name))
			addr := breakUploads(t, s.addr, "/"+broken+" ")
			playlists := []string{"out.m3u8"}
			if name == "one" {
				ended(t, job.hls(addr, "out.m3u8", "-hls_list_size", "0"))
			} else {
				playlists = []string{"v0/out.m3u8", "v1/out.m3u8", "v2/out.m3u8"}
				ended(t, job.variants(addr, 30))
			}
			for _, playlist := range playlists {
				testenv.Eventually(t, patience, func() error {
					body, err := get(job.secretFiles(s.addr) + playlist)
					if err == nil && !strings.Contains(string(body), "#EXT-X-ENDLIST") {
						err = errors.New("the last playlist is not there yet")
					}
					return err
				})
			}
			refusal := job.refused(publish.Path(playlists[0]))
			if refusal.Code != publish.ErrGenerationIncomplete || fmt.Sprint(refusal.Failed) != "["+broken+"]" {
				t.Errorf("the publish: %v, failed %v", refusal, refusal.Failed)
			}
			if _, err := get(s.url + "/v1/keys/vod/broken/" + name); err == nil {
				t.Error("there is a current version")
			}
		})
	}
}

// refused publishes what must be refused, once no upload is under way any more.
func (j transcode) refused(primary publish.Path) (refusal *publish.Error) {
	j.t.Helper()
	testenv.Eventually(j.t, patience, func() error {
		_, err := j.publish(primary)
		if !errors.As(err, &refusal) {
			j.t.Fatalf("the publish: %v", err)
		}
		if len(refusal.Pending) > 0 { // The server may not have noticed yet.
			return err
		}
		return nil
	})
	return refusal
}

// breakUploads starts a proxy that passes connections on, but breaks those off whose request line contains text, some way into
// the body, which must have more than 300 bytes. Requests without a password pass: they are answered before their body.
func breakUploads(t *testing.T, target, text string) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	t.Cleanup(func() {
		_ = listener.Close()
		running.Wait()
	})
	running.Go(func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { breakUpload(from, target, text) })
		}
	})
	return listener.Addr().String()
}

func breakUpload(from net.Conn, target, text string) {
	defer from.Close() //nolint:errcheck // It may be broken.
	to, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer to.Close() //nolint:errcheck // It may be broken.
	head, password := "", false
	request := bufio.NewReader(from)
	for !strings.HasSuffix(head, "\r\n\r\n") {
		line, err := request.ReadString('\n')
		if err != nil {
			return
		}
		password = password || strings.HasPrefix(line, "Authorization:")
		head += line
	}
	line, _, _ := strings.Cut(head, "\r\n")
	if _, err := io.WriteString(to, head); err != nil {
		return
	}
	if password && strings.Contains(line, text) {
		_, _ = io.CopyN(to, request, 300) //nolint:errcheck // It ends broken anyhow.
		return
	}
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.Copy(to, request)        //nolint:errcheck // As long as there is something.
		_ = to.(*net.TCPConn).CloseWrite() //nolint:errcheck,forcetypeassert // It was dialed as TCP.
	})
	_, _ = io.Copy(from, to) //nolint:errcheck // As long as there is something.
	_ = from.Close()         //nolint:errcheck // The client has all that there is.
	both.Wait()
}
