//go:build unix

package testenv

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/ory/dockertest/v3"
	"github.com/ory/dockertest/v3/docker"
)

// A container carries the label, so that the next run finds what a test process that died has left. It is older than
// containerLife then, which no run of tests is.
//
// containerStart bounds how long its server takes: on a machine full of other tests a new Postgres cluster takes a
// minute and more.
const (
	containerStart = 4 * time.Minute
	containerLabel = "pawl-test"
	containerLife  = time.Hour
)

var (
	dockerCluster shared[*cluster]
	dockerS3      shared[S3]
)

// DockerPostgres is Postgres with the server in a container, of the image PAWL_TEST_POSTGRES_IMAGE. Without a
// Docker engine the test is skipped, or fails when PAWL_TEST_NO_SKIP=1.
func DockerPostgres(t testing.TB) string {
	t.Helper()
	pool := engine(t)
	return dockerCluster.get(t, func() (*cluster, error) {
		image := cmp.Or(os.Getenv("PAWL_TEST_POSTGRES_IMAGE"), "postgres:16-alpine")
		const password = "pawl-test" //nolint:gosec // Reachable from this machine alone, for the time of the test.
		address, err := runContainer(pool, image, "5432/tcp", nil, "POSTGRES_PASSWORD="+password)
		if err != nil {
			return nil, err
		}
		c := &cluster{admin: "postgres://postgres:" + password + "@" + address + "/postgres?sslmode=disable"}
		return c, pool.Retry(func() error {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			conn, err := pgx.Connect(ctx, c.admin)
			if err != nil {
				return err
			}
			return conn.Close(ctx)
		})
	}).fresh(t)
}

// DockerS3 is S3Bucket with the server in a container, of the image PAWL_TEST_S3_IMAGE. Without a Docker engine
// the test is skipped, or fails when PAWL_TEST_NO_SKIP=1.
func DockerS3(t testing.TB) S3 {
	t.Helper()
	pool := engine(t)
	return dockerS3.get(t, func() (S3, error) {
		image := cmp.Or(os.Getenv("PAWL_TEST_S3_IMAGE"), "versity/versitygw:v1.8.0")
		s := S3{AccessKey: "pawl-test", SecretKey: rand.Text(), Region: "us-east-1"}
		address, err := runContainer(pool, image, "7070/tcp",
			[]string{"--port", ":7070", "--region", s.Region, "--quiet", "posix", "/data"},
			"ROOT_ACCESS_KEY="+s.AccessKey, "ROOT_SECRET_KEY="+s.SecretKey)
		if err != nil {
			return S3{}, err
		}
		s.Endpoint = "http://" + address
		ctx, cancel := context.WithTimeout(context.Background(), containerStart)
		defer cancel()
		return s, s.awaitAnswer(ctx, nil)
	}).withBucket(t)
}

var sharedPool shared[*dockertest.Pool]

// engine returns the Docker engine at DOCKER_HOST, or the system's.
func engine(t testing.TB) *dockertest.Pool {
	t.Helper()
	pool := sharedPool.get(t, func() (*dockertest.Pool, error) {
		pool, err := dockertest.NewPool("")
		if err != nil {
			return nil, err
		}
		pool.MaxWait = containerStart
		atEnd(func() error {
			if transport, ok := pool.Client.HTTPClient.Transport.(*http.Transport); ok {
				transport.CloseIdleConnections()
			}
			return nil
		})
		return pool, nil
	})
	if err := pool.Client.Ping(); err != nil {
		skipOrFatal(t, "no Docker engine answers (%v): start one and set DOCKER_HOST, or run `make test-docker`", err)
	}
	return pool
}

// removeLeftovers removes the containers of test processes that died.
func removeLeftovers(pool *dockertest.Pool) error {
	containers, err := pool.Client.ListContainers(docker.ListContainersOptions{
		All: true, Filters: map[string][]string{"label": {containerLabel}},
	})
	if err != nil {
		return fmt.Errorf("look for containers that were left: %w", err)
	}
	var gone *docker.NoSuchContainer
	for _, container := range containers {
		if time.Since(time.Unix(container.Created, 0)) < containerLife {
			continue
		}
		err := pool.Client.RemoveContainer(docker.RemoveContainerOptions{ID: container.ID, RemoveVolumes: true, Force: true})
		if err != nil && !errors.As(err, &gone) {
			return fmt.Errorf("remove a container that was left: %w", err)
		}
	}
	return nil
}

// runContainer starts a container until the end of the test process, and returns the address of its port. It doesn't use
// dockertest's Expire: that asks the engine to stop the container, with the time as its grace, so the server is
// signalled at once, and goes if it is quick enough to have a handler by then.
func runContainer(pool *dockertest.Pool, image, port string, cmd []string, env ...string) (string, error) {
	repository, tag := docker.ParseRepositoryTag(image)
	if err := removeLeftovers(pool); err != nil {
		return "", err
	}
	container, err := pool.RunWithOptions(&dockertest.RunOptions{
		Repository:   repository,
		Tag:          cmp.Or(tag, "latest"),
		Cmd:          cmd,
		Env:          env,
		Labels:       map[string]string{containerLabel: ""},
		ExposedPorts: []string{port},
		PortBindings: map[docker.Port][]docker.PortBinding{docker.Port(port): {{HostIP: "127.0.0.1"}}},
	}, func(config *docker.HostConfig) { config.AutoRemove = true })
	if err != nil {
		return "", fmt.Errorf("run image %s: %w", image, err)
	}
	atEnd(func() error { return pool.Purge(container) })
	address := container.GetHostPort(port)
	if address == "" {
		return "", errors.New("run image " + image + ": port " + port + " is not mapped")
	}
	return address, nil
}
