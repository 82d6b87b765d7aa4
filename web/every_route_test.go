package web_test

import (
	"cmp"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

// What a route asks of its caller.
const (
	asksNothing    = "nothing"
	asksKey        = "key"        // a verb on the key of the URL
	asksAny        = "any"        // a verb on some keys, or that these are public
	asksCredential = "credential" // a verb on some keys, and a credential
)

// asked is what a route asks, and a request of it that somebody who may is not refused for who it is.
type asked struct {
	of      string
	verb    publish.Verb
	body    string
	headers []string
	query   string
	answers int // the status of what asks nothing, 0 for 200
}

var (
	leaseHeader = []string{"Pawl-Lease", "LEASE"}
	formHeader  = []string{"Content-Type", formType}
)

// askCases says it of every route. A route that is added without an entry fails the test.
var askCases = map[string]asked{
	"POST /v1/keys/{key}/-/lease":                              {of: asksKey, verb: publish.VerbPublish, body: `{"holder":"h","lease_id":"LEASE"}`},
	"GET /v1/keys/{key}/-/lease":                               {of: asksKey, verb: publish.VerbRead},
	"PATCH /v1/keys/{key}/-/lease":                             {of: asksKey, verb: publish.VerbPublish, headers: leaseHeader},
	"DELETE /v1/keys/{key}/-/lease":                            {of: asksKey, verb: publish.VerbPublish, headers: leaseHeader},
	"PUT /v1/keys/{key}/-/generations/{token}/files/{path}":    {of: asksKey, verb: publish.VerbPublish, body: "more", headers: leaseHeader},
	"DELETE /v1/keys/{key}/-/generations/{token}/files/{path}": {of: asksKey, verb: publish.VerbPublish, headers: leaseHeader},
	"POST /v1/keys/{key}/-/generations/{token}/uploads": {
		of: asksKey, verb: publish.VerbPublish, headers: leaseHeader, body: `{"path":"g","size":4,"sha256":"` + strings.Repeat("ab", 32) + `"}`,
	},
	"POST /v1/keys/{key}/-/generations/{token}/uploads/{upload}/parts":    {of: asksKey, verb: publish.VerbPublish, headers: leaseHeader, body: `{"part_numbers":[1]}`},
	"POST /v1/keys/{key}/-/generations/{token}/uploads/{upload}/complete": {of: asksKey, verb: publish.VerbPublish, headers: leaseHeader},
	"DELETE /v1/keys/{key}/-/generations/{token}/uploads/{upload}":        {of: asksKey, verb: publish.VerbPublish, headers: leaseHeader},
	"POST /v1/keys/{key}/-/generations/{token}/publish":                   {of: asksKey, verb: publish.VerbPublish, headers: leaseHeader},
	"POST /v1/keys/{key}/-/generations/{token}/effects/{name}":            {of: asksKey, verb: publish.VerbPublish, headers: leaseHeader},

	"GET /v1/keys/{key}/-/generations/{token}/files/{path}": {of: asksKey, verb: publish.VerbRead},
	"GET /v1/keys/{key}/-/generations/{token}/show/{path}":  {of: asksKey, verb: publish.VerbRead},
	"GET /v1/keys/{key}/-/generations/{token}/files":        {of: asksKey, verb: publish.VerbRead},
	"GET /v1/keys/{key}/-/generations/{token}.zip":          {of: asksKey, verb: publish.VerbRead},
	"GET /v1/keys/{key}/-/generations/{token}.tar":          {of: asksKey, verb: publish.VerbRead},
	"GET /v1/keys/{key}/-/generations/{token}":              {of: asksKey, verb: publish.VerbRead},
	"GET /v1/keys/{key}/-/generations":                      {of: asksKey, verb: publish.VerbRead},
	"GET /v1/keys/{key}/-/effects":                          {of: asksKey, verb: publish.VerbRead},
	"GET /v1/keys/{key}":                                    {of: asksKey, verb: publish.VerbRead},
	"DELETE /v1/keys/{key}":                                 {of: asksKey, verb: publish.VerbOperate, query: "?break_lease=true"},
	"POST /v1/keys/{key}/-/rollback":                        {of: asksKey, verb: publish.VerbOperate, body: `{"to":1,"reason":"r","break_lease":true}`},
	"PUT /v1/keys/{key}/-/pin":                              {of: asksKey, verb: publish.VerbOperate, body: `{"reason":"r"}`},
	"DELETE /v1/keys/{key}/-/pin":                           {of: asksKey, verb: publish.VerbOperate},
	"GET /v1/keys/{key}/-/current":                          {of: asksKey, verb: publish.VerbRead},
	"GET /v1/keys/{key}/-/current/{path}":                   {of: asksKey, verb: publish.VerbRead},

	"GET /v1/keys":        {of: asksAny, verb: publish.VerbRead},
	"POST /v1/resolve":    {of: asksAny, verb: publish.VerbRead, body: `{"keys":["team-a/x"]}`},
	"GET /v1/rejections":  {of: asksAny, verb: publish.VerbRead},
	"GET /v1/leases":      {of: asksAny, verb: publish.VerbRead},
	"GET /v1/events":      {of: asksAny, verb: publish.VerbRead},
	"GET /v1/policies":    {of: asksCredential, verb: publish.VerbRead},
	"PUT /v1/policies":    {of: asksAny, verb: publish.VerbAdmin, query: "?prefix=team-a/x", body: `{"fence_mode":"granted"}`},
	"DELETE /v1/policies": {of: asksAny, verb: publish.VerbAdmin, query: "?prefix=team-a/x"},
	"GET /v1/audit":       {of: asksAny, verb: publish.VerbAdmin},

	"GET /v1/credentials":             {of: asksAny, verb: publish.VerbAdmin},
	"POST /v1/credentials":            {of: asksAny, verb: publish.VerbAdmin, body: `{"name":"new","scopes":["read:team-a/x"]}`},
	"POST /v1/credentials/:id/rotate": {of: asksAny, verb: publish.VerbAdmin},
	"DELETE /v1/credentials/:id":      {of: asksAny, verb: publish.VerbAdmin},

	"GET /metrics":        {of: asksCredential, verb: publish.VerbRead},
	"GET /livez":          {of: asksNothing},
	"GET /readyz":         {of: asksNothing},
	"GET /static/:file":   {of: asksNothing},
	"GET /problems/:code": {of: asksNothing},

	"GET /sign-in":                 {of: asksNothing},
	"POST /sign-in":                {of: asksNothing, headers: formHeader, answers: 401},
	"POST /sign-in/issuer":         {of: asksNothing, headers: formHeader, answers: 400},
	"GET /sign-in/callback":        {of: asksNothing, answers: 400},
	"POST /sign-out":               {of: asksNothing, answers: 303},
	"POST /sign-out-everywhere":    {of: asksCredential, verb: publish.VerbRead},
	"GET /credentials":             {of: asksAny, verb: publish.VerbAdmin},
	"POST /credentials":            {of: asksAny, verb: publish.VerbAdmin, headers: formHeader, body: "name=new&scopes=read%3Ateam-a%2Fx"},
	"POST /credentials/:id/rotate": {of: asksAny, verb: publish.VerbAdmin, headers: formHeader},
	"GET /credentials/:id/revoke":  {of: asksAny, verb: publish.VerbAdmin},
	"POST /credentials/:id/revoke": {of: asksAny, verb: publish.VerbAdmin, headers: formHeader},

	"GET /":                              {of: asksAny, verb: publish.VerbRead},
	"GET /b/*":                           {of: asksAny, verb: publish.VerbRead},
	"GET /activity":                      {of: asksAny, verb: publish.VerbRead},
	"GET /rejections":                    {of: asksAny, verb: publish.VerbRead},
	"GET /leases":                        {of: asksAny, verb: publish.VerbRead},
	"GET /audit":                         {of: asksAny, verb: publish.VerbAdmin},
	"GET /policies":                      {of: asksCredential, verb: publish.VerbRead},
	"POST /policies":                     {of: asksAny, verb: publish.VerbAdmin, headers: formHeader, body: "prefix=team-a%2Fx&fence_mode=granted"},
	"GET /upload":                        {of: asksAny, verb: publish.VerbPublish},
	"POST /upload":                       {of: asksAny, verb: publish.VerbPublish},
	"GET /k/{key}":                       {of: asksKey, verb: publish.VerbRead},
	"GET /k/{key}/-/history":             {of: asksKey, verb: publish.VerbRead},
	"GET /k/{key}/-/generations/{token}": {of: asksKey, verb: publish.VerbRead},
	"GET /k/{key}/-/compare":             {of: asksKey, verb: publish.VerbRead},
	"GET /k/{key}/-/rollback":            {of: asksKey, verb: publish.VerbOperate},
	"POST /k/{key}/-/rollback":           {of: asksKey, verb: publish.VerbOperate, headers: formHeader, body: "reason=r"},
	"GET /k/{key}/-/pin":                 {of: asksKey, verb: publish.VerbOperate},
	"POST /k/{key}/-/pin":                {of: asksKey, verb: publish.VerbOperate, headers: formHeader, body: "reason=r"},
	"GET /k/{key}/-/unpin":               {of: asksKey, verb: publish.VerbOperate},
	"POST /k/{key}/-/unpin":              {of: asksKey, verb: publish.VerbOperate, headers: formHeader, body: "reason=r"},
	"GET /k/{key}/-/retire":              {of: asksKey, verb: publish.VerbOperate},
	"POST /k/{key}/-/retire":             {of: asksKey, verb: publish.VerbOperate, headers: formHeader, body: "reason=r"},
	"GET /k/{key}/-/break-lease":         {of: asksKey, verb: publish.VerbOperate},
	"POST /k/{key}/-/break-lease":        {of: asksKey, verb: publish.VerbOperate, headers: formHeader, body: "reason=r"},
	"GET /k/{key}/-/upload":              {of: asksKey, verb: publish.VerbPublish},
	"POST /k/{key}/-/upload":             {of: asksKey, verb: publish.VerbPublish},
}

// What a page has that is another each time.
var (
	anyNonce = regexp.MustCompile(`nonce[-=]["']?[A-Z2-7]+`)
	account  = regexp.MustCompile(`<div class="account">.*</div>`)
	madeAt   = regexp.MustCompile(`data-now="[^"]*"`)
)

// neighbours are scopes that a careless comparison would take for one of team-a/.
var neighbours = []string{"team-ab/", "TEAM-A/", "Team-a/", "team-/", "team-_/", "_eam-a/", "_______/", "team-%/", "%/", "%", "*", "team-a.x/", "team-a/y", "team-a/x/y", "team-a/x2", "team-b/"}

// askRig has a key team-a/x with a published version under token 1 and an open grant with token 2, and beside it nothing.
type askRig struct {
	*rig
	known  *credentials
	admin  []string
	worker worker
	upload string
	// credential is one with the scope read:team-a/x that the service keeps.
	credential publish.CredentialID
	secrets    []string // that must show nowhere
}

func newAskRig(t *testing.T) *askRig {
	t.Helper()
	r := &askRig{}
	r.rig, r.known = newAuthRig(t, web.Options{ContentOrigin: contentAt, ContentKey: contentKey})
	r.admin = r.issue("root", "admin")
	r.publishedBy(r.admin, "team-a/x", "canary bytes of team-a")
	r.worker = r.grantTo(r.admin, "team-a/x")
	r.worker.put("f", "open", r.admin...).want(201)
	begun := r.with(r.admin, "POST", r.worker.generation()+"/uploads", `{"path":"h","size":20,"sha256":"`+strings.Repeat("ab", 32)+`"}`, "Pawl-Lease", r.worker.lease)
	r.upload, _ = begun.want(201).json()["upload_id"].(string)
	made := r.with(r.admin, "POST", "/v1/credentials", `{"name":"kept","scopes":["read:team-a/x"]}`).want(201).json()
	id, _ := made["id"].(string)
	secret, _ := made["secret"].(string)
	r.credential, r.secrets = publish.CredentialID(id), append(r.secrets, r.worker.lease, secret)
	return r
}

// issue makes a credential, whose text must show nowhere.
func (r *askRig) issue(name, scopes string) []string {
	header := r.known.issue(r.t, name, scopes)
	r.secrets = append(r.secrets, strings.TrimPrefix(header[1], "Bearer "))
	return header
}

// ask calls a route about a key.
func (r *askRig) ask(name, key string, caller []string) answer {
	r.t.Helper()
	test := askCases[name]
	method, pattern, _ := strings.Cut(name, " ")
	token := "2"
	if method == http.MethodGet {
		token = "1"
	}
	target := strings.NewReplacer("{key}", key, "{token}", token, "{path}", "f", "{upload}", r.upload, "{name}", "n", ":id", string(r.credential), ":code", "forbidden", ":file", "style.css", "/b/*", "/b/team-a/").Replace(pattern)
	headers := slices.Clone(test.headers)
	for i := range headers {
		headers[i] = strings.ReplaceAll(headers[i], "LEASE", r.worker.lease)
	}
	body := strings.ReplaceAll(test.body, "LEASE", r.worker.lease)
	if method == http.MethodPost && strings.HasSuffix(pattern, "/upload") {
		parts := []string{"f:x"}
		if pattern == "/upload" {
			parts = []string{"key=team-a/x", "f:x"}
		}
		var kind string
		body, kind = uploadBody(r.t, parts...)
		headers = append(headers, "Content-Type", kind)
	}
	if !strings.HasPrefix(pattern, "/v1/") {
		headers = append(headers, "Accept", "text/html")
	}
	return r.with(caller, method, target+test.query, body, headers...)
}

// refuses fails unless a request is refused with that status, without a question to a store, and without a secret or a byte of the key in its answer.
func (r *askRig) refuses(name, key string, caller []string, status int) answer {
	r.t.Helper()
	calls := func() int { // The audit's record comes after the refusal.
		return r.pointers.Faults.AllCalls() - r.pointers.Faults.Calls("RecordRefusal") + r.blobs.Faults.AllCalls()
	}
	asked := calls()
	got := r.ask(name, key, caller)
	if got.status != status {
		r.t.Fatalf("status %d, want %d: %s", got.status, status, got.body)
	}
	if after := calls(); after != asked {
		r.t.Errorf("%d calls of a store, before the refusal with %d", after-asked, status)
	}
	r.keepsSecrets(got)
	if strings.Contains(got.body, "canary") {
		r.t.Errorf("the refusal tells of the key: %s", got.body)
	}
	return got
}

func (r *askRig) keepsSecrets(got answer) {
	r.t.Helper()
	var all strings.Builder
	_ = got.header.Write(&all) // A Builder takes everything.
	all.WriteString(got.body)
	for _, secret := range r.secrets {
		if strings.Contains(all.String(), secret) {
			r.t.Errorf("the answer has a secret: %s", all.String())
		}
	}
}

// shape is an answer without what differs each time.
func (r *askRig) shape(got answer, key string) string {
	var all strings.Builder
	header := got.header.Clone()
	id := header.Get("X-Request-Id")
	header.Del("Date")
	_ = header.Write(&all) // A Builder takes everything.
	all.WriteString(got.body)
	text := strings.ReplaceAll(all.String(), id, "ID")
	text = account.ReplaceAllString(text, "ACCOUNT")
	return strings.ReplaceAll(madeAt.ReplaceAllString(anyNonce.ReplaceAllString(text, "NONCE"), "TIME"), key, "KEY")
}

// TestCase49And50EveryRouteAsks calls every route without a credential, with each kind of bad one, with one that lacks the verb, and with those of neighbours: each
// gets the one status that it should, before any store is asked. A key outside of the scope can't be told from one that never existed.
func TestCase49And50EveryRouteAsks(t *testing.T) {
	t.Parallel()
	for name := range askCases {
		if !slices.Contains(web.RouteNames(), name) {
			t.Errorf("there is no route %s any more", name)
		}
	}
	for _, name := range web.RouteNames() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test, listed := askCases[name]
			if !listed {
				t.Fatal("this route is new: say in askCases what it asks of its caller")
			}
			r := newAskRig(t)
			if test.of == asksNothing {
				status := cmp.Or(test.answers, 200)
				r.ask(name, "", nil).want(status)
				r.ask(name, "", []string{"Authorization", "Bearer nonsense"}).want(status)
				return
			}
			r.asksForCredential(name)
			r.asksForVerb(name, test)
			r.hidesFromNeighbours(name, test)
			// What it asks for is enough.
			scope := test.verb.String() + ":team-a/x"
			if got := r.ask(name, "team-a/x", r.issue("enough", scope)); got.status == 401 || got.status == 403 || got.status == 404 || got.status >= 500 {
				t.Errorf("with %s: %d %s", scope, got.status, got.body)
			}
			for _, secret := range r.secrets {
				if strings.Contains(r.log.String(), secret) {
					t.Errorf("a secret is in the log: %s", r.log.String())
				}
			}
		})
	}
}

