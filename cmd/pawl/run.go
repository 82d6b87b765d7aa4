package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/publish"
)

// patientRetry is how long run goes on when the server is away: the work that it has to publish was costly.
const patientRetry = time.Minute

// runFlags are the flags of run.
type runFlags struct {
	key, primary  string
	lease         leaseFlags
	outs          []string
	metadata      []string
	expect        expectFlags
	reuse         reuseFlags
	killAfter     time.Duration
	declared      []declaredOutput
	publishValues map[string]string
	publishPath   publish.Path
	expected      []string
	reuseFrom     publish.Token
}

func (a *app) runCommand() *cobra.Command {
	var flags runFlags
	cmd := &cobra.Command{
		Use:   "run --key KEY [flags] -- COMMAND [ARG...]",
		Short: "Run a command under a lease, and publish what it leaves behind when it succeeds",
		Long: "Run a command under the lease of a key, which is renewed meanwhile. The command finds PAWL_KEY, PAWL_TOKEN, PAWL_LEASE_ID,\n" +
			"PAWL_LEASE_EXPIRES, PAWL_FILES_URL and PAWL_URL in its environment, and in PAWL_OUT a fresh folder. When it exits 0, what --out\n" +
			"names (default: all of PAWL_OUT) is uploaded and published. When the lease is lost, the command and all that it started are\n" +
			"ended: TERM, then KILL. The exit code is the command's own when it failed.\n\n" +
			"The command is in a process group of its own. Its standard input is this one's, or empty when that is a terminal. With --json its\n" +
			"standard output goes to stderr, and the receipt to stdout.",
		Example: "  pawl run --key thumbs/image-52 -- sh -c 'vipsthumbnail photo.jpg -o \"$PAWL_OUT/thumb.webp\"'",
		Args:    cobra.MinimumNArgs(1),
		RunE: a.verb(func(ctx context.Context, args []string) error {
			key, err := a.prepareRun(&flags)
			if err != nil {
				return err
			}
			program, err := executable(args[0])
			if err != nil {
				return err
			}
			req, err := a.acquireRequest(key, flags.lease)
			if err != nil {
				return err
			}
			c, err := a.newClient(patientRetry)
			if err != nil {
				return err
			}
			defer c.Close()
			sweepScratch(time.Now())
			return a.wrap(ctx, c, req, flags, program, args)
		}),
	}
	flags.lease.register(cmd.Flags())
	cmd.Flags().StringVar(&flags.key, "key", "", "key to work on")
	cmd.Flags().StringArrayVar(&flags.outs, "out", nil, "file or folder to publish, relative to PAWL_OUT or absolute; may be given several times")
	cmd.Flags().StringVar(&flags.primary, "primary", "", "path of the entry point of the set (default: the only file)")
	flags.expect.register(cmd.Flags())
	flags.reuse.register(cmd.Flags())
	cmd.Flags().StringArrayVar(&flags.metadata, "metadata", nil, "name=value that is kept with the version; may be given several times")
	cmd.Flags().DurationVar(&flags.killAfter, "kill-after", 10*time.Second, "how long the command may take to end after TERM")
	_ = cmd.MarkFlagRequired("key") //nolint:errcheck // The flag is there.
	return cmd
}

// prepareRun reads what can be wrong before a lease is taken.
func (a *app) prepareRun(flags *runFlags) (publish.Key, error) {
	key, err := a.key(flags.key)
	if err != nil {
		return "", err
	}
	if flags.primary != "" {
		if flags.publishPath, err = a.path(flags.primary); err != nil {
			return "", err
		}
	}
	if flags.publishValues, err = pairs("metadata", flags.metadata); err != nil {
		return "", err
	}
	if flags.expected, err = a.expect(flags.expect); err != nil {
		return "", err
	}
	if flags.reuseFrom, err = flags.reuse.reuse(); err != nil {
		return "", err
	}
	if flags.killAfter < 0 {
		return "", usageError{errors.New("--kill-after must not be negative")}
	}
	flags.declared, err = declareOutputs(flags.outs)
	return key, err
}

// childError is a command that failed, or couldn't be run; why is empty when the command has said it itself.
type childError struct {
	code int
	why  string
}

func (e childError) exitCode() int { return e.code }
func (e childError) Error() string { return e.why }

// executable finds a command as a shell does, with a shell's exit codes.
func executable(name string) (string, error) {
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
		return path, nil
	case errors.Is(err, fs.ErrPermission):
		return "", childError{126, fmt.Sprintf("%s: can't be executed: permission denied", name)}
	}
	return "", childError{127, fmt.Sprintf("%s: command not found", name)}
}

// wrap takes the lease, runs the command and publishes.
func (a *app) wrap(ctx context.Context, c *client.Client, req publish.AcquireRequest, flags runFlags, program string, args []string) error {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer signal.Stop(signals)

	acquiring, done := untilSignal(ctx, signals)
	lease, err := c.Acquire(acquiring, req)
	done()
	if err != nil {
		return err
	}
	keeper := c.KeepLease(context.WithoutCancel(ctx), lease)
	defer a.giveBack(ctx, c, keeper)
	if acquiring.Err() != nil && context.Cause(acquiring) != errDone { //nolint:errorlint // It is compared as it was set.
		return context.Cause(acquiring)
	}
	scratch, err := makeScratch()
	if err != nil {
		return err
	}
	defer scratch.remove()

	w := worker{app: a, client: c, keeper: keeper, lease: lease, signals: signals, killAfter: flags.killAfter}
	cmd := &exec.Cmd{Path: program, Args: args, Env: w.environment(scratch.path)}
	if err := w.run(ctx, cmd); err != nil {
		return err
	}
	publishing, done := untilSignal(ctx, signals)
	defer done()
	if keeper.Context().Err() == nil { // or it was said while the command ran
		defer a.noticeExpiry(keeper)()
	}
	return w.publish(publishing, scratch.path, flags)
}

