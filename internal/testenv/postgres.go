//go:build unix

package testenv

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/internal/devpg"
	"github.com/pawlhq/pawl/migrations"
)

// setupTimeout bounds everything that testenv does to a server before or after a test.
const setupTimeout = 60 * time.Second

// cluster is a Postgres server that hands out databases. Each is a copy of one migrated template, which takes
// about 50 ms; migrating anew would take several times as long.
type cluster struct {
	admin string // DSN of a database from which others can be created

	mu       sync.Mutex
	template string // "" until it is made
}

var common shared[*cluster]

// Postgres returns the DSN of a fresh, migrated database for this test alone, dropped at its end. The server is
// the one at PAWL_TEST_DATABASE_URL, or else a private one, started once a test process.
func Postgres(t testing.TB) string {
	t.Helper()
	return common.get(t, startCommon).fresh(t)
}

func startCommon() (*cluster, error) {
	if dsn := os.Getenv("PAWL_TEST_DATABASE_URL"); dsn != "" {
		c := &cluster{admin: dsn}
		atEnd(c.dropTemplate)
		return c, nil
	}
	dir, remove, err := tempDir()
	if err != nil {
		return nil, err
	}
	server, err := devpg.Start(context.Background(), devpg.Options{Dir: dir})
	if err != nil {
		return nil, errors.Join(err, remove())
	}
	atEnd(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
		defer cancel()
		return errors.Join(server.Stop(ctx), remove())
	})
	return &cluster{admin: server.DSN("postgres")}, nil
}

// fresh makes a database for t.
func (c *cluster) fresh(t testing.TB) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), setupTimeout)
	defer cancel()
	name := newName("t")
	if err := c.copyTemplate(ctx, name); err != nil {
		t.Fatalf("fresh database: %v", err)
	}
	t.Cleanup(func() {
		// A test may have killed its server; its databases are gone with it then.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), setupTimeout)
		defer cancel()
		if err := c.exec(ctx, c.admin, `DROP DATABASE IF EXISTS `+name+` WITH (FORCE)`); err != nil {
			t.Logf("drop database: %v", err)
		}
	})
	return withDatabase(c.admin, name)
}

func (c *cluster) copyTemplate(ctx context.Context, name string) error {
	template, err := c.migrated(ctx)
	if err != nil {
		return err
	}
	if err := c.exec(ctx, c.admin, `CREATE DATABASE `+name+` TEMPLATE `+template); err != nil {
		return err
	}
	// The schema records which database it was made in; in a copy that looks like a restore from a backup,
	// which raises the epoch of all tokens. Tests shall begin as a new installation does.
	return c.exec(ctx, withDatabase(c.admin, name), `UPDATE pawl.epochs SET lineage = pawl.lineage()`)
}

// migrated returns the name of the template.
func (c *cluster) migrated(ctx context.Context) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.template != "" {
		return c.template, nil
	}
	name := newName("template")
	if err := c.exec(ctx, c.admin, `CREATE DATABASE `+name); err != nil {
		return "", err
	}
	if err := migrations.Up(ctx, withDatabase(c.admin, name)); err != nil {
		return "", fmt.Errorf("migrate: %w", err)
	}
	c.template = name
	return name, nil
}

func (c *cluster) dropTemplate() error {
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	if c.template == "" {
		return nil
	}
	return c.exec(ctx, c.admin, `DROP DATABASE IF EXISTS `+c.template+` WITH (FORCE)`)
}

func (c *cluster) exec(ctx context.Context, dsn, sql string) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, sql)
	return errors.Join(err, conn.Close(ctx))
}

// newName returns a name that nobody else on a shared server has.
func newName(kind string) string {
	return "pawl_" + kind + "_" + strings.ToLower(rand.Text()[:16])
}

// withDatabase returns the DSN with another database name, in either of the two spellings of a DSN.
func withDatabase(dsn, name string) string {
	if !strings.Contains(dsn, "://") {
		return dsn + " dbname=" + name // The last one counts.
	}
	u, err := url.Parse(dsn)
	if err != nil {
		return dsn // Connecting fails with the reason.
	}
	u.Path = "/" + name
	return u.String()
}