// asksForCredential: the answers to who has none, and to who has a bad one, tell nothing but what is wrong with its form.
func (r *askRig) asksForCredential(name string) {
	r.t.Helper()
	revoked, expired := r.issue("revoked", "admin"), r.issue("expired", "admin")
	r.known.revoke("revoked")
	r.known.revoke("expired") // To the handler it is the same.
	unknown := bearer(publish.NewSecret())
	none := r.refuses(name, "team-a/x", nil, 401)
	for _, bad := range [][]string{unknown, revoked, expired, basic("pawl", strings.TrimPrefix(unknown[1], "Bearer "))} {
		if got := r.refuses(name, "team-a/x", bad, 401); r.shape(got, "team-a/x") != r.shape(none, "team-a/x") {
			r.t.Errorf("a bad credential is answered\n%s\nand none\n%s", r.shape(got, "team-a/x"), r.shape(none, "team-a/x"))
		}
	}
	good := strings.TrimPrefix(r.admin[1], "Bearer ")
	for _, malformed := range [][]string{
		{"Authorization", "Bearer"},
		{"Authorization", "Bearer nonsense"},
		{"Authorization", r.admin[1] + "x"},
		{"Authorization", r.admin[1][:40]},
		{"Authorization", good},
		{"Authorization", "Digest " + good},
		{"Authorization", "Basic " + good},
		basic("alice", good), basic("", good), basic("pawl", ""), basic("pawl", good+" "),
		append(slices.Clone(r.admin), r.admin...),
	} {
		r.refuses(name, "team-a/x", malformed, 401)
	}
	if strings.Contains(name, "/files/{path}") {
		return // See TestLeaseOpensItsFiles.
	}
	r.refuses(name, "team-a/x", basic("lease", r.worker.lease), 401)
}

