package main

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pawlhq/pawl/publish"
)

// TestScripts runs the command line as users write it, each script against a server of its own.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			r, stop, err := startRig()
			if err != nil {
				return err
			}
			env.Defer(stop)
			env.Values["rig"] = r
			env.Setenv("PAWL_URL", r.url)
			env.Setenv("ASKING_URL", r.asking)
			env.Setenv("ADMIN", r.admin)
			env.Setenv("PAWL_RETRY_FOR", "0s")
			env.Setenv("PAWL_HOLDER", "tester")
			env.Setenv("GORACE", "atexit_sleep_ms=0") // a second for each process otherwise
			env.Setenv("TMPDIR", env.Getenv("WORK"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exitsWith, "pass": pass, "envlease": envLease, "faults": faults, "setnfd": setNFD,
			"credentialid": nameCredential,
		},
	})
}

// exitsWith runs a program and compares its exit code: exits 80 pawl put ...
func exitsWith(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM [ARG...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		_, code, found := strings.Cut(err.Error(), "exit status ")
		if !found {
			ts.Fatalf("%v", err)
		}
		got, err = strconv.Atoi(code)
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// pass moves the server's clock on: pass 1m
func pass(ts *testscript.TestScript, _ bool, args []string) {
	d, err := time.ParseDuration(args[0])
	ts.Check(err)
	ts.Value("rig").(*rig).pointers.Advance(d)
}

// envlease sets PAWL_TOKEN and PAWL_LEASE_ID to what acquire printed into a file: envlease lease.txt
func envLease(ts *testscript.TestScript, _ bool, args []string) {
	fields := strings.Fields(ts.ReadFile(args[0]))
	if len(fields) != 3 {
		ts.Fatalf("acquire printed %q", fields)
	}
	ts.Setenv("PAWL_TOKEN", fields[0])
	ts.Setenv("PAWL_LEASE_ID", fields[1])
}

// nameCredential sets a variable to the id of the credential of a name in what credential ls --json printed: credentialid list.json ci ID
func nameCredential(ts *testscript.TestScript, _ bool, args []string) {
	var page publish.CredentialPage
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &page))
	for _, c := range page.Credentials {
		if c.Name == args[1] {
			ts.Setenv(args[2], string(c.ID))
			return
		}
	}
	ts.Fatalf("there is no credential %s", args[1])
}

// setnfd sets a variable to "café.png" in NFD.
func setNFD(ts *testscript.TestScript, _ bool, args []string) { ts.Setenv(args[0], "cafe\u0301.png") }

// faults makes an operation of the pointer store fail with a kind of error: faults Publish unavailable
func faults(ts *testscript.TestScript, _ bool, args []string) {
	code := publish.Code(args[1])
	fault := ts.Value("rig").(*rig).pointers
	fault.Faults.Add(faultOf(args[0], code))
}
