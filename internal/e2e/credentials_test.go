package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/internal/testenv"
)

// rotationFails is the documented rotation where nothing can be asked: what there is stays, readable by its owner alone.
const rotationFails = `
cp ci.credential before
if (umask 077; PAWL_URL=http://127.0.0.1:1 pawl credential rotate ci >ci.next) && mv ci.next ci.credential; then exit 1; fi
cmp before ci.credential
test "$(stat -c %a ci.credential)" = 600
`

// Every command of docs/credentials.md runs as it is printed: the first credential is made in the database, and all others by a server that asks for one.
func TestCredentialsDocument(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/credentials.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := map[string]string{}
	for _, block := range regexp.MustCompile("(?s)```sh ([a-z]+)( rotate)?\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		if block[2] != "" { // As in a shell of another day.
			blocks[block[1]] += "umask 022\n"
		}
		blocks[block[1]] += block[3]
		if block[2] != "" { // Rotations are made again and again, also while an overlap runs.
			blocks[block[1]] += block[3] + rotationFails
		}
	}
	if all := strings.Count(string(text), "```"); all != 2*strings.Count(string(text), "```sh ") || blocks["server"] != "PAWL_AUTH=required pawl serve\n" {
		t.Fatalf("there are commands that this doesn't run: %q", blocks)
	}
	dir, dsn := t.TempDir(), testenv.Postgres(t)
	shell := func(script string) string {
		t.Helper()
		cmd := exec.Command("bash", "-euo", "pipefail", "-c", script)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(binary(t))+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v:\n%s", err, out)
		}
		return string(out)
	}
	shell(strings.ReplaceAll(blocks["database"], "postgres://pawl@db.example/pawl", "'"+dsn+"'"))
	s := serve(t, dsn, directory(t), "PAWL_AUTH=required")
	out := shell(strings.ReplaceAll(blocks["client"], "https://pawl.example", s.url))
	for _, want := range []string{
		`"team-a" +admin:team-a/ +active`, `"keys":\[\{"key":"renders/out"`, `"key":"renders/out","token":1`, `revoked [0-9a-f]{16} \("ci"\)`,
		`"ci" +publish:renders/,read:press/ +revoked`, `"ci" +publish:renders/,read:press/ +active`, `ops +127.0.0.1 +rotate-credential`, `@\S+ +- +create-credential`,
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("nothing looks like %s in:\n%s", want, out)
		}
	}
	credential := regexp.MustCompile(`pawl_c_[0-9A-Za-z]{38}`)
	if said := out + s.errs.String(); credential.MatchString(said) {
		t.Errorf("a credential shows in the output or the log:\n%s", said)
	}
	for _, name := range []string{"ops.credential", "ci.credential", "team-a.credential", "press.json"} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || len(credential.FindAllString(string(text), -1)) != 1 {
			t.Errorf("%s holds %q, %v", name, text, err)
		}
	}
}
