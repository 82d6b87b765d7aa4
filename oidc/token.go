package oidc

import (
	"encoding/base64"
	"errors"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"
)

// MaxTokenBytes bounds a token. Those of the known issuers have about 2 KiB; the header of a request must have room for it.
const MaxTokenBytes = 16 << 10

// algorithms are those by which an issuer may sign: with a private key of its own. It is no matter what its discovery document says. "none", and HS256, where the
// key that checks is the key that signs, are not among them.
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

// unverified is what a token says of itself: enough to look for the key that tells whether it is true.
type unverified struct {
	issuer, keyID string
	algorithm     jose.SignatureAlgorithm
}

// The faults of a token's form. No error holds anything of a token: what was meant as one may be another secret.
var (
	errTokenSize      = errors.New("the token is longer than 16 KiB")
	errTokenForm      = errors.New("the token is not three parts in base64url, split by dots, as a JSON Web Token is")
	errTokenHeader    = errors.New("the token's header or claims are no JSON objects, or have a member twice")
	errTokenAlgorithm = errors.New("the token is signed by an algorithm that isn't accepted")
)

// look reads a token without believing it.
func look(token string) (unverified, error) {
	if len(token) > MaxTokenBytes {
		return unverified{}, errTokenSize
	}
	if strings.Count(token, ".") != 2 {
		return unverified{}, errTokenForm
	}
	var parts [3][]byte
	for i, text := range strings.Split(token, ".") {
		part, err := base64.RawURLEncoding.Strict().DecodeString(text)
		// DecodeString skips line ends.
		if err != nil || len(part) == 0 || strings.ContainsAny(text, "\r\n") {
			return unverified{}, errTokenForm
		}
		parts[i] = part
	}
	header, err := parseObject(parts[0])
	if err != nil {
		return unverified{}, errTokenHeader
	}
	claims, err := parseObject(parts[1])
	if err != nil {
		return unverified{}, errTokenHeader
	}
	algorithm := jose.SignatureAlgorithm(header.text("alg"))
	if _, isText := header["kid"].(string); header["kid"] != nil && !isText {
		return unverified{}, errTokenHeader
	}
	if !slices.Contains(algorithms, algorithm) {
		return unverified{}, errTokenAlgorithm
	}
	return unverified{issuer: claims.text("iss"), keyID: header.text("kid"), algorithm: algorithm}, nil
}