// asksForVerb: who may read the key, but not do this, is told which scope it takes.
func (r *askRig) asksForVerb(name string, test asked) {
	r.t.Helper()
	if test.verb == publish.VerbRead {
		return
	}
	got := r.refuses(name, "team-a/x", r.issue("lesser", (test.verb-1).String()+":team-a/"), 403)
	want := test.verb.String()
	if test.of == asksKey {
		want += ":team-a/x"
	}
	if got.header.Get("Content-Type") == "application/problem+json" {
		if members := got.wantProblem(publish.ErrForbidden); members["scope"] != want {
			r.t.Errorf("the needed scope is %v, want %s", members["scope"], want)
		}
	} else if !strings.Contains(got.body, want) {
		r.t.Errorf("the page doesn't name the scope %s: %s", want, got.body)
	}
}

// hidesFromNeighbours: who may do everything to keys with names near this one's gets what there is about a key that never existed.
func (r *askRig) hidesFromNeighbours(name string, test asked) {
	r.t.Helper()
	for _, neighbour := range neighbours {
		caller := r.issue("neighbour", "admin:"+neighbour)
		if test.of != asksKey {
			r.showsNothingTo(name, caller)
			continue
		}
		got, never := r.refuses(name, "team-a/x", caller, 404), r.refuses(name, "team-a/n", caller, 404)
		shape := r.shape(got, "team-a/x")
		if shape != r.shape(never, "team-a/n") {
			r.t.Errorf("to admin:%s a key that exists looks like\n%s\nand one that doesn't like\n%s", neighbour, shape, r.shape(never, "team-a/n"))
		}
		if absent := r.ask(name, "team-a/n", r.admin); absent.status == 404 && r.shape(absent, "team-a/n") != shape {
			r.t.Errorf("a key that is hidden from admin:%s looks like\n%s\nand one that never existed like\n%s", neighbour, shape, r.shape(absent, "team-a/n"))
		}
	}
}

