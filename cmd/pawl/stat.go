package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/publish"
)

func (a *app) statCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "stat KEY",
		Short: "Show a key's current version and who holds its lease",
		Args:  cobra.ExactArgs(1),
		RunE: a.verb(func(ctx context.Context, args []string) error {
			return a.onKey(args[0], func(c *client.Client, key publish.Key) error {
				state, err := keyState(ctx, c, key)
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(state)
				}
				a.table(func(w io.Writer) { state.print(w, c) })
				return nil
			})
		}),
	}
}

// stated is what stat prints as JSON: either part is null when the key has none.
type stated struct {
	Key     publish.Key      `json:"key"`
	Pointer *publish.Pointer `json:"pointer"`
	Lease   *publish.Lease   `json:"lease"`
	// Retired is why there is no pointer any more.
	Retired *publish.Retirement `json:"retired,omitempty"`
}

// keyState asks for both parts; a key that has neither is not found.
func keyState(ctx context.Context, c *client.Client, key publish.Key) (stated, error) {
	state := stated{Key: key}
	pointer, err := c.Pointer(ctx, key)
	switch {
	case err == nil:
		state.Pointer = &pointer
	case errors.Is(err, publish.ErrRetired):
		if refusal := (*publish.Error)(nil); errors.As(err, &refusal) {
			state.Retired = refusal.Retired
		}
	case !errors.Is(err, publish.ErrNotFound):
		return stated{}, err
	}
	lease, leaseErr := c.Lease(ctx, key)
	switch {
	case leaseErr == nil:
		state.Lease = &lease
	case !errors.Is(leaseErr, publish.ErrNotFound):
		return stated{}, leaseErr
	case err != nil:
		return stated{}, err
	}
	return state, nil
}

func (s stated) print(w io.Writer, c *client.Client) {
	row(w, "key\t%s", s.Key)
	if p := s.Pointer; p != nil {
		row(w, "version\t%s", p.Version())
		row(w, "files\t%d (%d bytes)", p.Files, p.Bytes)
		row(w, "published\t%s by %s", stamp(&p.PublishedAt), p.Publisher)
		row(w, "manifest\t%s", p.ManifestDigest)
		if p.Primary != "" {
			row(w, "primary\t%s (%s)", p.Primary, p.ContentType)
			row(w, "url\t%s", c.FileURL(p.Key, p.Token, p.Primary))
		}
		if p.SourceRevision != nil {
			row(w, "source\t%d", *p.SourceRevision)
		}
		for _, name := range slices.Sorted(maps.Keys(p.Metadata)) {
			row(w, "metadata\t%s=%s", name, p.Metadata[name])
		}
		if p.Pinned != nil {
			row(w, "pinned\t%s by %s: %s", stamp(&p.Pinned.At), p.Pinned.By, p.Pinned.Reason)
		}
	} else if r := s.Retired; r != nil {
		row(w, "version\tnone; retired %s by %s: %s", stamp(&r.At), r.By, cmp.Or(r.Reason, "no reason given"))
	} else {
		row(w, "version\tnone yet")
	}
	switch l := s.Lease; {
	case l == nil:
		row(w, "lease\tnever granted")
	case l.Held:
		row(w, "lease\ttoken %d, held by %s until %s", l.Token, l.Holder, stamp(l.ExpiresAt))
	default:
		row(w, "lease\tfree; token %d was %s's", l.Token, l.Holder)
	}
}
