package web_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

// newCredentialRig is a rig whose own service knows the credentials, and the header of the first admin's.
func newCredentialRig(t *testing.T) (*rig, []string) {
	t.Helper()
	var r *rig
	r = newRig(t, web.Options{Authenticate: func(ctx context.Context, secret publish.Secret) (publish.Caller, error) {
		return r.service.Authenticate(ctx, secret)
	}})
	made, err := r.service.CreateCredential(t.Context(), publish.CreateCredentialRequest{
		Name: "root", Scopes: publish.Scopes{{Verb: publish.VerbAdmin}}, By: "ops", Admin: publish.Everything,
	})
	if err != nil {
		t.Fatal(err)
	}
	return r, bearer(made.Secret)
}

// opens sends the text of a credential that an answer had, and checks the status of a key that doesn't exist.
func (r *rig) opens(made map[string]any, status int) {
	r.t.Helper()
	r.call("GET", "/v1/keys/renders/none", "", "Authorization", "Bearer "+fmt.Sprint(made["secret"])).want(status)
}

// A credential is made, listed, rotated and revoked; its text stands in the answer that made it and nowhere else.
func TestCredentials(t *testing.T) {
	t.Parallel()
	r, admin := newCredentialRig(t)
	got := r.with(admin, "POST", "/v1/credentials", `{"name":"ci","scopes":["publish:renders/","read"],"expires_in":"30d"}`).want(201)
	if cache := got.header.Get("Cache-Control"); cache != "no-store" {
		t.Errorf("Cache-Control %q", cache)
	}
	made := got.json()
	if said := words(made["name"], made["scopes"], made["state"], made["created_by"], made["revoked_at"]); said != "ci [publish:renders/ read] active root <nil>" {
		t.Errorf("what was made is %s", got.body)
	}
	r.opens(made, 404)

	list := r.with(admin, "GET", "/v1/credentials?limit=1", "").want(200)
	page := list.json()
	if !strings.Contains(list.body, `"name":"ci"`) || strings.Contains(list.body, `"name":"root"`) || page["next"] != made["id"] {
		t.Errorf("the first page is %s", list.body)
	}
	rest := r.with(admin, "GET", "/v1/credentials?after="+fmt.Sprint(page["next"]), "").want(200)
	if !strings.Contains(rest.body, `"name":"root"`) || strings.Contains(rest.body, "next") {
		t.Errorf("the second page is %s", rest.body)
	}

	target := "/v1/credentials/" + fmt.Sprint(made["id"])
	next := r.with(admin, "POST", target+"/rotate", `{"overlap":"1h","expires_in":"never"}`).want(201).json()
	if said := words(next["name"], next["scopes"], next["replaces"] == made["id"], next["expires_at"]); said != "ci [publish:renders/ read] true <nil>" {
		t.Errorf("what replaces it is %v", next)
	}
	r.opens(made, 404)
	r.opens(next, 404)
	again := r.with(admin, "POST", target+"/rotate", "").wantProblem(publish.ErrCredentialConflict)
	if !strings.Contains(fmt.Sprint(again["detail"]), "replaced already, by "+fmt.Sprint(next["id"])) {
		t.Errorf("the second rotation says %v", again)
	}
	for range 2 {
		revoked := r.with(admin, "DELETE", target, "").want(200).json()
		if revoked["state"] != "revoked" || revoked["revoked_by"] != "root" {
			t.Errorf("what was revoked is %v", revoked)
		}
	}
	r.opens(made, 401)
	r.opens(next, 404)
	overlap := r.with(admin, "POST", "/v1/credentials/"+fmt.Sprint(next["id"])+"/rotate", `{"overlap":"0s"}`).want(201).json()
	r.opens(next, 401)
	r.opens(overlap, 404)

	all := r.with(admin, "GET", "/v1/credentials", "").want(200).body + r.with(admin, "GET", "/v1/audit", "").want(200).body + r.log.String()
	for _, made := range []map[string]any{made, next, overlap} {
		if secret := fmt.Sprint(made["secret"]); len(secret) != 45 || strings.Contains(all, secret) {
			t.Errorf("the text %q shows again", secret)
		}
	}
	if n := strings.Count(all, `"action":"rotate-credential"`); n != 2 {
		t.Errorf("the audit tells of %d rotations", n)
	}
}

