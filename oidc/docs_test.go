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
	tokens := map[string]struct{ claims, name string }{
		"https://token.actions.githubusercontent.com": {
			`{"repository": "acme/renders", "ref": "refs/heads/release/1.2", "repository_owner": "acme", "run_attempt": "1"}`, "github acme/renders",
		},
		"https://gitlab.com": {
			`{"project_path": "acme/renders", "ref_type": "branch", "ref": "main", "ref_protected": "true", "namespace_path": "acme"}`, "gitlab acme/renders",
		},
		"https://kubernetes.default.svc.cluster.local": {
			`{"kubernetes.io": {"namespace": "renders", "pod": {"name": "render", "uid": "u"}, "serviceaccount": {"name": "worker", "uid": "u"}}}`, "k8s renders/worker",
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
			name, scopes, ok := apply(issuer.Rules, claimsOf(t, token.claims))
			if !known || !ok || name != token.name || strings.Join(texts(scopes), ",") != "publish:renders/" {
				t.Errorf("%s: %q, %v, %v", issuer.Issuer, name, scopes, ok)
			}
			delete(tokens, issuer.Issuer)
		}
	}
	if len(tokens) > 0 {
		t.Errorf("nothing is shown for %v", tokens)
	}
}
