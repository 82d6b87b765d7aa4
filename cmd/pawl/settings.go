package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/publish"
)

const defaultURL = "http://127.0.0.1:8484"

// clientFlags are the flags of every verb that talks to a server.
type clientFlags struct {
	url            string
	credentialFile string
	retryFor       time.Duration
}

func (f *clientFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.url, "url", "", "address of the server (PAWL_URL; default "+defaultURL+")")
	flags.StringVar(&f.credentialFile, "credential-file", "", "file that holds the credential (PAWL_CREDENTIAL_FILE, or the credential itself in PAWL_CREDENTIAL)")
	flags.DurationVar(&f.retryFor, "retry-for", 0, "how long to go on when the server can't be reached (PAWL_RETRY_FOR; default 10s, run: 1m); 0s: not at all")
}

// newClient makes the client of a verb. retryFor is the verb's default.
func (a *app) newClient(retryFor time.Duration) (*client.Client, error) {
	given, set := a.client.retryFor, a.getenv("PAWL_RETRY_FOR")
	switch {
	case given > 0:
		retryFor = given
	case given < 0:
		return nil, usageError{errors.New("--retry-for must not be negative")}
	case a.flagGiven("retry-for"):
		retryFor = -1
	case set != "":
		parsed, err := time.ParseDuration(set)
		if err != nil || parsed < 0 {
			return nil, configError{fmt.Errorf(`PAWL_RETRY_FOR is %q; set it to a duration such as "10s"`, set)}
		}
		if retryFor = parsed; parsed == 0 {
			retryFor = -1
		}
	}
	address := a.setting(a.client.url, "PAWL_URL")
	if address == "" {
		address = defaultURL
	}
	options := client.Options{RetryFor: retryFor, UserAgent: "pawl/" + version()}
	var err error
	if options.Credential, options.CredentialFile, err = a.credential(); err != nil {
		return nil, err
	}
	c, err := client.New(address, options)
	if errors.Is(err, client.ErrCredentialFile) {
		return nil, configError{fmt.Errorf("PAWL_CREDENTIAL_FILE (or --credential-file): %w", err)}
	} else if err != nil {
		return nil, configError{fmt.Errorf("PAWL_URL (or --url): %w", err)}
	}
	return c, nil
}

// credential finds the credential, which never stands on a command line, or the file that holds it.
func (a *app) credential() (text, file string, err error) {
	if a.client.credentialFile != "" {
		return "", a.client.credentialFile, nil
	}
	if text := a.getenv("PAWL_CREDENTIAL"); text != "" {
		return text, "", nil // Whoever gives one to a single command may have a file for all others.
	}
	setting, err := a.secret("PAWL_CREDENTIAL")
	return "", setting.file, err
}

// grantFlags name a grant: the token, and where its lease_id is. The lease_id is a secret, so no flag holds it.
type grantFlags struct {
	token     int64
	leaseFile string
}

func (g *grantFlags) register(flags *pflag.FlagSet, withToken bool) {
	if withToken {
		flags.Int64Var(&g.token, "token", 0, "token of the grant (PAWL_TOKEN)")
	}
	flags.StringVar(&g.leaseFile, "lease-file", "", "file that holds the lease_id, or what 'pawl acquire --json' printed (or the lease_id in PAWL_LEASE_ID)")
}

// leaseFile is the content of a file given by --lease-file.
type leaseFile struct {
	Token   publish.Token   `json:"token"`
	LeaseID publish.LeaseID `json:"lease_id"`
}

// lease reads the lease_id, and the token that stands with it if any.
func (a *app) lease(g grantFlags) (leaseFile, error) {
	var lease leaseFile
	if g.leaseFile == "" {
		text := a.getenv("PAWL_LEASE_ID")
		if text == "" {
			return lease, nil
		}
		if err := lease.LeaseID.UnmarshalText([]byte(text)); err != nil {
			return lease, usageError{errors.New("PAWL_LEASE_ID must be the 32 hex digits that acquire printed")}
		}
		return lease, nil
	}
	text, err := os.ReadFile(g.leaseFile)
	if err != nil {
		return lease, missingError{fmt.Errorf("--lease-file: %w", err)}
	}
	trimmed := strings.TrimSpace(string(text))
	if strings.HasPrefix(trimmed, "{") {
		err = json.Unmarshal([]byte(trimmed), &lease)
	} else {
		err = lease.LeaseID.UnmarshalText([]byte(trimmed))
	}
	if err != nil || lease.LeaseID.IsZero() {
		return lease, usageError{fmt.Errorf("--lease-file: %s holds neither a lease_id (32 hex digits) nor the JSON of a lease", g.leaseFile)}
	}
	return lease, nil
}

