package publishtest

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// Resolve looks many keys up at one point in time; see publish.ResolveStore.
func (p *Pointers) Resolve(ctx context.Context, keys []publish.Key) ([]publish.Resolved, error) {
	return transact(ctx, p, "Resolve", "", func(time.Time) ([]publish.Resolved, error) {
		resolved := make([]publish.Resolved, len(keys))
		for i, key := range keys {
			resolved[i].Key = key
			k := p.keys[key]
			resolved[i].Retired = k != nil && k.retired() != nil
			if k != nil && k.current != nil {
				r := k.currentReceipt()
				resolved[i] = publish.Resolved{
					Key: key, Found: true, Token: r.Token, Revision: r.Revision, ManifestDigest: r.ManifestDigest, Final: r.Final, Primary: r.Primary,
				}
			}
		}
		return resolved, nil
	})
}
