//go:build unix

package testenv

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// FaultProxy stands between a client and a server and does to their connections what networks do. It passes
// everything on until it is told otherwise. Its methods may be called from many goroutines.
type FaultProxy struct {
	Network string // "tcp" or "unix", as the target's
	Addr    string // where clients connect to

	targetNetwork, targetAddr string
	listener                  net.Listener
	running                   sync.WaitGroup

	mu           sync.Mutex
	conns        map[*proxyConn]struct{}
	closed       bool
	refusing     bool
	dropAnswers  bool
	paused       chan struct{} // non-nil while paused; closed by Resume
	cutRequest   *trap
	cutRequests  []byte // when set, every request that contains it is cut
	losingAnswer *trap
}

// trap waits for a request that contains text, without regard to case.
type trap struct {
	text   []byte
	sprung chan struct{}
}

type proxyConn struct {
	client, server net.Conn
	losing         *trap // under FaultProxy.mu: the next answer on this connection is lost, and the connection cut
}

// Proxy starts a proxy in front of the server at targetAddr. It ends with the test.
func Proxy(t testing.TB, targetNetwork, targetAddr string) *FaultProxy {
	t.Helper()
	addr := "127.0.0.1:0"
	if targetNetwork == "unix" {
		// Postgres clients know a socket by its folder and expect the same file name in it.
		addr = filepath.Join(TempDir(t), filepath.Base(targetAddr))
	}
	listener, err := net.Listen(targetNetwork, addr)
	if err != nil {
		t.Fatal(err)
	}
	p := &FaultProxy{
		Network: targetNetwork, Addr: listener.Addr().String(),
		targetNetwork: targetNetwork, targetAddr: targetAddr,
		listener: listener, conns: map[*proxyConn]struct{}{},
	}
	p.running.Go(p.accept)
	t.Cleanup(func() {
		p.mu.Lock()
		p.closed = true
		p.mu.Unlock()
		_ = listener.Close() //nolint:errcheck // Nobody connects any more.
		p.Resume()
		p.Cut()
		p.running.Wait()
	})
	return p
}

// PostgresProxy starts a proxy in front of the server of dsn and returns with it the DSN that leads through it.
func PostgresProxy(t testing.TB, dsn string) (*FaultProxy, string) {
	t.Helper()
	config, err := pgconn.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	network, addr := pgconn.NetworkAddress(config.Host, config.Port)
	p := Proxy(t, network, addr)
	host, port := filepath.Dir(p.Addr), strings.TrimPrefix(filepath.Ext(p.Addr), ".")
	if network == "tcp" {
		if host, port, err = net.SplitHostPort(p.Addr); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(dsn, "://") {
		return p, dsn + " host=" + host + " port=" + port // The last ones count.
	}
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	query.Set("host", host)
	query.Set("port", port)
	u.Host, u.RawQuery = "", strings.ReplaceAll(query.Encode(), "+", "%20")
	return p, u.String()
}

// Cut closes all connections of this moment. New ones are accepted.
func (p *FaultProxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.close()
	}
}

// Refuse closes every new connection at once (or stops that). Connections of this moment stay.
func (p *FaultProxy) Refuse(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refusing = on
}

// DropAnswers swallows what the server sends (or stops that); requests go through.
func (p *FaultProxy) DropAnswers(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropAnswers = on
}

// Pause holds all bytes in both directions until Resume. Connections stay open, as over a dead link.
func (p *FaultProxy) Pause() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paused == nil && !p.closed {
		p.paused = make(chan struct{})
	}
}

// Resume ends Pause.
func (p *FaultProxy) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paused != nil {
		close(p.paused)
		p.paused = nil
	}
}

// CutRequest waits for the next request that contains text, in any case of letters, and cuts its connection
// instead of passing it on: the server never learns of it. The channel is closed when that has happened.
//
// A request is what the client writes at once. Postgres sees the statement's text in the simple protocol, at
// its first preparation on a connection, and in BEGIN and COMMIT; later executions name it only.
func (p *FaultProxy) CutRequest(text string) <-chan struct{} {
	return p.set(&p.cutRequest, text)
}

