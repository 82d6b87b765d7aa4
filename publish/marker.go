package publish

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// markerTimeout bounds the writing of a marker, which the answer to a publish waits for.
const markerTimeout = 3 * time.Second

// MarkerName is the object by which a sealed generation is known to those who read only the blob store. Its name is none that an upload
// can have: theirs have 32 hex digits in place of "published".
func MarkerName(key Key, token Token) ObjectName {
	return ObjectName(fmt.Sprintf("%s/-/%d/published/receipt.json", key, token))
}

// mark writes the marker of a generation that had its final publish: its receipt, as it will always be. The marker says no more than
// that, so it does no harm whatever follows: it is written after the commit, only for what the fence has accepted, and stays true when the
// generation is superseded a moment later.
//
// A crash before it leaves a published generation without a marker; so does a store that is away, which is logged. A repeat of the
// publish writes it then. The publish itself stands in any case: the pointer is the truth.
func (s *Service) mark(ctx context.Context, receipt Receipt) {
	if !s.Markers || !receipt.Final {
		return
	}
	if receipt.Replayed && (receipt.Current == nil || *receipt.Current != receipt.Version()) {
		return // It may be collected, and nobody would remove the marker again.
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), markerTimeout) // The client may be gone.
	defer cancel()
	// What depends on when the receipt is asked for doesn't belong into it, nor who is behind it: others read the store than may see that.
	receipt.Actor, receipt.Current, receipt.SupersededBy, receipt.Replayed, receipt.URL = Actor{}, nil, 0, false, ""
	content, err := json.Marshal(marker{receipt, nil, nil})
	if err == nil {
		err = s.Blobs.Put(ctx, MarkerName(receipt.Key, receipt.Token), bytes.NewReader(content), int64(len(content)), "application/json")
	}
	if err != nil && !errors.Is(err, ErrObjectExists) {
		s.log().WarnContext(ctx, "marker_not_written", "key", receipt.Key, "token", receipt.Token, "error", err)
	}
}

// marker is a receipt without the members that tell of the time of an answer.
type marker struct {
	Receipt
	Replayed *bool    `json:"replayed,omitempty"`
	Current  *Version `json:"current,omitempty"`
}
