// Package oidc lets workloads in that bring no credential of Pawl's, but a token of an OpenID Connect issuer that an operator trusts: a job of GitHub
// Actions or GitLab, a pod of Kubernetes. A token is verified against the keys that its issuer publishes, and rules map its claims to a name and scopes. It lets people in on the pages, too, who sign in by
// such an issuer.
//
// The files read as the way of a token: config.go is what the operator wrote; token.go looks at the token's form, keys.go and fetch.go find the issuer's keys,
// verify.go checks it with them, and rule.go maps what it claims. sign_in.go is the way of people, whose token comes from the issuer itself. json.go reads JSON more strictly than encoding/json does.
package oidc
