package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/pawlhq/pawl/internal/redact"
	"github.com/pawlhq/pawl/pointer"
	"github.com/pawlhq/pawl/web"
)

const defaultListen = "127.0.0.1:8484"

// serverFlags are the flags of serve and dev. What they leave open is read from PAWL_* variables.
type serverFlags struct {
	listen, blobs, basePath, hosts string
	drain, grace                   time.Duration
	requireSynchronous             bool
}

func (f *serverFlags) register(flags *pflag.FlagSet, drain, grace time.Duration) {
	flags.StringVar(&f.listen, "listen", "", "address to listen on (PAWL_LISTEN; default "+defaultListen+")")
	flags.StringVar(&f.blobs, "blobs", "", "where bytes live: file:///folder or s3://bucket/prefix?endpoint=… (PAWL_BLOBS)")
	flags.StringVar(&f.basePath, "base-path", "", "path under which a proxy serves Pawl, e.g. /pawl (PAWL_BASE_PATH)")
	flags.StringVar(&f.hosts, "hosts", "", "names, split by commas, that lead here besides localhost, as of a proxy (PAWL_HOSTS)")
	flags.DurationVar(&f.drain, "drain", drain, "at the end: how long to go on serving after /readyz says no")
	flags.DurationVar(&f.grace, "grace", grace, "at the end: how long running requests may take after that")
}

// serverSettings is what a server needs to know.
type serverSettings struct {
	listen, databaseURL, blobs, basePath string
	database                             secretSetting // where databaseURL is written
	store                                storeSettings
	ownFolder                            bool     // blobs is a folder that nobody else uses
	hosts                                []string // what a request's Host may be, besides this machine itself
	markers                              bool
	requireSynchronous                   bool
	drain, grace                         time.Duration
	sweep                                sweepSettings
	collect                              collectSettings
	events                               eventSettings
	transport                            transportSettings
	auth                                 authSettings
	limits                               limitSettings
	log                                  *slog.Logger
}

// serverSettings puts flags, variables and defaults together.
func (a *app) serverSettings(f serverFlags, level slog.Level) (serverSettings, error) {
	s := serverSettings{
		listen:   cmp.Or(a.setting(f.listen, "PAWL_LISTEN"), defaultListen),
		blobs:    a.setting(f.blobs, "PAWL_BLOBS"),
		basePath: a.setting(f.basePath, "PAWL_BASE_PATH"),
		drain:    f.drain,
		grace:    f.grace,
	}
	var err error
	if s.databaseURL, s.database, err = a.databaseURL(); err != nil {
		return s, err
	}
	if s.markers, err = a.yes("PAWL_MARKERS"); err != nil {
		return s, err
	}
	if s.requireSynchronous, err = a.yes("PAWL_REQUIRE_SYNCHRONOUS"); err != nil {
		return s, err
	}
	s.requireSynchronous = s.requireSynchronous || f.requireSynchronous
	if s.store, err = a.storeSettings(s.blobs); err != nil {
		return s, err
	}
	s.log, err = a.logger(level, s.secrets)
	if err != nil {
		return s, err
	}
	if s.sweep, err = a.sweepSettings(); err != nil {
		return s, err
	}
	if s.collect, err = a.collectSettings(); err != nil {
		return s, err
	}
	if s.events, err = a.eventSettings(); err != nil {
		return s, err
	}
	if s.transport, err = a.transportSettings(); err != nil {
		return s, err
	}
	if s.auth, err = a.authSettings(); err != nil {
		return s, err
	}
	if err := s.checkSignIns(); err != nil {
		return s, err
	}
	if s.limits, err = a.limitSettings(); err != nil {
		return s, err
	}
	if _, _, err := net.SplitHostPort(s.listen); err != nil {
		return s, configError{fmt.Errorf("PAWL_LISTEN (or --listen) is %q; it must look like %s", s.listen, defaultListen)}
	}
	if s.hosts, err = web.ParseHosts(a.setting(f.hosts, "PAWL_HOSTS")); err != nil {
		return s, configError{fmt.Errorf("PAWL_HOSTS (or --hosts): %w", err)}
	}
	if s.transport.content, err = web.ParseContentOrigin(a.getenv("PAWL_CONTENT_ORIGIN"), s.pageHosts()); err != nil {
		return s, configError{fmt.Errorf("PAWL_CONTENT_ORIGIN (beside PAWL_HOSTS, PAWL_ORIGIN and PAWL_LISTEN): %w", err)}
	}
	return s, nil
}

