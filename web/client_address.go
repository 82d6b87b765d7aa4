package web

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
)

// What proxies tell about the client that they speak for. It counts only when it comes from one of Options.TrustedProxies: anybody can
// write these headers.
const (
	headerForwardedFor   = "X-Forwarded-For"
	headerForwardedProto = "X-Forwarded-Proto"
)

// ParseProxies reads a list of addresses and ranges split by commas, such as "10.0.0.0/8, 192.0.2.7, fd00::/8", for
// Options.TrustedProxies. The empty text is an empty list.
func ParseProxies(list string) ([]netip.Prefix, error) {
	if strings.TrimSpace(list) == "" {
		return nil, nil
	}
	var proxies []netip.Prefix
	for entry := range strings.SplitSeq(list, ",") {
		entry = strings.TrimSpace(entry)
		proxy, err := netip.ParsePrefix(entry)
		if address, bare := netip.ParseAddr(entry); bare == nil && address.Zone() == "" {
			proxy, err = netip.PrefixFrom(address.Unmap(), address.Unmap().BitLen()), nil
		}
		if err != nil || proxy.Addr().Is4In6() {
			return nil, fmt.Errorf("%q is no range of addresses: write them as 10.0.0.0/8, 192.0.2.7 or fd00::/8, split by commas", entry)
		}
		proxies = append(proxies, proxy.Masked())
	}
	return proxies, nil
}

// clientAddress is the address that a request was begun at: that of the connection, or, when that is a trusted proxy's, the rightmost
// one of X-Forwarded-For that is no trusted proxy's. What stands to the left of it was written by who knows whom. It is the zero Addr, which
// is equal to itself alone, only when the connection has no IP address.
func (h *Handler) clientAddress(r *http.Request) netip.Addr {
	client := parseAddress(r.RemoteAddr)
	if !h.isProxy(client) {
		return client
	}
	rest, more := strings.Join(r.Header.Values(headerForwardedFor), ","), true
	for more && h.isProxy(client) {
		var entry string
		if comma := strings.LastIndexByte(rest, ','); comma >= 0 {
			rest, entry = rest[:comma], rest[comma+1:]
		} else {
			entry, more = rest, false
		}
		next := parseAddress(strings.TrimSpace(entry))
		if !next.IsValid() {
			break // The nearest proxy that we know of is all that can be said.
		}
		client = next
	}
	return client
}

// overTLS reports whether a request's client has sent it over TLS, to this server or to a trusted proxy. Of several proxies the one nearest
// to us has written the last word.
func (h *Handler) overTLS(r *http.Request) bool {
	if r.TLS != nil {
		return true
	}
	if !h.isProxy(parseAddress(r.RemoteAddr)) {
		return false
	}
	told := strings.Join(r.Header.Values(headerForwardedProto), ",")
	return strings.EqualFold(strings.TrimSpace(told[strings.LastIndexByte(told, ',')+1:]), "https")
}

// isProxy reports whether what an address tells about others is believed.
func (h *Handler) isProxy(address netip.Addr) bool {
	for _, proxy := range h.proxies {
		if proxy.Contains(address) {
			return true
		}
	}
	return false
}

// parseAddress reads an address that may have a port, an IPv6 one then in brackets. An IPv4 address in IPv6's form is the IPv4 one. A zone
// is nobody's business but that machine's.
func parseAddress(text string) netip.Addr {
	if with, err := netip.ParseAddrPort(text); err == nil {
		return with.Addr().Unmap().WithZone("")
	}
	inner, opened := strings.CutPrefix(text, "[")
	inner, closed := strings.CutSuffix(inner, "]")
	address, err := netip.ParseAddr(inner)
	if err != nil || opened != closed {
		return netip.Addr{}
	}
	return address.Unmap().WithZone("")
}
