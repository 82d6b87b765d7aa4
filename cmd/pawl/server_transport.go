package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/netip"

	"github.com/pawlhq/pawl/web"
)

// transportSettings are what stands between a server and its clients.
type transportSettings struct {
	proxies         []netip.Prefix // whose word about their clients is believed
	embed           web.Embed
	origin          string // where browsers reach the pages, "" where nobody has said so
	content         string // the origin where files are shown, "" for none
	tlsCert, tlsKey string // files; both or none
}

func (a *app) transportSettings() (s transportSettings, err error) {
	if s.proxies, err = web.ParseProxies(a.getenv("PAWL_TRUSTED_PROXIES")); err != nil {
		return s, configError{fmt.Errorf("PAWL_TRUSTED_PROXIES: %w", err)}
	}
	if s.embed, err = web.ParseEmbed(a.getenv("PAWL_EMBED")); err != nil {
		return s, configError{fmt.Errorf("PAWL_EMBED: %w", err)}
	}
	if s.origin, err = web.ParseOrigin(a.getenv("PAWL_ORIGIN")); err != nil {
		return s, configError{fmt.Errorf("PAWL_ORIGIN: %w", err)}
	}
	s.tlsCert, s.tlsKey = a.getenv("PAWL_TLS_CERT"), a.getenv("PAWL_TLS_KEY")
	switch {
	case s.tlsCert == "" && s.tlsKey != "":
		return s, configError{errors.New("PAWL_TLS_KEY is set and PAWL_TLS_CERT isn't; name the file of the certificate too, or neither")}
	case s.tlsKey == "" && s.tlsCert != "":
		return s, configError{errors.New("PAWL_TLS_CERT is set and PAWL_TLS_KEY isn't; name the file of the private key too, or neither")}
	}
	return s, nil
}

// scheme is how the server is reached at its own address.
func (s transportSettings) scheme() string {
	if s.tlsCert != "" {
		return "https"
	}
	return "http"
}

// tlsConfig is nil for plain HTTP. TLS keeps others from reading along; who may do what is another question, so it opens no address beyond
// loopback by itself.
func (srv *server) tlsConfig(ctx context.Context) (*tls.Config, error) {
	s := srv.settings.transport
	if s.tlsCert == "" {
		if !loopback(srv.settings.listen) && len(s.proxies) == 0 {
			srv.settings.log.WarnContext(ctx, "listening_without_tls", "address", srv.settings.listen,
				"cure", "set PAWL_TLS_CERT and PAWL_TLS_KEY, or PAWL_TRUSTED_PROXIES if a proxy in front has TLS")
		}
		return nil, nil
	}
	keeper, err := openCertificate(s.tlsCert, s.tlsKey, srv.settings.log)
	if err != nil {
		return nil, err
	}
	return keeper.config(), nil
}

// serveListener serves until the listener is closed.
func (srv *server) serveListener() error {
	if srv.http.TLSConfig == nil {
		return srv.http.Serve(srv.listener)
	}
	return srv.http.ServeTLS(srv.listener, "", "") // The certificate comes from the configuration.
}