// A request whose answer was lost is repeated under its Idempotency-Key: it costs no name, and the lost text opens nothing.
func TestCredentialsAreRepeated(t *testing.T) {
	t.Parallel()
	r, admin := newCredentialRig(t)
	id := publish.NewLeaseID().Hex()
	const body = `{"name":"ci","scopes":["read:renders/"]}`
	lost := r.with(admin, "POST", "/v1/credentials", body, "Idempotency-Key", id).want(201).json()
	made := r.with(admin, "POST", "/v1/credentials", body, "Idempotency-Key", id).want(201).json()
	if made["id"] != lost["id"] {
		t.Errorf("%v became %v", lost, made)
	}
	r.opens(lost, 401)
	r.opens(made, 404)
	conflict := r.with(admin, "POST", "/v1/credentials", body).wantProblem(publish.ErrCredentialConflict)
	if !strings.Contains(fmt.Sprint(conflict["errors"]), "pointer:/name]") {
		t.Errorf("the conflict is %v", conflict)
	}
	other := r.with(admin, "POST", "/v1/credentials", `{"name":"cd","scopes":["read:renders/"]}`, "Idempotency-Key", id).wantProblem(publish.ErrInvalidRequest)
	if !strings.Contains(fmt.Sprint(other["errors"]), "pointer:Idempotency-Key]") {
		t.Errorf("the other request is answered %v", other)
	}
}

// The admin of some keys makes credentials for them alone, and neither sees nor ends others.
func TestCredentialsOfANarrowAdmin(t *testing.T) {
	t.Parallel()
	r, root := newCredentialRig(t)
	issue := func(by []string, name, scope string) map[string]any {
		t.Helper()
		return r.with(by, "POST", "/v1/credentials", fmt.Sprintf(`{"name":%q,"scopes":[%q]}`, name, scope)).want(201).json()
	}
	admin := []string{"Authorization", "Bearer " + fmt.Sprint(issue(root, "team", "admin:team-a/")["secret"])}
	wide := issue(root, "wide", "read")
	own := issue(admin, "own", "publish:team-a/x/")
	for _, scope := range []string{"read", "read:team-a", "read:team-ab/", "admin"} {
		refused := r.with(admin, "POST", "/v1/credentials", fmt.Sprintf(`{"name":"n","scopes":["read:team-a/",%q]}`, scope)).wantProblem(publish.ErrForbidden)
		if _, prefix, _ := strings.Cut(scope, ":"); !strings.HasPrefix(fmt.Sprint(refused["scope"]), "admin") || !strings.HasSuffix(fmt.Sprint(refused["scope"]), prefix) {
			t.Errorf("%s: the needed scope is %v", scope, refused["scope"])
		}
	}
	if list := r.with(admin, "GET", "/v1/credentials", "").want(200).body; !strings.Contains(list, `"own"`) || !strings.Contains(list, `"team"`) || strings.Contains(list, `"name":"wide"`) || strings.Contains(list, `"name":"root"`) {
		t.Errorf("the list is %s", list)
	}
	foreign := "/v1/credentials/" + fmt.Sprint(wide["id"])
	never := "/v1/credentials/" + string(publish.NewCredentialID())
	for _, call := range [][2]string{{"DELETE", ""}, {"POST", "/rotate"}} {
		a, b := r.with(admin, call[0], foreign+call[1], "").wantProblem(publish.ErrNotFound), r.with(admin, call[0], never+call[1], "").wantProblem(publish.ErrNotFound)
		if a["detail"] != b["detail"] || len(a) != len(b) {
			t.Errorf("one that is hidden is %v, one that isn't there %v", a, b)
		}
	}
	r.opens(wide, 404)
	r.with(admin, "DELETE", "/v1/credentials/"+fmt.Sprint(own["id"]), "").want(200)
	r.opens(own, 401)
}

