package web

import (
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/pawlhq/pawl/publish"
)

// ParseHosts reads a list of names and addresses split by commas, such as "pawl.example.com, 192.0.2.7", for
// Options.Hosts. They stand without scheme and port: a name means every port. The empty text is an empty list.
func ParseHosts(list string) ([]string, error) {
	if strings.TrimSpace(list) == "" {
		return nil, nil
	}
	var hosts []string
	for entry := range strings.SplitSeq(list, ",") {
		entry = strings.TrimSpace(entry)
		host, ok := hostName(entry)
		if _, bare := canonicalHost(entry); !ok || !bare {
			return nil, fmt.Errorf("%q is no host: write names or addresses without scheme and port, split by commas, such as pawl.example.com; "+
				"a name with other letters in its ASCII form (xn--…)", entry)
		}
		hosts = append(hosts, host)
	}
	return hosts, nil
}

// refuseForeignHosts refuses requests whose Host is neither this machine's own nor one of Options.Hosts. A page whose name was
// bound anew to the loopback address (DNS rebinding) is of the same origin as this server for its reader's browser,
// and could read and change everything; but its name still stands in Host. So reading is refused as well.
func (h *Handler) refuseForeignHosts(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		// net/http has taken the name out of a target in absolute form, which counts more than the header (RFC 9112, section 3.2.2).
		host, ok := hostName(c.Request().Host)
		if !h.checkHost || ok && (isLoopback(host) || slices.Contains(h.hosts, host)) {
			return next(c)
		}
		return &publish.Error{
			Code: publish.ErrForbidden,
			Detail: fmt.Sprintf("this server doesn't answer to the Host %s, but to localhost, 127.0.0.0/8, [::1] and what PAWL_HOSTS (or --hosts) lists; "+
				"if that name is meant to lead here, as behind a proxy, add it to PAWL_HOSTS", strconv.QuoteToASCII(shorten(c.Request().Host))),
		}
	}
}

// hostName gives the host of a Host header in one form, without its port; ok is false when it isn't well-formed.
func hostName(host string) (_ string, ok bool) {
	name := host
	if colon := strings.LastIndexByte(host, ':'); colon >= 0 && !strings.HasSuffix(host, "]") && (host[0] == '[' || strings.Count(host, ":") == 1) {
		if strings.Trim(host[colon+1:], "0123456789") != "" {
			return "", false
		}
		name = host[:colon]
	}
	return canonicalHost(name)
}

// legalHost is a name in ASCII letters. The underscore is in no host's name, but in some that containers have.
var legalHost = regexp.MustCompile(`^[a-z0-9_-]+(\.[a-z0-9_-]+)*$`)

// canonicalHost gives a name in lower case without the trailing dot of the root, or an address in its shortest form. An IPv6
// address may stand in brackets; it has no zone, which is nobody's business but the sender's (RFC 6874, section 1).
func canonicalHost(name string) (_ string, ok bool) {
	inner, opened := strings.CutPrefix(name, "[")
	inner, closed := strings.CutSuffix(inner, "]")
	if opened != closed {
		return "", false
	}
	if ip, err := netip.ParseAddr(inner); err == nil {
		return ip.Unmap().String(), ip.Zone() == "" && (!opened || ip.Is6())
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if ip, err := netip.ParseAddr(name); err == nil && ip.Is4() {
		return ip.String(), true // an address with a dot behind it
	}
	return name, legalHost.MatchString(name)
}

// isLoopback reports whether a host in canonical form is this machine by definition: no name server is asked for it.
func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// splitOrigin reads an origin that is a setting. host is as hostName gives it, scheme in small letters. The error gives an example of one.
func splitOrigin(text, example string) (scheme, host string, err error) {
	u, err := url.Parse(text)
	if err != nil || !legalOrigin.MatchString(strings.ToLower(text)) {
		return "", "", fmt.Errorf("%q is no origin: write scheme and host, and a port if it isn't the scheme's own, without a path, such as %s", text, example)
	}
	host, ok := hostName(u.Host)
	if !ok {
		return "", "", fmt.Errorf("%q has no host that can be asked for; write a name with other letters in its ASCII form (xn--…)", text)
	}
	return u.Scheme, host, nil // url.Parse has made its letters small.
}
