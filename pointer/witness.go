package pointer

import (
	"context"
	"errors"

	"github.com/pawlhq/pawl/publish"
)

var _ publish.WitnessedStore = (*Store)(nil)

const witnessSQL = `SELECT pawl.witness(gen_random_uuid())`

// Witness writes the row of a witness.
func (s *Store) Witness(ctx context.Context) (publish.Witness, error) {
	answer, err := s.change(ctx, witnessSQL)
	if err == nil && answer.Witness == nil {
		err = errors.New("reading the database's answer: there is no witness in it")
	}
	if err != nil {
		return publish.Witness{}, err
	}
	return *answer.Witness, nil
}

const checkWitnessSQL = `SELECT pawl.check_witness($1, $2, $3, $4::text::uuid, $5)`

// CheckWitness raises the epoch if the database lacks a witness.
func (s *Store) CheckWitness(ctx context.Context, w publish.Witness) (raised bool, err error) {
	answer, err := s.change(ctx, checkWitnessSQL, w.Epoch, w.Lineage, w.LogPosition, w.Nonce, w.WrittenAt)
	return answer.Uploads > 0, err
}
