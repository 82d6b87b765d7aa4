package web_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/pawlhq/pawl/web"
)

// A server takes so many connections and no more; when one ends, the next that waits gets its turn.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute}
	answered := make(chan struct{}, 3)
	server.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { answered <- struct{}{} })
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(web.LimitConnections(listener, 2))
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-served
	})
	connections := make([]net.Conn, 3)
	for i := range connections {
		if connections[i], err = net.Dial("tcp", listener.Addr().String()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = connections[i].Close() })
		if _, err := io.WriteString(connections[i], "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	<-answered
	<-answered
	select {
	case <-answered:
		t.Error("three connections are served at once")
	case <-time.After(200 * time.Millisecond): // A server without the bound has long answered.
	}
	if err := connections[0].Close(); err != nil {
		t.Fatal(err)
	}
	if err := connections[1].Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-answered:
	case <-time.After(30 * time.Second):
		t.Error("a connection that waits is not served when others have ended")
	}
}

// A listener that is full can be closed, twice even, and its connections can do what net/http asks of those of TCP.
func TestLimitedConnectionsAreTCP(t *testing.T) {
	t.Parallel()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener := web.LimitConnections(inner, 1)
	client, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close() //nolint:errcheck // The test is over.
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := conn.(interface{ CloseWrite() error }); !ok {
		t.Error("a connection has no CloseWrite")
	}
	if _, ok := conn.(io.ReaderFrom); !ok {
		t.Error("a connection has no ReadFrom")
	}
	accepted := make(chan error, 1)
	go func() {
		_, err := listener.Accept()
		accepted <- err
	}()
	if err := errors.Join(listener.Close(), conn.Close()); err != nil {
		t.Error(err)
	}
	if err := <-accepted; !errors.Is(err, net.ErrClosed) {
		t.Errorf("waiting for room, then closed: %v", err)
	}
	_ = conn.Close()
	_ = listener.Close()
}
