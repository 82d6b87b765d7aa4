package oidc

import (
	"strings"
	"testing"
)

const goodConfig = `{"issuers": [{"issuer": "https://token.actions.githubusercontent.com", "audience": "pawl",
	"rules": [{"claims": {"repository": "acme/renders", "ref": ["refs/heads/main", "refs/heads/release/*"]}, "name": "github {repository}", "scopes": ["publish:renders/", "read"]}]}]}`

func TestParseConfig(t *testing.T) {
	t.Parallel()
	config, err := ParseConfig([]byte(goodConfig))
	if err != nil {
		t.Fatal(err)
	}
	if len(config.Issuers) != 1 || len(config.Issuers[0].Rules) != 1 || len(config.Issuers[0].Rules[0].claims) != 2 || len(config.Issuers[0].Rules[0].scopes) != 2 {
		t.Errorf("got %+v", config)
	}
	for _, issuer := range []string{"http://127.0.0.1:8080", "http://localhost", "http://[::1]:1/x", "https://issuer.example:8443/path/"} {
		if _, err := ParseConfig([]byte(strings.Replace(goodConfig, "https://token.actions.githubusercontent.com", issuer, 1))); err != nil {
			t.Errorf("%s: %v", issuer, err)
		}
	}
}

func TestParseConfigNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	const claims, rule = "/issuers/0/rules/0/claims", "/issuers/0/rules/0"
	for name, test := range map[string]struct{ old, new, fault string }{
		"no JSON":               {goodConfig, "issuers:", "is not JSON"},
		"a list":                {goodConfig, "[]", "is not a JSON object"},
		"more after it":         {goodConfig, goodConfig + "{}", "has something after its end"},
		"no issuers":            {goodConfig, "{}", "/issuers: must be a list"},
		"empty issuers":         {goodConfig, `{"issuers": []}`, "/issuers: must be a list"},
		"unknown member":        {`{"issuers"`, `{"isuers": 1, "issuers"`, "/isuers: is unknown here; the members are issuers"},
		"members of other case": {`"audience"`, `"Audience"`, "/issuers/0/audience: must be a text"},
		"unknown of an issuer":  {`"audience"`, `"audiences": [], "audience"`, "/issuers/0/audiences: is unknown here; the members are issuer, audience, rules"},
		"unknown of a rule":     {`"name"`, `"naem": "x", "name"`, rule + "/naem: is unknown here; the members are name, scopes, claims"},
		"member twice":          {`"name"`, `"name": "x", "name"`, rule + "/name: stands twice"},
		"claim twice":           {`"ref"`, `"repository": "evil/renders", "ref"`, claims + "/repository: stands twice"},
		"issuer twice":          {goodConfig, strings.Replace(goodConfig, "]}]}]}", `]}]}, `+strings.TrimPrefix(goodConfig, `{"issuers": [`), 1), "/issuers/1/issuer: stands twice"},
		"http":                  {"https://token.actions.githubusercontent.com", "http://issuer.example", "/issuers/0/issuer: must begin with https://"},
		"http for a lookalike":  {"https://token.actions.githubusercontent.com", "http://localhost.example", "/issuers/0/issuer: must begin with https://"},
		"no URL":                {"https://token.actions.githubusercontent.com", "github", "/issuers/0/issuer: must be the URL"},
		"query":                 {"https://token.actions.githubusercontent.com", "https://a.example/?x=1", "/issuers/0/issuer: must hold no"},
		"fragment":              {"https://token.actions.githubusercontent.com", "https://a.example/#", "/issuers/0/issuer: must hold no"},
		"user":                  {"https://token.actions.githubusercontent.com", "https://u:p@a.example/", "/issuers/0/issuer: must hold no"},
		"no audience":           {`"audience": "pawl",`, "", "/issuers/0/audience: must be a text"},
		"blank audience":        {`"pawl"`, `" "`, "/issuers/0/audience: must be a text"},
		"list of audiences":     {`"pawl"`, `["pawl"]`, "/issuers/0/audience: must be a text"},
		"file is a number":      {`"audience"`, `"ca_file": 1, "audience"`, "/issuers/0/ca_file: must be a text"},
		"no rules":              {`"rules": [`, `"rules": [], "x": [`, "/issuers/0/rules: must be a list"},
		"rule is a text":        {`"rules": [`, `"rules": ["x", `, "/issuers/0/rules/0: must be an object"},
		"no name":               {`"name": "github {repository}", `, "", rule + "/name: must be a text"},
		"name open":             {"{repository}", "{repository", rule + "/name: has a { without a }"},
		"name closed":           {"{repository}", "repository}", rule + "/name: has a } without a {"},
		"name in name":          {"{repository}", "{{repository}}", rule + "/name: has a { in a {"},
		"name of nothing":       {"{repository}", "{}", rule + "/name: names no claim"},
		"name of no pointer":    {"{repository}", "{/a//b}", rule + "/name: \"/a//b\" is not a JSON pointer"},
		"name with a line end":  {"github ", `github\n`, rule + "/name: must have at most"},
		"long name":             {"github ", strings.Repeat("x", 100), rule + "/name: must have at most"},
		"no scopes":             {`"scopes": ["publish:renders/", "read"]`, `"scopes": []`, rule + "/scopes: must be a list"},
		"scope of no verb":      {`"read"`, `"reed"`, rule + `/scopes/1: "reed" begins with no verb`},
		"scope of no prefix":    {`publish:renders/`, `publish:/renders`, rule + "/scopes/0: the prefix of"},
		"scope of nothing":      {`"read"`, `"none"`, rule + `/scopes/1: "none" begins with no verb`},
		"scope is a number":     {`"read"`, `7`, rule + "/scopes/1: must be a text"},
		"no claims":             {`"repository": "acme/renders", "ref": ["refs/heads/main", "refs/heads/release/*"]`, "", claims + ": is empty"},
		"claims are a list":     {`"claims": {"repository": "acme/renders", "ref": ["refs/heads/main", "refs/heads/release/*"]}`, `"claims": ["repository"]`, claims + ": must be an object"},
		"nobody's claims":       {`"repository": "acme/renders", `, `"job_workflow_ref": "acme/x/y@main", `, claims + ": says nothing of who is meant"},
		"claim without a name":  {`"repository":`, `"repository": "a", "":`, claims + "/: names no claim"},
		"claim is no pointer":   {`"repository":`, `"repository": "a", "/a~b":`, claims + "/~1a~0b: \"/a~b\" is not a JSON pointer"},
		"claim of no values":    {`"acme/renders"`, `[]`, claims + "/repository: is an empty list"},
		"claim of a number":     {`"acme/renders"`, `7`, claims + "/repository: must be a text, true, false"},
		"claim of null":         {`"acme/renders"`, `null`, claims + "/repository: must be a text, true, false"},
		"claim of an object":    {`"acme/renders"`, `{}`, claims + "/repository: must be a text, true, false"},
		"empty claim":           {`"acme/renders"`, `""`, claims + "/repository: is an empty text"},
		"any claim":             {`"acme/renders"`, `"*"`, claims + "/repository: \"*\" has a * elsewhere"},
		"any owner":             {`"acme/renders"`, `"*/renders"`, claims + "/repository: \"*/renders\" has a * elsewhere"},
		"any segment of none":   {`"acme/renders"`, `"/*"`, claims + "/repository: \"/*\" has a * elsewhere"},
		"part of a segment":     {`"acme/renders"`, `"acme/r*"`, claims + "/repository: \"acme/r*\" has a * elsewhere"},
		"two stars":             {`"acme/renders"`, `"acme/**"`, claims + "/repository: \"acme/**\" has a * elsewhere"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := strings.Replace(goodConfig, test.old, test.new, 1)
			if text == goodConfig {
				t.Fatal("nothing was changed")
			}
			config, err := ParseConfig([]byte(text))
			if err == nil {
				t.Fatalf("accepted: %+v", config)
			}
			if !strings.HasPrefix(err.Error(), test.fault) {
				t.Errorf("the error is %q, want %q", err, test.fault)
			}
		})
	}
}
