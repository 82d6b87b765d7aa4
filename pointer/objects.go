package pointer

import (
	"context"
	"encoding/hex"
	"fmt"
	"iter"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/publish"
)

var _ publish.RecoverStore = (*Store)(nil)

// What a row says of its object. A row that was carried over speaks for the object of the generation it was carried from.
const (
	neededSQL  = `(f.state = 'stored' AND g.state IN ('open', 'sealed'))`
	excusedSQL = `(f.state = 'pending' OR g.state IN ('condemned', 'collected')
		OR f.state IN ('failed', 'dropped') AND f.sweeps < CASE WHEN f.part_size IS NULL THEN 1 ELSE 2 END)`
)

const knownObjectsSQL = `
SELECT DISTINCT ON (k.name || '/-/', coalesce(f.object_token, f.token)::text COLLATE "C", f.upload_id)
	k.name, coalesce(f.object_token, f.token), encode(f.upload_id, 'hex'), f.path, coalesce(f.size, 0), coalesce(encode(f.sha256, 'hex'), ''),
	` + neededSQL + ` AS needed, ` + excusedSQL + ` AS excused
FROM pawl.keys k
JOIN pawl.files f ON f.key_id = k.id
JOIN pawl.generations g ON g.key_id = f.key_id AND g.token = f.token
WHERE k.id = ANY ($1)
ORDER BY k.name || '/-/', coalesce(f.object_token, f.token)::text COLLATE "C", f.upload_id, needed DESC, excused DESC`

// KnownObjects streams the objects of one page of keys after the other.
func (s *Store) KnownObjects(ctx context.Context, prefix publish.Key) iter.Seq2[publish.KnownObject, error] {
	return func(yield func(publish.KnownObject, error) bool) {
		for ids, err := range s.keyPages(ctx, prefix) {
			if err != nil {
				yield(publish.KnownObject{}, err)
				return
			}
			if more, err := s.objectsOf(ctx, ids, yield); err != nil {
				yield(publish.KnownObject{}, translate(err, false))
				return
			} else if !more {
				return
			}
		}
	}
}

// objectsOf yields the objects of some keys. Their number has no bound, so neither has the time that it takes.
func (s *Store) objectsOf(ctx context.Context, ids []int64, yield func(publish.KnownObject, error) bool) (more bool, err error) {
	rows, err := s.pool.Query(ctx, knownObjectsSQL, ids)
	if err != nil {
		return false, err
	}
	defer rows.Close()
	for rows.Next() {
		known := publish.KnownObject{ObjectFacts: publish.ObjectFacts{Known: true}}
		var upload, digest string
		if err := rows.Scan(&known.Key, &known.Token, &upload, &known.Path, &known.Size, &digest, &known.Needed, &known.Excused); err != nil {
			return false, err
		}
		if err := readHex(known.Upload[:], upload); err != nil {
			return false, err
		}
		if err := readHex(known.SHA256[:], digest); err != nil {
			return false, err
		}
		if !yield(known, nil) {
			return false, nil
		}
	}
	return true, rows.Err()
}

const lookUpSQL = `
SELECT o.known, o.needed, o.excused, o.size, o.sha256, coalesce(own.state, '')
FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[]) WITH ORDINALITY asked (key, token, upload, path, place)
LEFT JOIN pawl.keys k ON k.name = asked.key
LEFT JOIN pawl.generations own ON own.key_id = k.id AND own.token = asked.token
CROSS JOIN LATERAL (
	SELECT count(*) > 0 AS known, coalesce(bool_or(needed), false) AS needed, coalesce(bool_or(excused), false) AS excused,
		coalesce(max(size), 0) AS size, coalesce(max(sha256), '') AS sha256
	FROM (
		SELECT ` + neededSQL + ` AS needed, ` + excusedSQL + ` AS excused, f.size, encode(f.sha256, 'hex') AS sha256
		FROM pawl.files f JOIN pawl.generations g ON g.key_id = f.key_id AND g.token = f.token
		WHERE f.key_id = k.id AND f.token = asked.token AND f.path = asked.path AND f.upload_id = decode(asked.upload, 'hex')
			AND f.object_token IS NULL
		UNION ALL
		SELECT ` + neededSQL + `, ` + excusedSQL + `, f.size, encode(f.sha256, 'hex')
		FROM pawl.files f JOIN pawl.generations g ON g.key_id = f.key_id AND g.token = f.token
		WHERE f.key_id = k.id AND f.object_token = asked.token AND f.path = asked.path AND f.upload_id = decode(asked.upload, 'hex')
	) rows_of) o
ORDER BY asked.place`

