package e2e

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/pawlhq/pawl/internal/testenv"
)

// Case 50: a server that is given all kinds of secrets, and meets all kinds of trouble with them, tells none of them: in no line of its log at the finest level, no
// answer that refuses, no metric, no page and no command line.
func TestCase50ServerTellsNoSecret(t *testing.T) {
	t.Parallel()
	bucket := testenv.S3Bucket(t)
	dsn := testenv.Postgres(t)
	role, roleDSN := testenv.Role(t, dsn)
	if migrate := start(t, []string{"PAWL_DATABASE_URL=" + dsn}, binary(t), "migrate", "--grant", role); migrate.exit() != 0 {
		t.Fatal(migrate.errs.String())
	}
	secretKey := filepath.Join(t.TempDir(), "secret-key")
	if err := os.WriteFile(secretKey, []byte(bucket.SecretKey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serve(t, roleDSN, s3Address(bucket), "PAWL_S3_ACCESS_KEY="+bucket.AccessKey, "PAWL_S3_SECRET_KEY_FILE="+secretKey, "PAWL_LOG_LEVEL=debug", "PAWL_READS=redirect")
	const credential = "pawl_c_canaryCANARYcanaryCANARYcanaryCANARY00"
	parsed, err := url.Parse(roleDSN)
	if err != nil {
		t.Fatal(err)
	}
	secrets := []string{credential, bucket.SecretKey, parsed.Query().Get("password"), roleDSN}

	shown := map[string]string{} // what people and other programs see, by where
	send := func(method, path, body string, header ...string) string {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+credential)
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		resp, err := http.DefaultTransport.RoundTrip(req) // It follows no redirect.
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode >= 400 || strings.HasPrefix(resp.Header.Get("Content-Type"), "text/") {
			shown[method+" "+path+": "+resp.Status] = string(answer) + fmt.Sprint(resp.Header)
		} else if to := resp.Header.Get("Location"); resp.StatusCode >= 300 {
			return to
		}
		return string(answer)
	}
	var lease struct {
		LeaseID string `json:"lease_id"`
	}
	if err := json.Unmarshal([]byte(send("POST", "/v1/keys/k/-/lease", `{"holder":"w","ttl":"1h"}`)), &lease); err != nil || len(lease.LeaseID) != 32 {
		t.Fatalf("%+v, %v", lease, err)
	}
	id := lease.LeaseID
	secrets = append(secrets, id, strings.ToUpper(id))
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("lease:"+id))
	secrets = append(secrets, strings.TrimPrefix(basic, "Basic "))
	const generation = "/v1/keys/k/-/generations/1"
	send("PUT", generation+"/files/f.txt", "text", "Pawl-Lease", id)
	send("PUT", generation+"/files/g.txt", "text", "Authorization", basic)
	direct := send("POST", generation+"/uploads", `{"path":"d","size":4,"sha256":"`+strings.Repeat("ab", 32)+`","content_type":"text/plain"}`, "Pawl-Lease", id)
	signed := regexp.MustCompile(`X-Amz-Signature=([0-9a-f]{64})`)
	if found := signed.FindStringSubmatch(direct); found != nil {
		secrets = append(secrets, found[1])
	} else {
		t.Fatalf("no signed address in %s", direct)
	}
	send("POST", generation+"/publish", `{}`, "Pawl-Lease", id)                                      // d isn't there
	send("DELETE", generation+"/files/d", "", "Pawl-Lease", id)                                      //
	send("POST", generation+"/publish", `{"primary":"f.txt","lease_id":"`+id+`"}`, "Pawl-Lease", id) // no member of it
	send("POST", generation+"/publish", `{"primary":"f.txt"}`, "Pawl-Lease", id)
	if to := signed.FindStringSubmatch(send("GET", generation+"/files/f.txt", "")); to != nil {
		secrets = append(secrets, to[1])
	} else {
		t.Error("readers aren't sent to the store")
	}
	for _, wrong := range []string{id + "0", id[1:] + "0", id + " ", "lease " + id} {
		send("PATCH", "/v1/keys/k/-/lease", `{}`, "Pawl-Lease", wrong)
		send("PUT", generation+"/files/late.txt", "late", "Pawl-Lease", wrong)
		send("PUT", generation+"/files/late.txt", "late", "Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte("lease:"+wrong)))
	}
	send("POST", "/v1/keys/k/-/lease", `{"holder":"w","lease_id":["`+id+`"]}`)
	send("PUT", generation+"/files/late.txt", "late", "Pawl-Lease", id)
	for _, page := range []string{
		"/", "/k/k", "/k/k/-/history", "/k/k/-/generations/1", "/k/k/-/rollback", "/activity", "/rejections", "/leases", "/policies", "/audit", "/metrics", "/k/none",
	} {
		send("GET", page, "")
	}
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", s.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	shown["command line"] = string(line)

	// The store takes the keys no more, then Postgres the role.
	if err := os.WriteFile(secretKey, []byte("canary-of-a-key\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	secrets = append(secrets, "canary-of-a-key")
	if err := json.Unmarshal([]byte(send("POST", "/v1/keys/l/-/lease", `{"holder":"w","ttl":"1h"}`)), &lease); err != nil {
		t.Fatal(err)
	}
	secrets = append(secrets, lease.LeaseID)
	testenv.Eventually(t, patience, func() error { // The keys of before are used for a second.
		if answer := send("PUT", "/v1/keys/l/-/generations/1/files/f", "text", "Pawl-Lease", lease.LeaseID); !strings.Contains(answer, `"status":5`) {
			return errors.New("the store still takes them: " + answer)
		}
		return nil
	})
	postgres(t, nil, "psql", "-v", "ON_ERROR_STOP=1", "-q", "-d", dsn, "-c", `ALTER ROLE `+role+` NOLOGIN`,
		"-c", `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '`+role+`'`)
	testenv.Eventually(t, patience, func() error {
		if answer := send("GET", "/v1/keys/k", ""); !strings.Contains(s.errs.String(), "not permitted to log in") {
			return errors.New("the log doesn't tell of the role yet: " + answer)
		}
		return nil
	})

	s.signal(syscall.SIGTERM)
	s.exit()
	shown["log"] = s.out.String() + s.errs.String()
	if len(shown) < 20 || !strings.Contains(shown["log"], "level=DEBUG") || !strings.Contains(shown["log"], "SignatureDoesNotMatch") {
		t.Errorf("only %d places were looked at; the log is %s", len(shown), shown["log"])
	}
	for where, text := range shown {
		for _, secret := range secrets {
			if strings.Contains(text, secret) {
				t.Errorf("%s tells %q: %s", where, secret, text)
			}
		}
	}
}
