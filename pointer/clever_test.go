package pointer_test

import (
	"context"
	"testing"

	"github.com/pawlhq/pawl/publish"
)

// Each of these single statements looks atomic and isn't: under READ COMMITTED a statement that waited for a row checks that row again,
// and sees every other one as it was before. They stand here as the reason for the locks in the schema's functions, which
// interleave_test.go puts through the same schedules. Should one of them begin to fail, Postgres has changed and the reason is gone.
const (
	// cleverPublish asks for the newest grant in a subquery.
	cleverPublish = `
		WITH flip AS (UPDATE pawl.keys SET fence = 1, published = true, current_token = 1, current_revision = 1
			WHERE name = $1 AND fence < 1
				AND (SELECT max(token) FROM pawl.generations WHERE key_id = pawl.keys.id) = 1 RETURNING *)
		SELECT jsonb_build_object('upload_no', count(*)) FROM flip`
	// cleverJoin asks for the generation's state in a join.
	cleverJoin = `
		WITH flip AS (UPDATE pawl.keys k SET fence = 1, published = true, current_token = 1, current_revision = 1
			FROM pawl.generations g
			WHERE k.name = $1 AND g.key_id = k.id AND g.token = 1 AND g.state = 'open' AND k.fence < 1 RETURNING k.*)
		SELECT jsonb_build_object('upload_no', count(*)) FROM flip`
	// cleverRegister registers a file if its generation is open.
	cleverRegister = `
		WITH done AS (UPDATE pawl.files f SET state = 'stored', size = 3, sha256 = sha256('abc'), content_type = 'text/plain', from_revision = 1
			FROM pawl.generations g
			WHERE g.key_id = f.key_id AND g.token = f.token AND g.state = 'open' AND f.upload_no = $1 RETURNING f.*)
		SELECT jsonb_build_object('upload_no', count(*)) FROM done`
)

func TestCleverPublishPassesANewerGrant(t *testing.T) {
	t.Parallel()
	a, b, _ := race(t)
	wantCode(t, "acquire by B", b.call(acquireCall, raceKey, "B"), "")
	if flipped := a.behind(b, cleverPublish, raceKey); flipped.Number != 1 {
		t.Error("the clever publish did not pass the newer grant")
	}
}

func TestCleverJoinPublishesACondemnedGeneration(t *testing.T) {
	t.Parallel()
	a, collector, _ := race(t)
	collector.exec(`SELECT FROM pawl.keys WHERE name = $1 FOR NO KEY UPDATE`, raceKey)
	collector.exec(`UPDATE pawl.generations SET state = 'condemned'`)
	collector.exec(`UPDATE pawl.keys SET epoch = epoch WHERE name = $1`, raceKey)
	if flipped := a.behind(collector, cleverJoin, raceKey); flipped.Number != 1 {
		t.Error("the clever publish did not make the condemned generation current")
	}
}

func TestCleverRegisterChangesASealedSet(t *testing.T) {
	t.Parallel()
	a, uploader, store := race(t)
	early := uploader.call(beginCall, raceKey, "A", 1, "dropped")
	wantCode(t, "delete", uploader.call(deleteCall, raceKey, "A", 1, "dropped"), "")
	uploader.commit()
	uploader.begin()
	wantCode(t, "publish by A", a.call(publishCall, raceKey, "A", 1), "")
	registered := uploader.call(cleverRegister, early.Number)
	a.commit()
	uploader.commit()
	g, err := store.Generation(context.Background(), raceKey, 1)
	if err != nil || g.State != publish.StateSealed || registered.Number != 1 {
		t.Errorf("generation %+v, %v, %d files registered late: want a sealed one that got a file", g, err, registered.Number)
	}
}
