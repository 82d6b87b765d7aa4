package blobstore

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/testenv"
	"github.com/pawlhq/pawl/publish"
)

func TestKeyErrors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good, empty, two := filepath.Join(dir, "good"), filepath.Join(dir, "empty"), filepath.Join(dir, "two")
	for file, text := range map[string]string{good: "hush\n", empty: "\n", two: "hush\nhush\n"} {
		writeFile(t, file, text)
	}
	for want, opts := range map[string]Options{
		"PAWL_S3_ACCESS_KEY and PAWL_S3_ACCESS_KEY_FILE are both set": {AccessKey: "hush", AccessKeyFile: good, SecretKey: "hush"},
		"PAWL_S3_SECRET_KEY and PAWL_S3_SECRET_KEY_FILE are both set": {AccessKey: "hush", SecretKey: "hush", SecretKeyFile: good},
		"PAWL_S3_SECRET_KEY is not set, but PAWL_S3_ACCESS_KEY is":    {AccessKeyFile: good},
		"PAWL_S3_ACCESS_KEY is not set, but PAWL_S3_SECRET_KEY is":    {SecretKey: "hush"},
		"name a file that the server can read":                        {AccessKey: "hush", SecretKeyFile: filepath.Join(dir, "missing")},
		empty + " must hold the key on its only line":                 {AccessKey: "hush", SecretKeyFile: empty},
		two + " must hold the key on its only line":                   {AccessKeyFile: two, SecretKey: "hush"},
	} {
		_, err := Open(t.Context(), "s3://bucket?region=x", opts)
		if err == nil || !strings.HasPrefix(err.Error(), "PAWL_S3_") || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
}

