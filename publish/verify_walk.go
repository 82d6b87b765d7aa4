package publish

import (
	"context"
	"fmt"
	"iter"
	"strings"
)

// lookUpBatch is how many doubtful objects are asked about at once.
const lookUpBatch = 200

// walked is one name that the blob store's list has, or Postgres, or both.
type walked struct {
	parts  ObjectParts
	stored *ObjectInfo // nil: the list doesn't have it
	facts  ObjectFacts
}

// objectWalk compares the list of a blob store with what Postgres knows, both in the same order, so that it takes one pass through each and
// no memory to speak of.
//
// Both change while it runs. A row is written before the first byte of its upload, so an object without a row, or a row without an object, may be
// one that was made or removed between the two looks. Such doubtful ones are looked at a second time, in Postgres as it is by then.
type objectWalk struct {
	objects ObjectStore
	blobs   BlobStore
	prefix  Key
	// agreed is called with what both have.
	agreed func(walked) error
	// lost is called with what the blob store has and no row knows, and with what no row needs any more.
	lost func(walked) error
	// missing is called with what is needed and isn't there.
	missing func(walked) error
	// foreign is called with what isn't Pawl's.
	foreign func(ObjectInfo)

	doubtful []walked
}

func (w *objectWalk) run(ctx context.Context) error {
	nextStored, stopStored := iter.Pull2(w.blobs.List(ctx, listPrefix(w.prefix)))
	defer stopStored()
	nextKnown, stopKnown := iter.Pull2(w.objects.KnownObjects(ctx, w.prefix))
	defer stopKnown()
	stored, err, moreStored := nextStored()
	if err != nil {
		return err
	}
	known, err, moreKnown := nextKnown()
	if err != nil {
		return err
	}
	for moreStored || moreKnown {
		knownName := known.Name()
		takeStored := moreStored && (!moreKnown || stored.Name <= knownName)
		takeKnown := moreKnown && (!moreStored || knownName <= stored.Name)
		if err := w.visit(ctx, stored, takeStored, known, takeKnown); err != nil {
			return err
		}
		if takeStored {
			if stored, err, moreStored = nextStored(); err != nil {
				return err
			}
		}
		if takeKnown {
			if known, err, moreKnown = nextKnown(); err != nil {
				return err
			}
			if moreKnown && known.Name() <= knownName {
				return fmt.Errorf("postgres gives the object %q after %q; its collation C doesn't order by bytes", known.Name(), knownName)
			}
		}
	}
	return w.settle(ctx)
}

// visit sorts one name. What both have is settled at once.
func (w *objectWalk) visit(ctx context.Context, stored ObjectInfo, isStored bool, known KnownObject, isKnown bool) error {
	if isStored && isKnown && (known.Needed || known.Excused) {
		return w.agreed(walked{known.ObjectParts, &stored, known.ObjectFacts})
	}
	switch {
	case isStored:
		parts, ok := ParseObjectName(stored.Name)
		if strings.HasPrefix(string(stored.Name), WitnessPrefix) {
			return nil
		} else if !ok {
			w.foreign(stored)
			return nil
		}
		w.doubtful = append(w.doubtful, walked{parts: parts, stored: &stored})
	case known.Needed:
		w.doubtful = append(w.doubtful, walked{parts: known.ObjectParts})
	}
	if len(w.doubtful) < lookUpBatch {
		return nil
	}
	return w.settle(ctx)
}

// settle looks at the doubtful names again, and reports those that stay so, in their order.
func (w *objectWalk) settle(ctx context.Context) error {
	if len(w.doubtful) == 0 {
		return nil
	}
	names := make([]ObjectParts, len(w.doubtful))
	for i, doubtful := range w.doubtful {
		names[i] = doubtful.parts
	}
	facts, err := w.objects.LookUp(ctx, names)
	if err != nil {
		return fmt.Errorf("looking up objects: %w", err)
	}
	for i, doubtful := range w.doubtful {
		doubtful.facts = facts[i]
		if err := w.report(ctx, doubtful); err != nil {
			return err
		}
	}
	w.doubtful = w.doubtful[:0]
	return nil
}

func (w *objectWalk) report(ctx context.Context, d walked) error {
	if d.stored == nil {
		if !d.facts.Needed {
			return nil // Collected, replaced or dropped meanwhile.
		}
		info, found, err := statObject(ctx, w.blobs, d.parts.Name())
		if err != nil {
			return err
		}
		if !found {
			return w.missing(d)
		}
		d.stored = &info
		return w.agreed(d)
	}
	if d.parts.Marker {
		// It is written after the commit of a final publish, so its generation is sealed, or was before it was collected.
		if d.facts.Generation != "" && d.facts.Generation != StateOpen {
			return w.agreed(d)
		}
		return w.lost(d)
	}
	if d.facts.Needed || d.facts.Excused {
		return w.agreed(d)
	}
	return w.lost(d)
}
