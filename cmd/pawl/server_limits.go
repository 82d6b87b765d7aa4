package main

import (
	"fmt"
	"math"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

// limitSettings bound what others can make a server do. 0 is no limit, where it is allowed.
type limitSettings struct {
	headers, json         int64 // bytes
	file, generationBytes int64 // bytes
	generationFiles       int64
	rate                  float64 // requests a second
	burst                 int64
	connections, uploads  int64
	direct, leases        int64
	idle                  time.Duration
}

// The standard limits. A page with its event stream, a put of 100,000 files in parallel and a poller stay far below those of each caller.
const (
	defaultLimitHeaders     = 64 << 10
	defaultLimitJSON        = 16 << 20
	defaultLimitFiles       = 1_000_000
	defaultLimitRate        = 2000
	defaultLimitBurst       = 10_000
	defaultLimitConnections = 4096
	defaultLimitUploads     = 1000
	defaultLimitDirect      = 10_000
	defaultLimitLeases      = 10_000
)

func (a *app) limitSettings() (s limitSettings, err error) {
	for _, setting := range []struct {
		name                  string
		into                  *int64
		standard, least, most int64
		off                   bool // 0 takes the limit away
		size                  bool // in bytes, with a unit
	}{
		{name: "PAWL_LIMIT_HEADERS", into: &s.headers, standard: defaultLimitHeaders, least: 8 << 10, most: 16 << 20, size: true},
		{name: "PAWL_LIMIT_JSON", into: &s.json, standard: defaultLimitJSON, least: 64 << 10, most: defaultLimitJSON, size: true},
		{name: "PAWL_LIMIT_FILE", into: &s.file, standard: publish.DefaultMaxFileBytes, least: 1, most: publish.DefaultMaxFileBytes, size: true},
		{name: "PAWL_LIMIT_GENERATION", into: &s.generationBytes, least: 1, most: int64(publish.MaxToken), off: true, size: true},
		{name: "PAWL_LIMIT_FILES", into: &s.generationFiles, standard: defaultLimitFiles, least: 1, most: math.MaxInt32, off: true},
		{name: "PAWL_LIMIT_BURST", into: &s.burst, standard: 0, least: 1, most: math.MaxInt32},
		{name: "PAWL_LIMIT_CONNECTIONS", into: &s.connections, standard: defaultLimitConnections, least: 1, most: 1_000_000, off: true},
		{name: "PAWL_LIMIT_UPLOADS", into: &s.uploads, standard: defaultLimitUploads, least: 1, most: 1_000_000, off: true},
		{name: "PAWL_LIMIT_DIRECT", into: &s.direct, standard: defaultLimitDirect, least: 1, most: 1_000_000, off: true},
		{name: "PAWL_LIMIT_LEASES", into: &s.leases, standard: defaultLimitLeases, least: 1, most: 1_000_000, off: true},
	} {
		if *setting.into, err = a.limit(setting.name, setting.standard, setting.least, setting.most, setting.off, setting.size); err != nil {
			return s, err
		}
	}
	if err := a.limitRate(&s); err != nil {
		return s, err
	}
	s.idle, err = a.atLeast("PAWL_LIMIT_IDLE", time.Second, web.DefaultBodyIdleTimeout)
	return s, err
}

// limit reads a setting that is a number or a size.
func (a *app) limit(name string, standard, least, most int64, off, size bool) (int64, error) {
	text := a.getenv(name)
	if text == "" {
		return standard, nil
	}
	n, ok := parseSize(text)
	shown := sizeText
	if !size {
		var err error
		n, err = strconv.ParseInt(text, 10, 64)
		ok, shown = err == nil, func(n int64) string { return strconv.FormatInt(n, 10) }
	}
	if ok && (n >= least && n <= most || n == 0 && off) {
		return n, nil
	}
	what, end := "a number", ""
	if size {
		what = "a size such as 64KiB or 5GiB"
	}
	if off {
		end = ", or to 0 for no limit"
	}
	return 0, configError{fmt.Errorf("%s is %q; set it to %s from %s to %s%s", name, text, what, shown(least), shown(most), end)}
}

// limitRate reads the rate, which may be a fraction, and settles what is allowed at once.
func (a *app) limitRate(s *limitSettings) error {
	const most = 1_000_000
	if text := a.getenv("PAWL_LIMIT_RATE"); text != "" {
		rate, err := strconv.ParseFloat(text, 64)
		if err != nil || !(rate == 0 || rate >= 0.001 && rate <= most) {
			return configError{fmt.Errorf("PAWL_LIMIT_RATE is %q; set it to a number of requests a second from 0.001 to %d, or to 0 for no limit", text, most)}
		}
		s.rate = rate
		if s.burst == 0 {
			s.burst = max(1, int64(2*rate))
		}
		return nil
	}
	s.rate = defaultLimitRate
	if s.burst == 0 {
		s.burst = defaultLimitBurst
	}
	return nil
}

// sizeText writes a size with the greatest unit that it is a multiple of.
func sizeText(bytes int64) string {
	for _, unit := range sizeUnits {
		if bytes >= unit.size && bytes%unit.size == 0 {
			return strconv.FormatInt(bytes/unit.size, 10) + unit.name
		}
	}
	return strconv.FormatInt(bytes, 10)
}

// fileBytes bounds one file: also a file can't be larger than its generation.
func (s limitSettings) fileBytes() int64 {
	if s.generationBytes == 0 {
		return s.file
	}
	return min(s.file, s.generationBytes)
}

func (s limitSettings) generation() publish.GenerationLimits {
	return publish.GenerationLimits{Files: s.generationFiles, Bytes: s.generationBytes}
}

// bound applies what is counted before a request is read.
func (s limitSettings) bound(listener net.Listener, server *http.Server) net.Listener {
	server.MaxHeaderBytes = int(s.headers)
	if s.connections == 0 {
		return listener
	}
	return web.LimitConnections(listener, int(s.connections))
}
