package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/testenv"
)

// A credential is revoked at one replica, and the lease id that it was granted opens nothing any more at the other one either: neither for a new request, which knew it
// 5 s before at the most, nor for a body that is on its way. The key is free for the next one at once, and its history tells whose it was.
func TestRevokedLeaseOnTwoReplicas(t *testing.T) {
	t.Parallel()
	dsn, blobs := testenv.Postgres(t), directory(t)
	create := func(name, scope string) string {
		t.Helper()
		cmd := exec.Command(binary(t), "credential", "create", "--name", name, "--scope", scope)
		cmd.Env = append(cmd.Environ(), "PAWL_DATABASE_URL="+dsn)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	one, other := serve(t, dsn, blobs, "PAWL_AUTH=required"), serve(t, dsn, blobs, "PAWL_AUTH=required")
	ops, farm := create("ops", "admin"), create("render farm", "publish:k")
	call := func(s *server, user, secret, method, path string, body io.Reader) (status int, answer map[string]any) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, s.url+path, body)
		if err != nil {
			t.Fatal(err)
		}
		req.SetBasicAuth(user, secret)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close() //nolint:errcheck // All is read.
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		_ = json.Unmarshal(text, &answer) //nolint:errcheck // Not all are JSON.
		return res.StatusCode, answer
	}
	acquire := func(secret string) map[string]any {
		t.Helper()
		status, lease := call(one, "pawl", secret, "POST", "/v1/keys/k/-/lease", strings.NewReader(`{"holder":"somebody else","ttl":"24h"}`))
		if status != 201 {
			t.Fatalf("a grant is answered with %d %v", status, lease)
		}
		return lease
	}
	id := fmt.Sprint(acquire(farm)["lease_id"])
	files := "/v1/keys/k/-/generations/1/files/"
	if status, _ := call(other, "lease", id, "PUT", files+"a", strings.NewReader("a")); status != 201 {
		t.Fatalf("the first file is answered with %d", status)
	}
	body, sending := io.Pipe()
	defer sending.Close() //nolint:errcheck // The test is over.
	ended := make(chan int, 1)
	go func() {
		req, err := http.NewRequestWithContext(t.Context(), "PUT", other.url+files+"b", body)
		if err != nil {
			ended <- -1
			return
		}
		req.SetBasicAuth("lease", id)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			ended <- -1
			return
		}
		_ = res.Body.Close()
		ended <- res.StatusCode
	}()
	if _, err := sending.Write([]byte("b")); err != nil {
		t.Fatal(err)
	}

	_, list := call(one, "pawl", ops, "GET", "/v1/credentials", nil)
	for _, entry := range list["credentials"].([]any) {
		if c := entry.(map[string]any); c["name"] == "render farm" {
			if status, _ := call(one, "pawl", ops, "DELETE", "/v1/credentials/"+fmt.Sprint(c["id"]), nil); status != 200 {
				t.Fatalf("the revocation is answered with %d", status)
			}
		}
	}
	revoked := time.Now()
	for method, status := range map[string]int{"PUT": 0, "GET": 0} {
		if status, _ = call(one, "lease", id, method, files+"a", nil); status != 401 {
			t.Errorf("%s is answered with %d where it was revoked", method, status)
		}
	}
	if status, _ := call(other, "lease", id, "GET", files+"a", nil); status != 401 {
		t.Errorf("reading is answered with %d", status)
	}
	testenv.Eventually(t, patience, func() error {
		began := time.Now()
		switch status, _ := call(other, "lease", id, "PUT", files+"a", strings.NewReader("late")); {
		case status == 401:
			return nil
		case began.Sub(revoked) > 5*time.Second:
			t.Errorf("%d, %s after the revocation", status, began.Sub(revoked))
			return nil
		default:
			return fmt.Errorf("answered with %d", status)
		}
	})
	if next := acquire(ops); next["token"] != 2.0 {
		t.Errorf("the next grant is %v", next)
	}
	select {
	case status := <-ended:
		if status != 401 {
			t.Errorf("the body that was on its way is answered with %d", status)
		}
	case <-time.After(patience):
		t.Error("the body that was on its way is received still")
	}
	_, first := call(other, "pawl", ops, "GET", "/v1/keys/k/-/generations/1", nil)
	if first["holder"] != "somebody else" || first["credential"] != "render farm" || first["from"] != "127.0.0.1" {
		t.Errorf("the history tells %v", first)
	}
}