// On a server that asks nobody for a credential nobody can plant one.
func TestCredentialsOfAnOpenServer(t *testing.T) {
	t.Parallel()
	r := newRig(t, web.Options{})
	for _, call := range [][3]string{
		{"POST", "/v1/credentials", `{"name":"x","scopes":["admin"]}`},
		{"POST", "/v1/credentials/0123456789abcdef/rotate", ""},
		{"DELETE", "/v1/credentials/0123456789abcdef", ""},
		{"POST", "/v1/credentials/nonsense/rotate", "nonsense"},
	} {
		refused := r.call(call[0], call[1], call[2]).wantProblem(publish.ErrForbidden)
		for _, cure := range []string{"`pawl credential create`", "PAWL_DATABASE_URL", "PAWL_AUTH=required"} {
			if !strings.Contains(fmt.Sprint(refused["detail"]), cure) {
				t.Errorf("%v doesn't name %s", refused["detail"], cure)
			}
		}
	}
	if got := r.call("GET", "/v1/credentials", "").want(200); got.body != `{"credentials":[]}`+"\n" {
		t.Errorf("there are credentials: %s", got.body)
	}
	for _, operation := range []string{"CreateCredential", "ReplaceCredential", "RevokeCredential"} {
		if n := r.pointers.Faults.Calls(operation); n != 0 {
			t.Errorf("%s was called %d times", operation, n)
		}
	}
}

func TestCredentialRequestsOverHTTP(t *testing.T) {
	t.Parallel()
	r, admin := newCredentialRig(t)
	const one = "/v1/credentials/0123456789abcdef"
	for _, test := range []struct{ method, target, body, pointer string }{
		{"GET", "/v1/credentials?limit=0", "", "limit"},
		{"GET", "/v1/credentials?after=x", "", "after"},
		{"GET", "/v1/credentials?name=x", "", "query"},
		{"POST", "/v1/credentials", "", "/name"},
		{"POST", "/v1/credentials?name=ci", "", "query"},
		{"POST", "/v1/credentials", `{"name":"ci"}`, "/scopes"},
		{"POST", "/v1/credentials", `{"name":"ci","scopes":["read","write:x"]}`, "/scopes/1"},
		{"POST", "/v1/credentials", `{"name":"ci","scopes":["read:a//b"]}`, "/scopes/0"},
		{"POST", "/v1/credentials", `{"name":"ci","scopes":["none"]}`, "/scopes/0"},
		{"POST", "/v1/credentials", `{"name":"ci","scopes":"read"}`, "/scopes"},
		{"POST", "/v1/credentials", `{"name":"ci","scopes":["read"],"expires_in":"forever"}`, "/expires_in"},
		{"POST", "/v1/credentials", `{"name":"ci","scopes":["read"],"expires_at":"2030-01-01T00:00:00Z"}`, "/expires_at"},
		{"POST", "/v1/credentials", `{"name":"a\nb","scopes":["read"]}`, "/name"},
		{"POST", "/v1/credentials/x/rotate", "", "id"},
		{"POST", one + "/rotate", `{"overlap":"-1s"}`, "/overlap"},
		{"POST", one + "/rotate", `{"overlap":"721h"}`, "/overlap"},
		{"POST", one + "/rotate", `{"scopes":["admin"]}`, "/scopes"},
		{"DELETE", "/v1/credentials/0123456789ABCDEF", "", "id"},
		{"DELETE", one + "?reason=x", "", "query"},
	} {
		members := r.with(admin, test.method, test.target, test.body).wantProblem(publish.ErrInvalidRequest)
		if got := fmt.Sprint(members["errors"]); !strings.Contains(got, "pointer:"+test.pointer+"]") {
			t.Errorf("%s %s %s: the error names %s, want %s", test.method, test.target, test.body, got, test.pointer)
		}
	}
	r.with(admin, "POST", one+"/rotate", "").wantProblem(publish.ErrNotFound)
	r.with(admin, "DELETE", one, "").wantProblem(publish.ErrNotFound)
	r.with(admin, "DELETE", one, "", by, "somebody").wantProblem(publish.ErrInvalidRequest)
}
