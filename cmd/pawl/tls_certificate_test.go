package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/testenv"
)

// writePair makes a certificate of its own for 127.0.0.1 and puts it into two files.
func writePair(t *testing.T, name, certFile, keyFile string) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, certFile, "CERTIFICATE", der)
	writePEM(t, keyFile, "PRIVATE KEY", private)
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

// writePEM replaces a file as programs that renew certificates do: by a new one of that name.
func writePEM(t *testing.T, file, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(file+".new", pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

// A certificate is taken up anew when its files change, and a pair that doesn't fit keeps the old one.
func TestCertificateIsReloaded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	var log testenv.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	if _, err := openCertificate(certFile, keyFile, logger); err == nil || exitCode(err) != exitConfig || !strings.Contains(err.Error(), "PAWL_TLS_CERT") {
		t.Errorf("without files: %v", err)
	}
	writePair(t, "one", certFile, keyFile)
	keeper, err := openCertificate(certFile, keyFile, logger)
	if err != nil {
		t.Fatal(err)
	}
	clock := time.Now()
	keeper.now = func() time.Time { return clock }
	given := func(want string) {
		t.Helper()
		pair, err := keeper.certificate(nil)
		if err != nil || pair.Leaf.Subject.CommonName != want {
			t.Errorf("the certificate is %v, %v; want %q", pair, err, want)
		}
	}
	count := func(text string, want int) {
		t.Helper()
		if got := strings.Count(log.String(), text); got != want {
			t.Errorf("%q is in the log %d times, want %d: %s", text, got, want, log.String())
		}
	}
	later := func() { clock = clock.Add(certificateFreshFor) }

	later()
	given("one")
	writePair(t, "two", certFile, keyFile)
	given("one") // not looked at yet
	later()
	given("two")
	count("certificate_loaded", 1)

	writePair(t, "three", certFile, filepath.Join(dir, "other.pem"))
	for range 3 {
		later()
		given("two")
	}
	count("certificate_not_loaded", 1)
	if err := os.Rename(filepath.Join(dir, "other.pem"), keyFile); err != nil {
		t.Fatal(err)
	}
	later()
	given("three")
	count("certificate_loaded", 2)

	for _, broken := range []func() error{
		func() error { return os.Remove(certFile) },
		func() error { return os.WriteFile(certFile, []byte("no PEM"), 0o600) },
		func() error { return os.Truncate(certFile, 0) },
	} {
		if err := broken(); err != nil {
			t.Fatal(err)
		}
		later()
		given("three")
	}
	writePair(t, "four", certFile, keyFile)
	later()
	given("four")
	if strings.Contains(log.String(), "PRIVATE") {
		t.Errorf("the log has a key: %s", log.String())
	}
}

// serve speaks TLS and HTTP/2 by two settings. That is no credential: beyond loopback it still asks for what it asked for.
func TestServeTLS(t *testing.T) {
	t.Parallel()
	address, dir := freeAddress(t), t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	certificate := writePair(t, "pawl", certFile, keyFile)
	env := []string{
		"PAWL_DATABASE_URL=" + emptyDatabase(t), "PAWL_BLOBS=file://" + filepath.Join(dir, "blobs"), "PAWL_LISTEN=" + address,
		"PAWL_TLS_CERT=" + certFile, "PAWL_TLS_KEY=" + keyFile,
	}
	if err := os.Mkdir(filepath.Join(dir, "blobs"), 0o700); err != nil {
		t.Fatal(err)
	}
	startPawl(t, dir, append(env, "PAWL_LISTEN=0.0.0.0:0"), "serve").exit(t, exitConfig, "PAWL_LISTEN", "PAWL_ALLOW_UNAUTHENTICATED")
	startPawl(t, dir, append(env, "PAWL_TLS_KEY="+certFile), "serve").exit(t, exitConfig, "PAWL_TLS_CERT and PAWL_TLS_KEY")
	server := startPawl(t, dir, env, "serve", "--migrate", "--drain", "0s")
	eventually(t, "the start", func() bool { return strings.Contains(server.stderr.String(), "server_started") })

	trusted := x509.NewCertPool()
	trusted.AddCert(certificate)
	client := func(version uint16) *http.Client {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted, MaxVersion: version}, ForceAttemptHTTP2: true} //nolint:gosec // Old versions are to be refused.
		t.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Transport: transport}
	}
	for range 2 {
		resp, err := client(0).Get("https://" + address + "/")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK || resp.ProtoMajor != 2 || resp.TLS.Version != tls.VersionTLS13 || resp.Header.Get("Strict-Transport-Security") == "" {
			t.Errorf("by TLS: %s by %s, %v", resp.Status, resp.Proto, resp.Header)
		}
	}
	for version, works := range map[uint16]bool{tls.VersionTLS12: true, tls.VersionTLS11: false} {
		resp, err := client(version).Get("https://" + address + "/livez")
		if (err == nil) != works {
			t.Errorf("by version %x: %v", version, err)
		}
		if err == nil {
			_ = resp.Body.Close()
		}
	}
	if resp, err := http.Get("http://" + address + "/livez"); err != nil || resp.StatusCode != http.StatusBadRequest {
		t.Errorf("without TLS: %v, %v", resp, err)
	} else {
		_ = resp.Body.Close()
	}
	http.DefaultClient.CloseIdleConnections()
	// The command line uploads, publishes and reads by it, with the system's certificates and those that SSL_CERT_FILE names.
	put := startPawl(t, dir, []string{"PAWL_URL=https://" + address, "SSL_CERT_FILE=" + certFile}, "put", "k", certFile)
	put.exit(t, 0)
	startPawl(t, dir, []string{"PAWL_URL=https://" + address, "PAWL_RETRY_FOR=0s"}, "stat", "k").exit(t, exitUnreachable)
}
