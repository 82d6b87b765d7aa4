package web

import (
	"fmt"
	"net"
	"sync"
)

// LimitConnections makes a listener of TCP that accepts at most so many connections at once. Those that are more wait, as far as the system lets
// them, until another one is closed. Accept and Close may be called from several goroutines.
//
// The connections keep all methods of a net.TCPConn: net/http needs CloseWrite, without which a client may lose an answer that came before
// it had sent everything.
func LimitConnections(listener net.Listener, most int) net.Listener {
	return &limitedListener{Listener: listener, room: make(chan struct{}, most), closed: make(chan struct{})}
}

type limitedListener struct {
	net.Listener
	room   chan struct{} // holds one for each connection
	closed chan struct{}
	once   sync.Once
}

// Accept waits until there is room, then for a connection.
func (l *limitedListener) Accept() (net.Conn, error) {
	select {
	case l.room <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	leave := sync.OnceFunc(func() { <-l.room })
	conn, err := l.Listener.Accept()
	if err != nil {
		leave()
		return nil, err
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		leave()
		_ = conn.Close() //nolint:errcheck // It is refused.
		return nil, fmt.Errorf("a connection of type %T: only those of TCP can be limited", conn)
	}
	return &limitedConn{TCPConn: tcp, leave: leave}, nil
}

// Close ends the listening; connections go on.
func (l *limitedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

type limitedConn struct {
	*net.TCPConn
	leave func()
}

// Close makes room for another connection.
func (c *limitedConn) Close() error {
	defer c.leave()
	return c.TCPConn.Close()
}
