package blobstore

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
)

// keySource says where one key comes from: it is given itself, or a file holds it, or nothing is said.
type keySource struct {
	setting string // PAWL_S3_ACCESS_KEY or PAWL_S3_SECRET_KEY
	value   string
	file    string
}

func (k keySource) given() bool { return k.value != "" || k.file != "" }

// read returns the key. The line break that editors put behind a file is no part of it.
func (k keySource) read() (string, error) {
	if k.file == "" {
		return k.value, nil
	}
	text, err := os.ReadFile(k.file)
	if err != nil {
		return "", fmt.Errorf("%s_FILE: %w; name a file that the server can read", k.setting, err)
	}
	key := strings.TrimRight(string(text), "\r\n")
	if key == "" || strings.ContainsAny(key, "\r\n") {
		return "", fmt.Errorf("%s_FILE: %s must hold the key on its only line", k.setting, k.file)
	}
	return key, nil
}

// checkKeys looks whether keys are given, both or none, and each in one way.
func checkKeys(access, secret keySource) error {
	for _, key := range []keySource{access, secret} {
		if key.value != "" && key.file != "" {
			return fmt.Errorf("%[1]s and %[1]s_FILE are both set; set one of them", key.setting)
		}
		if _, err := key.read(); err != nil {
			return err
		}
	}
	if access.given() != secret.given() {
		missing, there := access, secret
		if access.given() {
			missing, there = secret, access
		}
		return fmt.Errorf("%[1]s is not set, but %[2]s is; set %[1]s or %[1]s_FILE as well, or neither of the two keys", missing.setting, there.setting)
	}
	return nil
}

// credentials makes the source of keys for the client library.
func (c s3Config) credentials() *credentials.Credentials {
	var from credentials.Provider = &awsKeys{sources: awsSources()}
	if c.accessKey.given() {
		from = &fileKeys{access: c.accessKey, secret: c.secretKey}
	}
	return credentials.New(&toldKeys{Provider: from, tell: c.onKeys})
}

// rereadAfter is how long keys from files are used before the files are read again.
const rereadAfter = time.Second

// fileKeys are keys that are given, or that files hold. The library calls its methods one at a time.
type fileKeys struct {
	access, secret keySource
	keys           credentials.Value
	readAt         time.Time
}

// Retrieve reads the keys. While a file is being replaced it may be missing for a moment: then the keys from before go on.
func (f *fileKeys) Retrieve() (credentials.Value, error) {
	access, err := f.access.read()
	if err != nil {
		return f.before(err)
	}
	secret, err := f.secret.read()
	if err != nil {
		return f.before(err)
	}
	f.readAt = time.Now()
	f.keys = credentials.Value{AccessKeyID: access, SecretAccessKey: secret, SignerType: credentials.SignatureV4}
	return f.keys, nil
}

func (f *fileKeys) before(err error) (credentials.Value, error) {
	if f.keys.AccessKeyID == "" {
		return credentials.Value{}, err
	}
	return f.keys, nil
}

// RetrieveWithCredContext is Retrieve: nobody is asked over the network.
func (f *fileKeys) RetrieveWithCredContext(*credentials.CredContext) (credentials.Value, error) {
	return f.Retrieve()
}

// IsExpired says that it is time to read the files again.
func (f *fileKeys) IsExpired() bool {
	return (f.access.file != "" || f.secret.file != "") && time.Since(f.readAt) > rereadAfter
}

// toldKeys tells of keys before they are used for the first time.
type toldKeys struct {
	credentials.Provider
	tell func(secrets ...string)
	last credentials.Value
}

// RetrieveWithCredContext gets the keys.
func (t *toldKeys) RetrieveWithCredContext(cc *credentials.CredContext) (credentials.Value, error) {
	keys, err := t.Provider.RetrieveWithCredContext(cc)
	if err == nil && t.tell != nil && keys != t.last {
		t.last = keys
		t.tell(keys.AccessKeyID, keys.SecretAccessKey, keys.SessionToken)
	}
	return keys, err
}
