package e2e

import (
	"fmt"
	"net"
	"strings"
	"testing"
)

// truncations are the ways in which a body can end too early. Each writes a request on a connection of its own.
func truncations() map[string]func(t *testing.T, addr, head string) {
	const promised, sent = 1_000_000, 763_831
	dial := func(t *testing.T, addr string) *net.TCPConn {
		t.Helper()
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		return conn.(*net.TCPConn) //nolint:forcetypeassert // It was dialed as TCP.
	}
	write := func(t *testing.T, conn net.Conn, text string) {
		t.Helper()
		if _, err := conn.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	return map[string]func(*testing.T, string, string){
		"fin": func(t *testing.T, addr, head string) {
			conn := dial(t, addr)
			write(t, conn, head+fmt.Sprintf("Content-Length: %d\r\n\r\n", promised)+strings.Repeat("x", sent))
			_ = conn.Close()
		},
		"reset": func(t *testing.T, addr, head string) {
			conn := dial(t, addr)
			write(t, conn, head+fmt.Sprintf("Content-Length: %d\r\n\r\n", promised)+strings.Repeat("x", sent))
			_ = conn.SetLinger(0)
			_ = conn.Close()
		},
		"without last chunk": func(t *testing.T, addr, head string) {
			conn := dial(t, addr)
			write(t, conn, head+"Transfer-Encoding: chunked\r\n\r\n"+fmt.Sprintf("%x\r\n", sent)+strings.Repeat("x", sent)+"\r\n")
			_ = conn.Close()
		},
		"broken chunk": func(t *testing.T, addr, head string) {
			conn := dial(t, addr)
			write(t, conn, head+"Transfer-Encoding: chunked\r\n\r\n"+fmt.Sprintf("%x\r\n", sent)+strings.Repeat("x", 1000))
			_ = conn.Close()
		},
	}
}
