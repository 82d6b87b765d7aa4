package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/pawlhq/pawl/blobstore"
	"github.com/pawlhq/pawl/oidc"
	"github.com/pawlhq/pawl/publish"
)

// authSettings say who may do what.
type authSettings struct {
	// required asks everybody for a credential.
	required bool
	// public is the keys that anybody may read without one.
	public publish.Reach
	// tokens verifies those of workloads, and of people who sign in by an issuer; nil where none are accepted.
	tokens *oidc.Verifier
	// sessionLifetime and sessionIdle are how long people stay signed in on the pages: at most, and without a use.
	sessionLifetime, sessionIdle time.Duration
	// unused are the settings that are made for callers who are known, where nobody is asked for a credential.
	unused []string
}

const (
	authRequired = "required"
	authNone     = "none"
	// publicAll is the word for all keys in PAWL_PUBLIC_READ.
	publicAll = "all"

	sessionLifetimeSetting = "PAWL_SESSION_LIFETIME"
	sessionIdleSetting     = "PAWL_SESSION_IDLE"
)

func (a *app) authSettings() (s authSettings, err error) {
	switch text := a.getenv("PAWL_AUTH"); text {
	case "", authNone:
	case authRequired:
		s.required = true
	default:
		return s, configError{fmt.Errorf("PAWL_AUTH is %q; it must be %s or %s", text, authRequired, authNone)}
	}
	list := a.getenv("PAWL_PUBLIC_READ")
	if s.public, err = publicReach(list); err != nil {
		return s, configError{fmt.Errorf("PAWL_PUBLIC_READ: %w", err)}
	}
	if !s.required && list != "" {
		return s, configError{fmt.Errorf("PAWL_PUBLIC_READ is set, but nobody is asked for a credential, so everybody may read and change everything: "+
			"set PAWL_AUTH=%s too, or leave PAWL_PUBLIC_READ out", authRequired)}
	}
	if path := a.getenv("PAWL_OIDC"); path != "" {
		if !s.required {
			return s, configError{fmt.Errorf("PAWL_OIDC is set, but nobody is asked who they are: set PAWL_AUTH=%s too, or leave PAWL_OIDC out", authRequired)}
		}
		if s.tokens, err = tokenVerifier(path); err != nil {
			return s, configError{fmt.Errorf("PAWL_OIDC: %w", err)}
		}
	}
	if !s.required {
		for _, name := range []string{"PAWL_LIMIT_LEASES", "PAWL_LIMIT_DIRECT", "PAWL_ORIGIN", sessionLifetimeSetting, sessionIdleSetting} {
			if a.getenv(name) != "" {
				s.unused = append(s.unused, name)
			}
		}
	}
	err = a.sessionSettings(&s)
	return s, err
}

// warnUnused tells of settings that whoever has made them may believe to hold. They are no error: several servers may share one environment.
func (s authSettings) warnUnused(ctx context.Context, log *slog.Logger) {
	for _, name := range s.unused {
		log.WarnContext(ctx, "setting_needs_auth", "setting", name,
			"cure", "nobody is asked for a credential, so nobody signs in, and leases and direct uploads are counted for nobody: set PAWL_AUTH="+authRequired+" too, or leave "+name+" out")
	}
}

// sessionSettings reads how long sessions last. One that isn't used for its whole lifetime has ended anyway: so the default of the one setting gives way to a
// lifetime that is shorter, and whoever asks for more is told that it can't be had.
func (a *app) sessionSettings(s *authSettings) (err error) {
	const lifetime, idle = sessionLifetimeSetting, sessionIdleSetting
	if s.sessionLifetime, err = a.sessionSetting(lifetime, publish.DefaultSessionLifetime); err != nil {
		return err
	}
	if s.sessionIdle, err = a.sessionSetting(idle, min(publish.DefaultSessionIdle, s.sessionLifetime)); err != nil {
		return err
	}
	if s.sessionIdle > s.sessionLifetime {
		return configError{fmt.Errorf("%s is %s, and a session ends after %s in any case: set %[1]s to that at most, or %[4]s to more",
			idle, s.sessionIdle, s.sessionLifetime, lifetime)}
	}
	return nil
}

func (a *app) sessionSetting(name string, standard time.Duration) (time.Duration, error) {
	span, err := a.atLeast(name, publish.MinSessionIdle, standard)
	if err == nil && span > publish.MaxSessionLifetime {
		err = configError{fmt.Errorf("%s is %q; set it to a duration of at most %s, such as %q", name, a.getenv(name), publish.MaxSessionLifetime, standard)}
	}
	return span, err
}

// tokenVerifier reads the file that says whose tokens are accepted.
func tokenVerifier(path string) (*oidc.Verifier, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%w; name a file that can be read", err)
	}
	config, err := oidc.ParseConfig(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	verifier, err := oidc.New(config)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return verifier, nil
}

// publicReach reads prefixes split by commas, or "all".
func publicReach(list string) (publish.Reach, error) {
	switch strings.TrimSpace(list) {
	case "":
		return publish.Reach{}, nil
	case publicAll:
		return publish.Everything, nil
	}
	var prefixes []string
	for entry := range strings.SplitSeq(list, ",") {
		prefix := strings.TrimSpace(entry)
		if prefix == publicAll {
			return publish.Reach{}, fmt.Errorf("%[1]s stands beside other prefixes: write %[1]s alone for all keys, or %[1]s/ for those below %[1]s/", publicAll)
		}
		scope, err := publish.ParseScope(publish.VerbRead.String() + ":" + prefix)
		if err != nil {
			return publish.Reach{}, fmt.Errorf("%q is no prefix of keys: write prefixes as in press/,posters/2026, split by commas, or %s for all keys", entry, publicAll)
		}
		prefixes = append(prefixes, scope.Prefix)
	}
	return publish.ReachOf(prefixes...), nil
}

// authFinding says whether callers are asked for a credential.
func (a *app) authFinding(s serverSettings) blobstore.Finding {
	found := blobstore.Finding{Name: "authentication", Level: blobstore.LevelOK, Seen: "everybody is asked for a credential"}
	switch {
	case s.auth.required && s.auth.public.All():
		found.Seen = "everybody is asked for a credential to change something; all keys are read without one"
	case s.auth.required && !s.auth.public.Empty():
		found.Seen = "everybody is asked for a credential, but for reading what PAWL_PUBLIC_READ lists"
	case s.auth.required:
	case loopback(s.listen):
		found.Level, found.Cure = blobstore.LevelNote, "set PAWL_AUTH="+authRequired+" to serve others"
		found.Seen = "nobody is asked for a credential, so pawl serve listens on this machine alone"
	case a.getenv("PAWL_ALLOW_UNAUTHENTICATED") == "true":
		found.Level, found.Cure = blobstore.LevelWarn, "set PAWL_AUTH="+authRequired+" unless something in front knows your users"
		found.Seen = "nobody is asked for a credential, so whoever reaches " + s.listen + " may do everything"
	default:
		found.Level, found.Cure = blobstore.LevelFail, "set PAWL_AUTH="+authRequired+", or listen on "+defaultListen
		found.Seen = "nobody is asked for a credential, so pawl serve refuses to listen on " + s.listen
	}
	return found
}
