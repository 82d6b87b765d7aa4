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
	"syscall"
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

// source is three seconds of picture, made no faster than they play. ffmpeg waits for no answers, so on a busy machine uploads
// of one path that it sends at the same moment may come in any order.
const source = "testsrc=size=160x120:rate=10:duration=3,realtime"

// hls starts ffmpeg, which writes one-second segments. FILES/ in an argument stands for the address of the files.
func (j transcode) hls(addr, playlist string, args ...string) *process {
	j.t.Helper()
	input := []string{"-nostdin", "-loglevel", "warning", "-f", "lavfi", "-i", source}
	output := []string{"-c:v", "libx264", "-preset", "ultrafast", "-threads", "1", "-g", "10", "-f", "hls", "-hls_time", "1", "-method", "PUT"}
	for i, arg := range args {
		args[i] = strings.ReplaceAll(arg, "FILES/", j.secretFiles(addr))
	}
	return start(j.t, nil, "ffmpeg", append(append(append(input, output...), args...), j.secretFiles(addr)+playlist)...)
}

// play fetches a playlist below an address with all that it names, as a player would. Every media playlist must be at its end.
func play(files, playlist string) (paths []string, err error) {
	body, err := get(files + playlist)
	if err != nil {
		return nil, err
	}
	paths = []string{playlist}
	media := true
	for line := range strings.Lines(string(body)) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || line[0] == '#':
		case strings.HasSuffix(line, ".m3u8"):
			media = false
			more, err := play(files, path.Join(path.Dir(playlist), line))
			if err != nil {
				return nil, err
			}
			paths = append(paths, more...)
		default:
			segment := path.Join(path.Dir(playlist), line)
			bytes, err := get(files + segment)
			if err != nil {
				return nil, err
			}
			if len(bytes) == 0 || len(bytes)%188 != 0 { // the packet of an MPEG transport stream
				return nil, fmt.Errorf("%s has %d bytes", segment, len(bytes))
			}
			paths = append(paths, segment)
		}
	}
	if media && !strings.HasSuffix(strings.TrimSpace(string(body)), "#EXT-X-ENDLIST") {
		return nil, fmt.Errorf("%s has no end yet", playlist)
	}
	return paths, nil
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
		_, err := play(j.secretFiles(j.s.addr), playlist)
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
	if body := s.read("live/one"); !strings.Contains(body, "out2.ts") || strings.Contains(body, "out0.ts") {
		t.Errorf("current is %s", body)
	}
	if _, err := play(s.url+"/v1/keys/live/one/-/current/", "out.m3u8"); err != nil {
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

// Case 24: the network breaks one segment in the middle. ffmpeg goes on and exits 0; the publish names the segment.
func TestCase24BrokenSegment(t *testing.T) {
	t.Parallel()
	s := serve(t, testenv.Postgres(t), directory(t))
	job := s.transcode("vod/broken")
	addr := breakUploads(t, s.addr, "/out1.ts ")
	ended(t, job.hls(addr, "out.m3u8", "-hls_list_size", "0"))
	testenv.Eventually(t, patience, func() error {
		if _, err := get(job.secretFiles(s.addr) + "out2.ts"); err != nil {
			return err
		}
		body, err := get(job.secretFiles(s.addr) + "out.m3u8")
		if err == nil && !strings.Contains(string(body), "#EXT-X-ENDLIST") {
			err = errors.New("the last playlist is not there yet")
		}
		return err
	})
	var refusal *publish.Error
	testenv.Eventually(t, patience, func() error {
		_, err := job.publish("out.m3u8")
		if !errors.As(err, &refusal) {
			t.Fatalf("the publish: %v", err)
		}
		if len(refusal.Pending) > 0 { // The server may not have noticed yet.
			return err
		}
		return nil
	})
	if refusal.Code != publish.ErrGenerationIncomplete || fmt.Sprint(refusal.Failed) != "[out1.ts]" {
		t.Errorf("the publish: %v, failed %v", refusal, refusal.Failed)
	}
	if _, err := get(s.url + "/v1/keys/vod/broken"); err == nil {
		t.Error("there is a current version")
	}
}

// breakUploads starts a proxy that passes connections on, but breaks those off whose request line contains text, some way into
// the body. Requests without a password pass: they are answered before their body.
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
		_, _ = io.CopyN(to, request, 2000) //nolint:errcheck // It ends broken anyhow.
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

// Case 21: a set with three variants is current. While the next run dies halfway, and after a good one, players of the first have every
// segment.
func TestCase21GenerationsOfSegments(t *testing.T) {
	t.Parallel()
	s := serve(t, testenv.Postgres(t), directory(t))
	const key = "vod/three"
	variants := func() []string {
		return []string{
			"-map", "0:v", "-map", "0:v", "-map", "0:v", "-b:v", "100k", "-s:v:1", "96x72", "-s:v:2", "64x48", "-var_stream_map", "v:0 v:1 v:2", "-master_pl_name", "master.m3u8",
			"-hls_list_size", "0", "-hls_segment_filename", "FILES/v%v/%03d.ts",
		}
	}
	first := s.transcode(key)
	ended(t, first.hls(s.addr, "v%v/out.m3u8", variants()...))
	if receipt := first.finish("master.m3u8"); receipt.Files != 13 {
		t.Errorf("the receipt is %+v", receipt)
	}
	current := s.read(key)
	played := func() {
		t.Helper()
		for _, files := range []string{first.files("", s.addr), s.url + "/v1/keys/" + key + "/-/current/"} {
			if paths, err := play(files, "master.m3u8"); err != nil || len(paths) != 13 {
				t.Errorf("%s: %v, %v", files, paths, err)
			}
		}
	}
	played()

	dying := s.transcode(key)
	p := dying.hls(s.addr, "v%v/out.m3u8", variants()...)
	testenv.Eventually(t, patience, func() error {
		_, err := get(dying.secretFiles(s.addr) + "v1/000.ts")
		return err
	})
	p.signal(syscall.SIGKILL)
	<-p.done
	played()
	if body := s.read(key); body != current {
		t.Errorf("current is %s", body)
	}
	if err := s.api.Release(context.Background(), key, dying.lease.LeaseID); err != nil {
		t.Fatal(err)
	}

	good := s.transcode(key)
	ended(t, good.hls(s.addr, "v%v/out.m3u8", variants()...))
	if receipt := good.finish("master.m3u8"); receipt.Token != good.lease.Token || receipt.Previous == nil || receipt.Previous.Token != first.lease.Token {
		t.Errorf("the receipt is %+v", receipt)
	}
	played()
}
