package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

// The direct uploads that a credential has open at one replica count at the other one, too. `pawl put` sends a file that is one too many through the server, and
// says so; told to send it directly, it ends with the code of uploads. When the open one is given up there is room again.
func TestLimitOfDirectUploadsOnTwoReplicas(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	dsn, bucket := testenv.Postgres(t), testenv.S3Bucket(t)
	env := append(s3Env(bucket), "PAWL_AUTH=required", "PAWL_LIMIT_DIRECT=1")
	one, other := serve(t, dsn, s3Address(bucket), env...), serve(t, dsn, s3Address(bucket), env...)
	cmd := exec.Command(binary(t), "credential", "create", "--name", "farm", "--scope", "publish")
	cmd.Env = append(cmd.Environ(), "PAWL_DATABASE_URL="+dsn)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	secret := strings.TrimSpace(string(out))
	farm, err := client.New(one.url, client.Options{Credential: secret})
	if err != nil {
		t.Fatal(err)
	}
	defer farm.Close()
	lease, err := farm.Acquire(ctx, publish.AcquireRequest{Key: "left", Holder: "W", TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	file, sum := sparseFile(t, client.DirectFrom)
	left := client.FileUpload{Grant: lease.Grant(), Path: "f", Size: client.DirectFrom, Digest: sum, Mode: client.DirectAlways}
	begin := fmt.Sprintf(`{"path":"f","size":%d,"sha256":%q}`, left.Size, sum)
	status, body := send(t, one, fmt.Sprintf("/v1/keys/left/-/generations/%d/uploads", lease.Token), strings.NewReader(begin),
		http.Header{"Authorization": {"Bearer " + secret}, "Pawl-Lease": {lease.LeaseID.Hex()}})
	if status != http.StatusCreated {
		t.Fatalf("begun as %d, %s", status, body)
	}
	put := func(key, direct string) *process {
		return start(t, []string{"PAWL_URL=" + other.url, "PAWL_CREDENTIAL=" + secret}, binary(t), "put", key, file, "--direct", direct)
	}
	if p := put("auto", "auto"); p.exit() != 0 || !strings.Contains(p.errs.String(), "goes through the server: ") || !strings.Contains(p.errs.String(), "PAWL_LIMIT_DIRECT") {
		t.Errorf("one too many ends with %d: %s", p.exit(), p.errs.String())
	}
	if p := put("always", "always"); p.exit() != 74 || !strings.Contains(p.errs.String(), "1 direct uploads of yours are open") {
		t.Errorf("one too many that must not go through the server ends with %d: %s", p.exit(), p.errs.String())
	}
	if err := farm.AbortUpload(ctx, left); err != nil {
		t.Fatal(err)
	}
	if p := put("always", "always"); p.exit() != 0 {
		t.Errorf("with room again it ends with %d: %s", p.exit(), p.errs.String())
	}
}