// grant puts together what the flags and variables say; ok is false when they say nothing at all.
func (a *app) grant(key publish.Key, g grantFlags) (grant publish.Grant, ok bool, err error) {
	lease, err := a.lease(g)
	if err != nil {
		return publish.Grant{}, false, err
	}
	token := lease.Token
	text := a.getenv("PAWL_TOKEN")
	switch {
	case a.flagGiven("token"):
		text = fmt.Sprint(g.token)
	case token != 0:
		text = ""
	}
	if text != "" {
		if token, err = publish.ParseToken(text); err != nil {
			return publish.Grant{}, false, usageError{fmt.Errorf("token %q: must be an integer from 1 to %d", text, publish.MaxToken)}
		}
	}
	switch {
	case token == 0 && lease.LeaseID.IsZero():
		return publish.Grant{}, false, nil
	case token == 0:
		return publish.Grant{}, false, usageError{errors.New("there is a lease_id but no token: give --token or PAWL_TOKEN")}
	case lease.LeaseID.IsZero():
		return publish.Grant{}, false, usageError{errors.New("there is a token but no lease_id: give --lease-file or PAWL_LEASE_ID")}
	}
	return publish.Grant{Key: key, Token: token, LeaseID: lease.LeaseID}, true, nil
}

// needGrant is grant for the verbs that can't do without one.
func (a *app) needGrant(key publish.Key, g grantFlags) (publish.Grant, error) {
	grant, ok, err := a.grant(key, g)
	if err == nil && !ok {
		err = usageError{errors.New("name the grant: PAWL_TOKEN and PAWL_LEASE_ID, or --lease-file with what `pawl acquire --json` printed")}
	}
	return grant, err
}

func (a *app) flagGiven(name string) bool { return a.flags.Changed(name) }

// leaseFlags say how to ask for a lease.
type leaseFlags struct {
	ttl, wait time.Duration
	holder    string
	labels    []string
}

func (l *leaseFlags) register(flags *pflag.FlagSet) {
	flags.DurationVar(&l.ttl, "ttl", 30*time.Second, "how long the lease lasts unless it is renewed")
	flags.DurationVar(&l.wait, "wait", 0, "how long to wait for a lease that another holder has")
	flags.StringVar(&l.holder, "holder", "", "who works on the key, for people (PAWL_HOLDER; default user@host:pid)")
	flags.StringArrayVar(&l.labels, "label", nil, "name=value that is shown with the generation; may be given several times")
}

func (a *app) acquireRequest(key publish.Key, l leaseFlags) (publish.AcquireRequest, error) {
	labels, err := pairs("label", l.labels)
	if err != nil {
		return publish.AcquireRequest{}, err
	}
	if l.wait < 0 {
		return publish.AcquireRequest{}, usageError{fmt.Errorf("--wait is %s; it must not be negative", l.wait)}
	}
	holder := a.setting(l.holder, "PAWL_HOLDER")
	if holder == "" {
		holder = defaultHolder()
	}
	return publish.AcquireRequest{Key: key, Holder: holder, TTL: l.ttl, Wait: l.wait, Labels: labels}, nil
}

// defaultHolder is user@host:pid.
func defaultHolder() string { return fmt.Sprintf("%s:%d", userAtHost(), os.Getpid()) }

func userAtHost() string {
	name := "unknown"
	if current, err := user.Current(); err == nil {
		name = current.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return name + "@" + host
}

// pairs reads flags of the form name=value.
func pairs(flag string, given []string) (map[string]string, error) {
	if len(given) == 0 {
		return nil, nil
	}
	all := make(map[string]string, len(given))
	for _, pair := range given {
		name, value, found := strings.Cut(pair, "=")
		if _, twice := all[name]; !found || name == "" || twice {
			return nil, usageError{fmt.Errorf("--%s %q: must look like name=value, each name once", flag, pair)}
		}
		all[name] = value
	}
	return all, nil
}