// LookUp asks about many objects at once.
func (s *Store) LookUp(ctx context.Context, objects []publish.ObjectParts) ([]publish.ObjectFacts, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	keys, tokens := make([]string, len(objects)), make([]int64, len(objects))
	uploads, paths := make([]string, len(objects)), make([]string, len(objects))
	for i, object := range objects {
		keys[i], tokens[i], paths[i] = string(object.Key), int64(object.Token), string(object.Path)
		if !object.Marker {
			uploads[i] = object.Upload.String()
		}
	}
	rows, err := s.pool.Query(ctx, lookUpSQL, keys, tokens, uploads, paths)
	if err != nil {
		return nil, translate(err, false)
	}
	facts := make([]publish.ObjectFacts, 0, len(objects))
	var fact publish.ObjectFacts
	var digest string
	_, err = pgx.ForEachRow(rows, []any{&fact.Known, &fact.Needed, &fact.Excused, &fact.Size, &digest, &fact.Generation}, func() error {
		fact.SHA256 = publish.Digest{}
		if err := readHex(fact.SHA256[:], digest); err != nil {
			return err
		}
		facts = append(facts, fact)
		return nil
	})
	if err == nil && len(facts) != len(objects) {
		err = fmt.Errorf("asked about %d objects and got %d answers", len(objects), len(facts))
	}
	return facts, translate(err, false)
}

const pointersSQL = `
SELECT k.name, k.current_token, k.current_revision,
	CASE WHEN g.token IS NULL THEN 'its generation has no row'
		WHEN g.state NOT IN ('open', 'sealed') THEN 'its generation is ' || g.state
		WHEN r.revision IS NULL THEN 'it has no receipt'
		WHEN r.files <> (SELECT count(*) FROM pawl.files f WHERE f.key_id = k.id AND f.token = k.current_token AND f.state = 'stored'
				AND f.from_revision <= r.revision AND (f.until_revision IS NULL OR f.until_revision >= r.revision))
			THEN 'it has another number of files than its receipt says'
		ELSE '' END
FROM pawl.keys k
LEFT JOIN pawl.generations g ON g.key_id = k.id AND g.token = k.current_token
LEFT JOIN pawl.receipts r ON r.key_id = k.id AND r.token = k.current_token AND r.revision = k.current_revision
WHERE k.id = ANY ($1) AND k.published
ORDER BY k.name || '/-/'`

// Pointers streams the pointers of one page of keys after the other.
func (s *Store) Pointers(ctx context.Context, prefix publish.Key) iter.Seq2[publish.PointerState, error] {
	return func(yield func(publish.PointerState, error) bool) {
		for ids, err := range s.keyPages(ctx, prefix) {
			if err != nil {
				yield(publish.PointerState{}, err)
				return
			}
			if more, err := s.pointersOf(ctx, ids, yield); err != nil {
				yield(publish.PointerState{}, translate(err, false))
				return
			} else if !more {
				return
			}
		}
	}
}

func (s *Store) pointersOf(ctx context.Context, ids []int64, yield func(publish.PointerState, error) bool) (more bool, err error) {
	rows, err := s.pool.Query(ctx, pointersSQL, ids)
	if err != nil {
		return false, err
	}
	defer rows.Close()
	for rows.Next() {
		var p publish.PointerState
		if err := rows.Scan(&p.Key, &p.Version.Token, &p.Version.Revision, &p.Fault); err != nil {
			return false, err
		}
		if !yield(p, nil) {
			return false, nil
		}
	}
	return true, rows.Err()
}

// readHex reads hex digits into exactly as many bytes; none at all leave them zero.
func readHex(into []byte, text string) error {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != len(into) && text != "" {
		return fmt.Errorf("reading the database's answer: %q aren't %d bytes in hex", text, len(into))
	}
	copy(into, raw)
	return nil
}