// yes reads a setting that is true or false; not set is false.
func (a *app) yes(name string) (bool, error) {
	switch text := a.getenv(name); text {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	default:
		return false, configError{fmt.Errorf("%s is %q; it must be true or false", name, text)}
	}
}

// checkHost reports whether requests for other hosts are refused. On loopback nobody may be asked for a credential, and what
// protects the server is that others can't reach it; but a page in a browser of this machine can.
func (s serverSettings) checkHost() bool { return loopback(s.listen) || len(s.hosts) > 0 }

// pageHosts are the hosts that the pages answer to, besides this machine's own names, as far as they are known.
func (s serverSettings) pageHosts() []string {
	host, _, _ := net.SplitHostPort(s.listen)            //nolint:errcheck // It was checked.
	if listen, err := web.ParseHosts(host); err == nil { // Its own address isn't always a name for others.
		return slices.Concat(s.hosts, s.originHosts(), listen)
	}
	return slices.Concat(s.hosts, s.originHosts())
}

// secrets are the texts that must not show in a log, whoever writes the line.
func (s serverSettings) secrets() []string {
	return append(s.store.keys.all(), databaseSecrets(s.databaseURL)...)
}

// databaseSecrets are the texts of an address of Postgres that must not show.
func databaseSecrets(address string) []string {
	secrets := []string{address}
	if u, err := url.Parse(address); err == nil && u.User != nil {
		password, _ := u.User.Password()
		secrets = append(secrets, password, url.QueryEscape(password))
	}
	for word := range strings.FieldsSeq(address) { // the key=value form
		if password, found := strings.CutPrefix(word, "password="); found {
			secrets = append(secrets, strings.Trim(password, "'"))
		}
	}
	return secrets
}

// pointerOptions are the settings as the pointer table's store takes them. An address in a file is read again for each new connection, so a
// password that was replaced is used from then on, and hidden.
func (s serverSettings) pointerOptions() pointer.Options {
	options := pointer.Options{RequireSynchronous: s.requireSynchronous, Limits: s.limits.generation()}
	if s.database.file != "" {
		options.Address = func() (string, error) {
			address, err := s.database.read()
			if err == nil && address != s.databaseURL {
				s.store.keys.know(databaseSecrets(address)...)
			}
			return address, err
		}
	}
	return options
}

// loopback reports whether an address is reachable from this machine alone.
func loopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// logger makes the server's log, on stderr.
func (a *app) logger(level slog.Level, secrets func() []string) (*slog.Logger, error) {
	if text := a.getenv("PAWL_LOG_LEVEL"); text != "" {
		if err := level.UnmarshalText([]byte(text)); err != nil {
			return nil, configError{fmt.Errorf("PAWL_LOG_LEVEL is %q; it must be debug, info, warn or error", text)}
		}
	}
	to := redact.NewWriter(a.stderr, secrets)
	options := &slog.HandlerOptions{Level: level}
	switch format := a.getenv("PAWL_LOG_FORMAT"); format {
	case "", "text":
		return slog.New(slog.NewTextHandler(to, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(to, options)), nil
	default:
		return nil, configError{fmt.Errorf("PAWL_LOG_FORMAT is %q; it must be text or json", format)}
	}
}

// redacted is an error whose text holds no secret any more; its kind stays.
func (s serverSettings) redacted(err error) error {
	if clean := redact.Text(err.Error(), s.secrets()); clean != err.Error() {
		return redactedError{errors.New(clean), err}
	}
	return err
}

type redactedError struct {
	error
	kind error
}

func (e redactedError) exitCode() int { return exitCode(e.kind) }
