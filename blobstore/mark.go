package blobstore

import (
	"encoding/json"
	"fmt"

	"github.com/pawlhq/pawl/publish"
)

// MarkName is the object, or file, that bears a store's id, behind the store's prefix. No key has the segment "-", so it can be no
// key's. It may be copied with all other objects when a store moves.
const MarkName = "-/store"

type mark struct {
	ID publish.StoreID `json:"id"`
	// About is for people who find the object.
	About string `json:"about"`
}

func encodeMark(id publish.StoreID) []byte {
	text, _ := json.Marshal(mark{ID: id, About: "Pawl's database knows this store by its id. Don't delete it."}) //nolint:errcheck // Texts alone.
	return append(text, '\n')
}

func decodeMark(text []byte) (publish.StoreID, error) {
	var m mark
	if err := json.Unmarshal(text, &m); err != nil || !m.ID.Valid() {
		return "", fmt.Errorf("blob store: %s holds no store's id; put back what was there, or delete it and run: pawl doctor --adopt-bucket", MarkName)
	}
	return m.ID, nil
}
