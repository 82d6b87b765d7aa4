package e2e

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// presentation is what a player of HLS was given: a playlist with all that it names.
type presentation struct {
	token string            // of the one generation that all of it came from
	files map[string]string // SHA-256 by path
	media string            // the last media playlist
	ended bool              // every media playlist is at its end
}

// whole checks that a presentation is a master playlist with three variants.
func (p presentation) whole() error {
	if want := 1 + 3 + 3*segments; len(p.files) != want || !p.ended {
		return fmt.Errorf("generation %s gives %d files, at their end: %v; want %d", p.token, len(p.files), p.ended, want)
	}
	return nil
}

// play fetches a playlist with all that it names, as a player does: redirects are followed, and relative links are relative to
// where they led. Media playlists must be at their end.
func play(address string) (presentation, error) {
	p, err := watch(address)
	if err == nil && !p.ended {
		err = fmt.Errorf("%s has no end yet", address)
	}
	return p, err
}

// watch is play for playlists that may go on.
func watch(address string) (presentation, error) {
	p := presentation{files: map[string]string{}, ended: true}
	return p, p.fetch(address)
}

var generationURL = regexp.MustCompile(`/-/generations/([0-9]+)/files/(.*)$`)

func (p *presentation) fetch(address string) error {
	body, at, err := download(address)
	if err != nil {
		return err
	}
	names := generationURL.FindStringSubmatch(at.Path)
	if names == nil {
		return fmt.Errorf("%s leads to %s, which is no permanent address", address, at.Redacted())
	}
	if p.token == "" {
		p.token = names[1]
	}
	if p.token != names[1] {
		return fmt.Errorf("%s is of generation %s, what came before of %s", names[2], names[1], p.token)
	}
	p.files[names[2]] = fmt.Sprintf("%x", sha256.Sum256(body))
	if !strings.HasSuffix(at.Path, ".m3u8") {
		if len(body) == 0 || len(body)%188 != 0 { // the packet of an MPEG transport stream
			return fmt.Errorf("%s has %d bytes", names[2], len(body))
		}
		return nil
	}
	if !strings.Contains(string(body), "#EXT-X-STREAM-INF") {
		p.media = string(body)
		p.ended = p.ended && strings.HasSuffix(strings.TrimSpace(p.media), "#EXT-X-ENDLIST")
	}
	for line := range strings.Lines(string(body)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		link, err := at.Parse(line)
		if err != nil {
			return err
		}
		if err := p.fetch(link.String()); err != nil {
			return err
		}
	}
	return nil
}

// download gets an address, and says where it led.
func download(address string) (body []byte, at *url.URL, err error) {
	resp, err := http.Get(address) //nolint:noctx // A client of the test's own server.
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // It is only read.
	body, err = io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s: %s", resp.Request.URL.Redacted(), resp.Status, body)
	}
	return body, resp.Request.URL, err
}

// audience is a player that plays something again and again until it is stopped.
type audience struct {
	leave  func() // may be called more than once
	played sync.WaitGroup
	seen   []presentation // read after finish
	faults []error
}

func attend(t *testing.T, play func() (presentation, error)) *audience {
	t.Helper()
	stop := make(chan struct{})
	a := &audience{leave: sync.OnceFunc(func() { close(stop) })}
	t.Cleanup(func() { a.leave(); a.played.Wait() })
	a.played.Go(func() {
		pause := time.NewTicker(50 * time.Millisecond) // The machine has others to serve.
		defer pause.Stop()
		for last := false; ; {
			p, err := play()
			if err != nil {
				a.faults = append(a.faults, err)
			}
			a.seen = append(a.seen, p)
			if last {
				return
			}
			select {
			case <-stop:
				last = true
			case <-pause.C:
			}
		}
	})
	return a
}

// finish lets the player play once more, and gives the tokens of the generations that it has seen, in their order. Nothing may have been missing.
func (a *audience) finish(t *testing.T) (tokens []string) {
	t.Helper()
	a.leave()
	a.played.Wait()
	if len(a.faults) > 0 {
		t.Errorf("a player met %d faults, the first of them: %v", len(a.faults), a.faults[0])
	}
	for _, p := range a.seen {
		tokens = append(tokens, p.token)
	}
	return slices.Compact(tokens)
}
