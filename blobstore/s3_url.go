package blobstore

import (
	"crypto/x509"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
)

// s3Config is what the URL and the options of an S3 store say, checked.
type s3Config struct {
	bucket    string
	prefix    string // "" or with a slash behind it
	endpoint  string // host:port
	secure    bool   // https
	region    string
	pathStyle *bool // nil: as the endpoint usually has it
	accessKey keySource
	secretKey keySource
	onKeys    func(secrets ...string)
	public    string // host:port by which clients reach the server, "" as endpoint
	publicTLS bool
	roots     *x509.CertPool // nil: those of the system
	// partMemory is Options.PartMemory.
	partMemory int64
}

var s3Parameters = []string{"endpoint", "path_style", "region"}

// parseS3 reads an s3:// URL. Everything in it is checked: a mistyped parameter would else show as a strange
// answer of some server, much later.
func parseS3(u *url.URL, opts Options) (s3Config, error) {
	config := s3Config{
		bucket: u.Host, prefix: strings.Trim(u.Path, "/"), partMemory: opts.PartMemory, onKeys: opts.OnKeys,
		accessKey: keySource{"PAWL_S3_ACCESS_KEY", opts.AccessKey, opts.AccessKeyFile},
		secretKey: keySource{"PAWL_S3_SECRET_KEY", opts.SecretKey, opts.SecretKeyFile},
	}
	switch {
	case u.User != nil:
		return s3Config{}, badURL("has keys in it; give them as PAWL_S3_ACCESS_KEY and PAWL_S3_SECRET_KEY")
	case config.bucket == "" || u.Port() != "":
		return s3Config{}, badURL("has no bucket; write s3://bucket/prefix, and the server as ?endpoint=https://host:port")
	case u.Fragment != "":
		return s3Config{}, badURL("has a # in it; write it as %%23")
	}
	if err := checkKeys(config.accessKey, config.secretKey); err != nil {
		return s3Config{}, err
	}
	if config.prefix != "" {
		if !fs.ValidPath(config.prefix) || config.prefix == "." {
			return s3Config{}, badURL("has the prefix %q with an empty or relative segment; write it out", config.prefix)
		}
		config.prefix += "/"
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return s3Config{}, badURL("has parameters that can't be read (%w); write name=value with & between them", err)
	}
	for name, values := range query {
		if !slices.Contains(s3Parameters, name) {
			return s3Config{}, badURL("has the unknown parameter %q; there are %s", name, strings.Join(s3Parameters, ", "))
		}
		if len(values) != 1 {
			return s3Config{}, badURL("has the parameter %s %d times; give it once", name, len(values))
		}
	}
	if config.roots, err = trusted(opts.CAFile); err != nil {
		return s3Config{}, err
	}
	if err := config.setPublic(opts.PublicEndpoint); err != nil {
		return s3Config{}, err
	}
	return config, config.set(query)
}

// setPublic takes over the address by which clients reach the server.
func (c *s3Config) setPublic(address string) error {
	if address == "" {
		return nil
	}
	u, ok := serverAddress(address)
	if !ok {
		return fmt.Errorf("PAWL_S3_PUBLIC_ENDPOINT is no server's address; write https://host:port, without a path or a password")
	}
	c.public, c.publicTLS = u.Host, u.Scheme == "https"
	return nil
}

// serverAddress reads an address that names nothing but a server.
func serverAddress(address string) (*url.URL, bool) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, false
	}
	return u, u.Scheme == "http" || u.Scheme == "https"
}

// set takes over the parameters.
func (c *s3Config) set(query url.Values) error {
	c.region = query.Get("region")
	if text := query.Get("path_style"); text != "" {
		pathStyle, err := strconv.ParseBool(text)
		if err != nil {
			return badURL("has path_style=%s; write true or false", text)
		}
		c.pathStyle = &pathStyle
	}
	if !query.Has("endpoint") {
		if c.region == "" {
			return badURL("names no server; add endpoint=https://host:port, or region=… for Amazon's")
		}
		c.endpoint, c.secure = "s3."+c.region+".amazonaws.com", true
		return nil
	}
	endpoint, ok := serverAddress(query.Get("endpoint"))
	if !ok {
		return badURL("has an endpoint that is no server's address; write endpoint=https://host:port, or http:// inside a trusted network")
	}
	c.endpoint, c.secure = endpoint.Host, endpoint.Scheme == "https"
	if c.region == "" {
		c.region = "us-east-1" // What S3-compatible servers expect unless they are told otherwise.
	}
	return nil
}

// trusted adds the certificates of a PEM file to the system's. Without a file it returns nil, which stands for the system's.
func trusted(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil //nolint:nilnil // That is how crypto/tls has it.
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("PAWL_S3_CA_FILE: %w; name a file that the server can read", err)
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("PAWL_S3_CA_FILE: %s has no certificate in PEM form; it must look like -----BEGIN CERTIFICATE-----", file)
	}
	return roots, nil
}