// showsNothingTo: a route about no key, or about many, neither shows the key to its neighbours nor lets them change it.
func (r *askRig) showsNothingTo(name string, caller []string) {
	r.t.Helper()
	before := r.state()
	got, want := r.ask(name, "", caller), 200
	if strings.Contains(name, "/:id/") { // It is about one credential, which doesn't exist for a neighbour.
		want = 404
	}
	if strings.HasPrefix(name, "GET ") && got.status != want || got.status >= 500 {
		r.t.Errorf("a neighbour gets %d: %s", got.status, got.body)
	}
	r.keepsSecrets(got)
	if strings.Contains(got.body, "canary") || strings.HasPrefix(name, "GET ") && strings.Contains(got.body, "team-a/x") {
		r.t.Errorf("a neighbour sees the key: %s", got.body)
	}
	if after := r.state(); after != before {
		r.t.Errorf("a neighbour has made of\n%s\nthis:\n%s", before, after)
	}
}

// state is all that a request may have changed.
func (r *askRig) state() (all string) {
	r.t.Helper()
	for _, target := range []string{"/v1/policies", "/v1/credentials", "/v1/audit", "/v1/keys/team-a/x", "/v1/keys/team-a/x/-/generations", "/v1/keys/team-a/x/-/effects"} {
		all += r.with(r.admin, "GET", target, "").want(200).body
	}
	return all
}
