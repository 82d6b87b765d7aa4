package main

import (
	"net/netip"
	"net/url"
	"strings"

	"golang.org/x/net/publicsuffix"

	"github.com/pawlhq/pawl/blobstore"
)

// contentFinding says whether HTML files are shown, and how far from the pages.
func (s serverSettings) contentFinding() blobstore.Finding {
	found := blobstore.Finding{Name: "content origin", Level: blobstore.LevelNote}
	if s.transport.content == "" {
		found.Seen = "files that may run script, such as HTML reports, are downloads; none is shown"
		found.Cure = "set PAWL_CONTENT_ORIGIN to an origin for files alone to have them shown"
		return found
	}
	origin, err := url.Parse(s.transport.content)
	if err != nil {
		found.Level, found.Seen = blobstore.LevelFail, "PAWL_CONTENT_ORIGIN is no origin"
		return found
	}
	host := origin.Hostname()
	if origin.Scheme != "https" && !strings.HasSuffix(host, ".localhost") {
		found.Level, found.Cure = blobstore.LevelWarn, "set PAWL_CONTENT_ORIGIN to one with https"
		found.Seen = "files are shown at " + s.transport.content + ", so whoever is on the way reads them, and the addresses that open them"
		return found
	}
	for _, page := range s.hosts {
		if site := siteOf(page); site != "" && site == siteOf(host) {
			found.Cure = "a domain of its own would keep them further apart; no cookie of the pages is sent there either way"
			found.Seen = "files are shown at " + s.transport.content + ", which is of the same site, " + site + ", as the pages at " + page
			return found
		}
	}
	found.Level, found.Seen = blobstore.LevelOK, "files are shown at "+s.transport.content
	if len(s.hosts) > 0 {
		found.Seen += ", another site than that of the pages"
	}
	return found
}

// siteOf is what browsers take for one site with a host, "" for one that is alone, such as an address.
func siteOf(host string) string {
	if _, err := netip.ParseAddr(host); err == nil {
		return ""
	}
	site, err := publicsuffix.EffectiveTLDPlusOne(host)
	if err != nil { // It is a suffix itself, or a name without a dot.
		return ""
	}
	return site
}