// TestKeysRotate replaces the files of the keys under a running store, which tells of every secret that it uses.
func TestKeysRotate(t *testing.T) {
	t.Parallel()
	server := testenv.S3Bucket(t)
	dir := t.TempDir()
	access, secret := filepath.Join(dir, "access"), filepath.Join(dir, "secret")
	writeFile(t, access, server.AccessKey+"\r\n")
	writeFile(t, secret, "of yesterday\n")
	var mu sync.Mutex
	var told []string
	store, err := Open(t.Context(), "s3://"+server.Bucket+"?path_style=true&endpoint="+server.Endpoint, Options{
		AccessKeyFile: access, SecretKeyFile: secret,
		OnKeys: func(secrets ...string) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, secrets...)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := store.Check(t.Context()); err == nil {
		t.Fatal("the wrong key was taken")
	}
	writeFile(t, secret, server.SecretKey+"\n")
	testenv.Eventually(t, 10*time.Second, func() error { return store.Check(t.Context()) })
	if err := os.Remove(secret); err != nil {
		t.Fatal(err)
	}
	// A file that is gone for a moment ends nothing.
	for start := time.Now(); time.Since(start) < 2*rereadAfter; {
		if err := store.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if !slices.Contains(told, "of yesterday") || !slices.Contains(told, server.SecretKey) {
		t.Errorf("told of %d secrets", len(told))
	}
}

// awsWay is a server of AWS's that gives keys, and the variables that lead to it.
type awsWay struct {
	variables map[string]string
	serve     http.HandlerFunc
}

// TestKeysInAWSsWays can't run beside others: the library reads variables of the process.
func TestKeysInAWSsWays(t *testing.T) {
	server := testenv.S3Bucket(t)
	dir := t.TempDir()
	token, shared := filepath.Join(dir, "token"), filepath.Join(dir, "shared")
	writeFile(t, token, "a-web-identity")
	writeFile(t, shared, fmt.Sprintf("[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n", server.AccessKey, server.SecretKey))
	ends := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	role := fmt.Sprintf(`{"Code":"Success","AccessKeyId":%q,"SecretAccessKey":%q,"Expiration":%q}`, server.AccessKey, server.SecretKey, ends)

	for name, way := range map[string]awsWay{
		"variables": {variables: map[string]string{"AWS_ACCESS_KEY_ID": server.AccessKey, "AWS_SECRET_ACCESS_KEY": server.SecretKey}},
		"a file":    {variables: map[string]string{"AWS_SHARED_CREDENTIALS_FILE": shared}},
		"a web identity": {
			variables: map[string]string{"AWS_WEB_IDENTITY_TOKEN_FILE": token, "AWS_ROLE_ARN": "arn:aws:iam::1:role/pawl", "AWS_ENDPOINT_URL_STS": "HERE"},
			serve: func(w http.ResponseWriter, r *http.Request) {
				if r.FormValue("Action") != "AssumeRoleWithWebIdentity" || r.FormValue("WebIdentityToken") != "a-web-identity" || r.FormValue("RoleArn") != "arn:aws:iam::1:role/pawl" {
					http.Error(w, "who are you?", http.StatusForbidden)
					return
				}
				_, _ = fmt.Fprintf(w, `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult><Credentials>
					<AccessKeyId>%s</AccessKeyId><SecretAccessKey>%s</SecretAccessKey><Expiration>%s</Expiration>
					</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`, server.AccessKey, server.SecretKey, ends)
			},
		},
		"the role of a machine": {
			variables: map[string]string{"AWS_EC2_METADATA_SERVICE_ENDPOINT": "HERE"},
			serve: func(w http.ResponseWriter, r *http.Request) {
				answer := map[string]string{
					"PUT /latest/api/token": "a-token", "GET /latest/meta-data/iam/security-credentials/": "pawl",
					"GET /latest/meta-data/iam/security-credentials/pawl": role,
				}[r.Method+" "+r.URL.Path]
				if r.Method == http.MethodGet && r.Header.Get("X-Aws-Ec2-Metadata-Token") != "a-token" || answer == "" {
					http.Error(w, "no", http.StatusUnauthorized)
					return
				}
				_, _ = fmt.Fprint(w, answer)
			},
		},
		"the role of a container": {
			variables: map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": "HERE"},
			serve:     func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, role) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			noAWS(t, dir)
			here := httptest.NewServer(way.serve)
			defer here.Close()
			for variable, value := range way.variables {
				if value == "HERE" {
					value = here.URL
				}
				t.Setenv(variable, value)
			}
			s := openKeyless(t, server)
			if err := s.Check(t.Context()); err != nil {
				t.Fatal(err)
			}
			signed, err := s.SignGet(t.Context(), someName, publish.AnswerHeaders{}, 2*time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			if limit := time.Now().Add(time.Hour); way.serve != nil && signed.ExpiresAt.After(limit) {
				t.Errorf("a signature is valid until %s, after its keys end at %s", signed.ExpiresAt, ends)
			}
		})
	}

	t.Run("nowhere", func(t *testing.T) {
		noAWS(t, dir)
		err := openKeyless(t, server).Check(t.Context())
		if !errors.Is(err, publish.ErrUnavailable) {
			t.Fatalf("without keys: %v", err)
		}
		for _, want := range []string{"set PAWL_S3_ACCESS_KEY and PAWL_S3_SECRET_KEY", "AWS_ACCESS_KEY_ID", "shared credentials file", "metadata service"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("the error doesn't name %q: %v", want, err)
			}
		}
	})
}

// noAWS takes all of AWS's settings away, and puts its metadata service where nobody listens.
func noAWS(t *testing.T, dir string) {
	t.Helper()
	for _, line := range os.Environ() {
		if name, _, _ := strings.Cut(line, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, "")
		}
	}
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(dir, "none"))
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(dir, "none"))
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:1")
}

func openKeyless(t *testing.T, server testenv.S3) *S3 {
	t.Helper()
	store, err := Open(t.Context(), "s3://"+server.Bucket+"?path_style=true&endpoint="+server.Endpoint, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store.(*S3)
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