// CutRequests cuts the connection of every request that contains text, in any case of letters, instead of passing it on; "" stops
// that. See CutRequest for what a request is.
func (p *FaultProxy) CutRequests(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cutRequests = bytes.ToLower([]byte(text))
}

// LoseAnswer waits for the next request that contains text, passes it on, and cuts the connection when the
// server begins to answer: the server has done what was asked, and the client can't know. The channel is
// closed when that has happened. The client must have read the answers to its earlier requests.
func (p *FaultProxy) LoseAnswer(text string) <-chan struct{} {
	return p.set(&p.losingAnswer, text)
}

func (p *FaultProxy) set(where **trap, text string) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	*where = &trap{text: bytes.ToLower([]byte(text)), sprung: make(chan struct{})}
	return (*where).sprung
}

func (p *FaultProxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // The listener is closed: the test has ended.
		}
		p.running.Go(func() { p.serve(client) })
	}
}

func (p *FaultProxy) serve(client net.Conn) {
	server, err := net.Dial(p.targetNetwork, p.targetAddr)
	if err != nil {
		_ = client.Close() //nolint:errcheck // The client sees the end either way.
		return
	}
	c := &proxyConn{client: client, server: server}
	defer c.close()
	p.mu.Lock()
	refused := p.refusing || p.closed
	if !refused {
		p.conns[c] = struct{}{}
	}
	p.mu.Unlock()
	if refused {
		return
	}
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, c)
	}()

	var both sync.WaitGroup
	both.Go(func() { p.copy(c, server, client, p.onRequest) })
	both.Go(func() { p.copy(c, client, server, p.onAnswer) })
	both.Wait()
}

// errCut ends a connection on purpose.
var errCut = errors.New("cut")

// copy passes on what from sends, as far as the filter allows, and closes the connection at the end.
func (p *FaultProxy) copy(c *proxyConn, to io.Writer, from io.Reader, filter func(*proxyConn, []byte) (pass bool, err error)) {
	defer c.close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			p.awaitResume()
			pass, cut := filter(c, buffer[:n])
			if cut != nil {
				return
			}
			if pass {
				if _, err := to.Write(buffer[:n]); err != nil {
					return
				}
			}
		}
		if err != nil {
			return
		}
	}
}

func (p *FaultProxy) awaitResume() {
	p.mu.Lock()
	paused := p.paused
	p.mu.Unlock()
	if paused != nil {
		<-paused
	}
}

func (p *FaultProxy) onRequest(c *proxyConn, request []byte) (pass bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cutRequest == nil && len(p.cutRequests) == 0 && p.losingAnswer == nil {
		return true, nil
	}
	request = bytes.ToLower(request)
	if len(p.cutRequests) > 0 && bytes.Contains(request, p.cutRequests) {
		c.close()
		return false, errCut
	}
	if p.cutRequest != nil && bytes.Contains(request, p.cutRequest.text) {
		c.close() // Before the channel tells, so that the client can't get a word through any more.
		close(p.cutRequest.sprung)
		p.cutRequest = nil
		return false, errCut
	}
	if p.losingAnswer != nil && bytes.Contains(request, p.losingAnswer.text) {
		c.losing, p.losingAnswer = p.losingAnswer, nil
	}
	return true, nil
}

func (p *FaultProxy) onAnswer(c *proxyConn, _ []byte) (pass bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.losing != nil {
		c.close()
		close(c.losing.sprung)
		c.losing = nil
		return false, errCut
	}
	return !p.dropAnswers, nil
}

// close may be called more than once; closing again is harmless.
func (c *proxyConn) close() {
	_ = c.client.Close() //nolint:errcheck // See above.
	_ = c.server.Close() //nolint:errcheck // See above.
}
