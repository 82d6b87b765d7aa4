package main

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/publish"
)

// githubOutputs reads a file as the runner of GitHub Actions does: NAME=VALUE, or NAME<<DELIMITER and lines up to the delimiter.
func githubOutputs(t *testing.T, path string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	outputs := map[string]string{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		equals, here := strings.Index(lines.Text(), "="), strings.Index(lines.Text(), "<<")
		switch {
		case lines.Text() == "":
		case equals >= 0 && (here < 0 || equals < here):
			outputs[lines.Text()[:equals]] = lines.Text()[equals+1:]
		case here > 0:
			name, delimiter := lines.Text()[:here], lines.Text()[here+2:]
			var value []string
			for lines.Scan() && lines.Text() != delimiter {
				value = append(value, lines.Text())
			}
			if lines.Text() != delimiter {
				t.Fatalf("%s has no end in %q", name, text)
			}
			outputs[name] = strings.Join(value, "\n")
		default:
			t.Fatalf("line %q in %q", lines.Text(), text)
		}
	}
	return outputs
}

// A name can't make an output of its own, nor end another's. Case 50: the lease_id is in none.
func TestGitHubOutputsOfHostileNames(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"a=b", "a<<b", "pawl-outcome=published", "pawl_EOF", "EOF", "ghadelimiter", "a b/%0A/😀", "'\"$(x)`x`", "::set-output name=x::y"} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			r, file := newRig(t), filepath.Join(t.TempDir(), "outputs")
			if err := os.WriteFile(file, []byte("own=1"), 0o600); err != nil {
				t.Fatal(err)
			}
			env := []string{"PAWL_URL=" + r.url, "GITHUB_ACTIONS=true", "GITHUB_OUTPUT=" + file}
			lease, err := r.client.Acquire(t.Context(), publish.AcquireRequest{Key: publish.Key(key), Holder: "other", TTL: publish.MaxTTL})
			if err != nil {
				t.Fatal(err)
			}
			call(t, env, "run", "--key", key, "--", "true").expect(t, exitLeaseHeld)
			want := map[string]string{"own": "1", "pawl-outcome": "held", "pawl-exit-code": "75", "pawl-key": key}
			if diff := cmp.Diff(want, githubOutputs(t, file)); diff != "" {
				t.Errorf("held: -want +got\n%s", diff)
			}
			if err := r.client.Release(t.Context(), publish.Key(key), lease.LeaseID); err != nil {
				t.Fatal(err)
			}
			call(t, env, "run", "--key", key, "--", "sh", "-c", `echo x >"$PAWL_OUT/x=y<<z"`).expect(t, 0)
			got := githubOutputs(t, file)
			want = map[string]string{
				"own": "1", "pawl-outcome": "published", "pawl-exit-code": "0", "pawl-key": key, "pawl-token": "2", "pawl-revision": "1",
				"pawl-manifest-digest": got["pawl-manifest-digest"], "pawl-url": got["pawl-url"],
			}
			if diff := cmp.Diff(want, got); diff != "" || len(got["pawl-manifest-digest"]) != 64 || !strings.HasPrefix(got["pawl-url"], r.url+"/v1/keys/") {
				t.Errorf("published: -want +got\n%s%q", diff, got)
			}
		})
	}
}

// A publish whose reply was lost may be answered late: published, and since superseded.
func TestReceiptOutcomes(t *testing.T) {
	t.Parallel()
	own, newer := publish.Version{Token: 1, Revision: 1}, publish.Version{Token: 2, Revision: 1}
	for want, receipt := range map[string]publish.Receipt{
		"published":  {Token: 1, Revision: 1, Current: &own},
		"replayed":   {Token: 1, Revision: 1, Current: &own, Replayed: true},
		"superseded": {Token: 1, Revision: 1, Current: &newer, Replayed: true},
	} {
		if got := receiptOutcome(receipt); got != want {
			t.Errorf("%+v is %s, want %s", receipt, got, want)
		}
	}
}

// Case 54: each kind of error of the server has a word, and an own kind of this program, too.
func TestCase54Outcomes(t *testing.T) {
	t.Parallel()
	for _, kind := range publish.Kinds() {
		err := &publish.Error{Code: kind.Code, Token: 1}
		if word := outcomeOf(err); word == "" || word == "interrupted" {
			t.Errorf("%s is %q", kind.Code, word)
		}
		if p := problemOf(err); p.Type != "/problems/"+string(kind.Code) || p.Status != kind.Status || p.Retryable != kind.Retryable {
			t.Errorf("%s is %+v", kind.Code, p)
		}
	}
	words := map[string]int{}
	for code, word := range outcomes {
		if other, taken := words[word]; taken {
			t.Errorf("%d and %d are both %s", code, other, word)
		}
		words[word] = code
	}
	codes := codeFlags{held: 99, fenced: 0}
	for _, c := range []struct {
		err  error
		want int
	}{
		{&publish.Error{Code: publish.ErrLeaseHeld}, 99},
		{&publish.Error{Code: publish.ErrStaleToken}, 0},
		{uploadFailure("a", &publish.Error{Code: publish.ErrLeaseLost}), 0},
		{fencedError{errors.New("x")}, 0},
		{&publish.Error{Code: publish.ErrUnknownToken}, 0},
		{childError{code: exitLeaseHeld}, exitLeaseHeld},
		{childError{code: exitFenced}, exitFenced},
		{overheldError{}, exitOverheld},
		{&publish.Error{Code: publish.ErrPreconditionFailed}, exitRefused},
	} {
		if got := exitCode(codes.choose(c.err)); got != c.want {
			t.Errorf("%v: exit code %d, want %d", c.err, got, c.want)
		}
	}
}
