package blobstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
)

// keysTimeout bounds the search for keys. A machine that has no metadata service often answers nothing at all.
const keysTimeout = 10 * time.Second

// awsSource is one place where AWS's own tools look for keys.
type awsSource struct {
	name string // for the error when none has any
	from credentials.Provider
}

// awsSources are the places where keys come from that Pawl's own settings don't give, in the order of AWS's tools. The last
// one is what fits: a web identity (AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN, as Kubernetes service accounts have it), a
// container's role, or that of the machine. AWS_ENDPOINT_URL_STS and AWS_EC2_METADATA_SERVICE_ENDPOINT move them.
func awsSources() []awsSource {
	role := awsSource{"the role of this machine (its metadata service)", &credentials.IAM{Endpoint: os.Getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT")}}
	switch {
	case os.Getenv("AWS_WEB_IDENTITY_TOKEN_FILE") != "":
		role = awsSource{"the web identity (AWS_WEB_IDENTITY_TOKEN_FILE)", &credentials.IAM{Endpoint: os.Getenv("AWS_ENDPOINT_URL_STS")}}
	case os.Getenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") != "", os.Getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI") != "":
		role = awsSource{"the role of this container (AWS_CONTAINER_CREDENTIALS_…)", &credentials.IAM{}}
	}
	return []awsSource{
		{"AWS_ACCESS_KEY_ID", &credentials.EnvAWS{}},
		{"AWS's shared credentials file", &credentials.FileAWSCredentials{}},
		role,
	}
}

// errNoKeys says that no source has keys.
var errNoKeys = errors.New("there are no keys for the bucket: set PAWL_S3_ACCESS_KEY and PAWL_S3_SECRET_KEY (or their _FILE forms), or give this machine keys in one of AWS's ways")

// awsKeys takes keys from the first source that has any. The library calls its methods one at a time.
type awsKeys struct {
	sources []awsSource
	current credentials.Provider // that has given the keys in use
}

// RetrieveWithCredContext asks one source after the other. Unlike the library's own chain it says why there are none,
// instead of going on without.
func (a *awsKeys) RetrieveWithCredContext(cc *credentials.CredContext) (credentials.Value, error) {
	bounded := *cc
	if bounded.Context == nil {
		bounded.Context = context.Background()
	}
	var cancel context.CancelFunc
	bounded.Context, cancel = context.WithTimeout(bounded.Context, keysTimeout)
	defer cancel()
	failed := errNoKeys
	for _, source := range a.sources {
		keys, err := source.from.RetrieveWithCredContext(&bounded)
		switch {
		case err != nil:
			failed = fmt.Errorf("%w; %s: %s", failed, source.name, err.Error())
		case keys.AccessKeyID == "" || keys.SecretAccessKey == "":
			failed = fmt.Errorf("%w; %s: has none", failed, source.name)
		default:
			a.current = source.from
			return keys, nil
		}
	}
	return credentials.Value{}, failed
}

// Retrieve is RetrieveWithCredContext without anything from the client.
func (a *awsKeys) Retrieve() (credentials.Value, error) {
	return a.RetrieveWithCredContext(&credentials.CredContext{})
}

// IsExpired says that the keys in use must be asked for again.
func (a *awsKeys) IsExpired() bool { return a.current == nil || a.current.IsExpired() }