var errDone = errors.New("done")

// untilSignal makes a context that ends with the next signal, until done is called. A signal after that stays in the channel.
func untilSignal(ctx context.Context, signals chan os.Signal) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case sig := <-signals:
				if sig == syscall.SIGTSTP || sig == syscall.SIGCONT {
					continue // Job control doesn't tell anybody to end: a stalled worker that resumes goes on.
				}
				if ctx.Err() != nil {
					select {
					case signals <- sig:
					default: // there are eight newer ones
					}
					return
				}
				cancel(interruptedError{sig.(syscall.Signal)}) //nolint:errcheck,forcetypeassert // All signals of this system are of that type.
			case <-ctx.Done():
			}
			return
		}
	}()
	return ctx, func() {
		cancel(errDone)
		<-ended
	}
}

// worker is one command under one lease.
type worker struct {
	app       *app
	client    *client.Client
	keeper    *client.Keeper
	lease     client.Lease
	signals   chan os.Signal
	killAfter time.Duration
}

// environment is what the command finds. The lease_id stands here and never on a command line, which others can read.
func (w worker) environment(scratch string) []string {
	var env []string
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); name != "PAWL_LEASE_ID" && name != "PAWL_TOKEN" {
			env = append(env, entry)
		}
	}
	return append(env,
		"PAWL_URL="+w.client.URL(),
		"PAWL_KEY="+string(w.lease.Key),
		fmt.Sprintf("PAWL_TOKEN=%d", w.lease.Token),
		"PAWL_LEASE_ID="+w.lease.LeaseID.Hex(),
		"PAWL_LEASE_EXPIRES="+stamp(w.lease.ExpiresAt),
		"PAWL_OUT="+scratch,
		"PAWL_FILES_URL="+w.client.FilesURL(w.lease.Key, w.lease.Token),
	)
}

// publish uploads what the command left behind, and publishes it. The publish is sent whatever the own clock says of
// the lease: the fence decides, not the clock.
func (w worker) publish(ctx context.Context, scratch string, flags runFlags) error {
	outputs, err := collectOutputs(scratch, flags.declared)
	if err != nil {
		return err
	}
	defer outputs.close()
	if outputs.files, err = w.app.nameOutputs(outputs.files); err != nil {
		return err
	}
	err = w.upload(ctx, outputs.files)
	if errors.Is(err, publish.ErrGenerationSealed) {
		// The command may have done it all by itself. Then the publish below is a replay, if it asks for the same.
		same, lookErr := w.publishedAlready(ctx, outputs.files)
		if lookErr != nil {
			return errors.Join(err, lookErr)
		}
		if same {
			err = nil
		}
	}
	if err != nil {
		if w.isLost() && exitCode(err) != exitFenced {
			return w.fenced(ctx)
		}
		return err
	}
	receipt, err := w.publishSettled(ctx, publish.PublishRequest{
		Grant: w.lease.Grant(), Final: true, Primary: flags.publishPath,
		Metadata: flags.publishValues, Expect: flags.expected, AllowEmpty: flags.expect.allowEmpty, Release: true,
		ReuseFrom: flags.reuseFrom, ReuseStale: flags.reuse.stale,
	}, len(outputs.files) == 0)
	var refusal *publish.Error
	if errors.As(err, &refusal) && refusal.Code == publish.ErrGenerationIncomplete && len(outputs.files) == 0 &&
		len(refusal.Missing)+len(refusal.Empty)+len(refusal.Failed)+len(refusal.Pending) == 0 {
		return missingError{errors.New("the command succeeded, but wrote no file to PAWL_OUT, and uploaded none itself; nothing is published. " +
			"Let it write there, or name its outputs with --out")}
	}
	if err != nil {
		return err
	}
	w.keeper.Stop()
	if w.app.json {
		return w.app.printReceipt(receipt, "")
	}
	to := *w.app
	to.stdout = &checkedWriter{to: prefixed{w.app.stderr}}
	return to.printReceipt(receipt, "")
}

// prefixed marks a line as this program's among those of the command.
type prefixed struct{ to io.Writer }

// Write never fails: as with a notice, what can't be shown changes nothing.
func (p prefixed) Write(line []byte) (int, error) {
	fmt.Fprintf(p.to, "pawl: %s", line) //nolint:errcheck // See above.
	return len(line), nil
}

func (w worker) isLost() bool {
	select {
	case <-w.keeper.Lost():
		return true
	default:
		return false
	}
}

// fenced makes the error of a lost lease. It asks the fence by a publish that can't succeed, so that the history has the
// record of who came back late and the message has both tokens: stale-token comes before the precondition in the
// order of checks, and no version is ever the greatest token's.
func (w worker) fenced(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	never := publish.Version{Token: publish.MaxToken, Revision: 1}
	_, err := w.client.Publish(ctx, publish.PublishRequest{Grant: w.lease.Grant(), Final: true, IfMatch: &never})
	if errors.Is(err, publish.ErrStaleToken) {
		return err
	}
	lost := w.keeper.Err()
	var refusal *publish.Error
	if errors.As(lost, &refusal) && refusal.Token == 0 {
		named := *refusal
		named.Token = w.lease.Token
		lost = &named
	}
	return fencedError{errors.New(message(lost))}
}
