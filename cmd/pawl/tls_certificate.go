package main

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// certificateFreshFor is how long a certificate is given out before its files are looked at again.
const certificateFreshFor = 10 * time.Second

// certificateKeeper gives out the certificate that lies in two files, also after they were replaced. They are looked at when a client comes, so
// it needs no goroutine. A pair that can't be used, as when one file is new and the other isn't yet, is logged and changes nothing.
type certificateKeeper struct {
	certFile, keyFile string
	log               *slog.Logger
	now               func() time.Time

	current atomic.Pointer[tls.Certificate]

	looking sync.Mutex // held by who looks at the files; the others don't wait
	looked  time.Time
	seen    [2]os.FileInfo // of the pair that was tried last
	refused string         // why it couldn't be used, "" if it could
}

// openCertificate reads a pair of files in PEM: the certificate with what leads to its issuer, and its private key.
func openCertificate(certFile, keyFile string, log *slog.Logger) (*certificateKeeper, error) {
	k := &certificateKeeper{certFile: certFile, keyFile: keyFile, log: log, now: time.Now}
	if err := k.load(); err != nil {
		return nil, configError{fmt.Errorf("PAWL_TLS_CERT and PAWL_TLS_KEY: %w", err)}
	}
	return k, nil
}

// config is the server's side of TLS. What older versions than 1.2 promise, they don't keep (RFC 8996).
func (k *certificateKeeper) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: k.certificate}
}

// certificate is asked at every handshake.
func (k *certificateKeeper) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if k.looking.TryLock() {
		if k.now().Sub(k.looked) >= certificateFreshFor {
			k.look()
		}
		k.looking.Unlock()
	}
	return k.current.Load(), nil
}

// look reads the files anew if they have changed, or couldn't be used the last time.
func (k *certificateKeeper) look() {
	if k.refused == "" && !k.changed() {
		k.looked = k.now()
		return
	}
	switch err := k.load(); {
	case err == nil:
		k.refused = ""
		k.log.Info("certificate_loaded", "file", k.certFile, "expires", k.current.Load().Leaf.NotAfter)
	case err.Error() != k.refused: // The same again is no news.
		k.refused = err.Error()
		k.log.Warn("certificate_not_loaded", "file", k.certFile, "error", err)
	}
}

func (k *certificateKeeper) changed() bool {
	for i, name := range []string{k.certFile, k.keyFile} {
		info, err := os.Stat(name)
		old := k.seen[i]
		if err != nil || old == nil || !os.SameFile(old, info) || !old.ModTime().Equal(info.ModTime()) || old.Size() != info.Size() {
			return true
		}
	}
	return false
}

// load reads the pair. What the files are is noted before: a change while they are read shows the next time.
func (k *certificateKeeper) load() error {
	k.looked = k.now()
	for i, name := range []string{k.certFile, k.keyFile} {
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		k.seen[i] = info
	}
	pair, err := tls.LoadX509KeyPair(k.certFile, k.keyFile)
	if err != nil {
		return fmt.Errorf("%s and %s: %w", k.certFile, k.keyFile, err)
	}
	k.current.Store(&pair)
	return nil
}
