package oidc

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The configurations that the documentation shows are good, and let in whom they say.
func TestDocumentation(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/credentials-oidc.md")
	if err != nil {
		t.Fatal(err)
	}
	tokens := map[string]struct{ claims, name, scopes string }{
		"https://token.actions.githubusercontent.com": {
			`{"repository": "acme/renders", "ref": "refs/heads/release/1.2", "repository_owner": "acme", "run_attempt": "1"}`, "github acme/renders", "publish:renders/",
		},
		"https://gitlab.com": {
			`{"project_path": "acme/renders", "ref_type": "branch", "ref": "main", "ref_protected": "true", "namespace_path": "acme"}`, "gitlab acme/renders", "publish:renders/",
		},
		"https://kubernetes.default.svc.cluster.local": {
			`{"kubernetes.io": {"namespace": "renders", "pod": {"name": "render", "uid": "u"}, "serviceaccount": {"name": "worker", "uid": "u"}}}`, "k8s renders/worker", "publish:renders/",
		},
		"https://id.acme.example/realms/studio": {`{"groups": ["/artists", "/staff"], "email": "mia@acme.example"}`, "acme mia@acme.example", "operate:renders/"},
		"https://accounts.google.com": {
			`{"hd": "acme.example", "email": "mia@acme.example", "email_verified": true}`, "google mia@acme.example", "read,admin",
		},
		"https://gitlab.acme.example": {`{"groups_direct": ["acme/leads"], "nickname": "mia"}`, "gitlab mia", "operate:renders/"},
		"https://login.microsoftonline.com/11111111-2222-3333-4444-555555555555/v2.0": {
			`{"roles": ["Pawl.Operator"], "preferred_username": "mia@acme.example"}`, "entra mia@acme.example", "operate",
		},
	}
	for _, block := range regexp.MustCompile("(?s)```json\n(.*?)```").FindAllSubmatch(text, -1) {
		config, err := ParseConfig(block[1])
		if err != nil {
			t.Errorf("%v in %s", err, block[1])
			continue
		}
		for _, issuer := range config.Issuers {
			token, known := tokens[issuer.Issuer]
			rules := issuer.Rules
			if issuer.SignIn != nil {
				rules = issuer.SignIn.Rules
			}
			name, scopes, ok := apply(rules, claimsOf(t, token.claims))
			if !known || !ok || name != token.name || strings.Join(texts(scopes), ",") != token.scopes {
				t.Errorf("%s: %q, %v, %v", issuer.Issuer, name, scopes, ok)
			}
			delete(tokens, issuer.Issuer)
		}
	}
	if len(tokens) > 0 {
		t.Errorf("nothing is shown for %v", tokens)
	}
}
