package web

import (
	"errors"
	"slices"
)

// headerResourcePolicy says which pages may load an answer. Without it any website could show what its reader may see here.
const headerResourcePolicy = "Cross-Origin-Resource-Policy"

// Embed says the pages of which sites may show published files, as pictures or media, in the words of the header Cross-Origin-Resource-Policy
// (Fetch, section 3.7). Nothing else than files, and the redirects to them, is ever shown by other sites.
type Embed string

// The pages that may show files: the server's own, those of the same site (pawl.example.com and www.example.com), or all.
const (
	EmbedSameOrigin  Embed = "same-origin"
	EmbedSameSite    Embed = "same-site"
	EmbedCrossOrigin Embed = "cross-origin"
)

// ParseEmbed reads one of these words; "" is EmbedSameOrigin.
func ParseEmbed(text string) (Embed, error) {
	switch {
	case text == "":
		return EmbedSameOrigin, nil
	case !slices.Contains([]Embed{EmbedSameOrigin, EmbedSameSite, EmbedCrossOrigin}, Embed(text)):
		return "", errors.New("must be same-origin, same-site or cross-origin")
	}
	return Embed(text), nil
}
