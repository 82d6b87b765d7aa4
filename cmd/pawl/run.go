package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
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
	hold          holdFlags
	codes         codeFlags
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
			"names (default: all of PAWL_OUT) is uploaded and published. What it has left running is ended first; on Linux, when that still writes\n" +
			"an output, nothing is published and the exit code is 66: let the command wait for it. When the lease is lost, the command and all that it started are\n" +
			"ended: TERM, then KILL; see --on-lost. The exit code is the command's own when it failed.\n\n" +
			"Once lost, nothing is published. A lease that only ran out, because the server is away or the command shows no progress, can\n" +
			"be renewed as long as nobody took over: then run goes on and publishes.\n\n" +
			"The command is started without a shell. In the foreground of a terminal it stays there: it reads what is typed, Ctrl-C ends it and the\n" +
			"run, Ctrl-C again kills it at once, and Ctrl-Z and fg stop and resume both. Elsewhere it is in a process group of its own, and its\n" +
			"standard input is this one's, or empty when that is a terminal. INT, TERM, HUP, QUIT, USR1, USR2, WINCH, TSTP and CONT are passed on\n" +
			"to all that it started. The first four end the run, with KILL after --kill-after or at the second signal; then nothing is published,\n" +
			"even if the command exits 0. On Linux nothing that it started outlives this process, not even when that is killed by KILL; unless the\n" +
			"process run-guard, which sees to it, is killed in the same moment.\n\n" +
			"With --json the command's standard output goes to stderr, and stdout has one object that says how run ended. In GitHub Actions the\n" +
			"outputs pawl-outcome, pawl-exit-code, pawl-key, pawl-token, pawl-revision, pawl-manifest-digest and pawl-url of the step are set.",
		Example: "  pawl run --key thumbs/image-52 -- sh -c 'vipsthumbnail photo.jpg -o \"$PAWL_OUT/thumb.webp\"'",
		Args:    cobra.MinimumNArgs(1),
		RunE: a.verb(func(ctx context.Context, args []string) error {
			if err := flags.codes.check(); err != nil {
				return err // before the result, which one of the codes may be in
			}
			var result runResult
			err := a.runUnderLease(ctx, &flags, args, &result)
			return a.conclude(result, flags.codes, err)
		}),
	}
	flags.lease.register(cmd.Flags())
	flags.hold.register(cmd.Flags())
	flags.codes.register(cmd.Flags())
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

// runUnderLease is run from its flags to its result, of which it fills in as much as there is.
func (a *app) runUnderLease(ctx context.Context, flags *runFlags, args []string, result *runResult) error {
	key, err := a.prepareRun(flags)
	if err != nil {
		return err
	}
	result.Key = key
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
	return a.wrap(ctx, c, req, *flags, program, args, result)
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
	if err := flags.hold.check(a); err != nil {
		return "", err
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
func (a *app) wrap(ctx context.Context, c *client.Client, req publish.AcquireRequest, flags runFlags, program string, args []string, result *runResult) error {
	signals, release := catchSignals()
	defer release()

	scratch, err := makeScratch() // Before the lease: nobody waits for a key that then can't be worked on.
	if err != nil {
		return err
	}
	defer scratch.remove()
	acquiring, done := signals.untilEnding(ctx)
	lease, err := c.Acquire(acquiring, req)
	done()
	if err != nil {
		return orSignal(acquiring, err)
	}
	result.Token = lease.Token
	a.noticeTokens(lease)
	keeper := c.KeepLease(context.WithoutCancel(ctx), lease)
	defer a.giveBack(ctx, c, keeper)
	if acquiring.Err() != nil && context.Cause(acquiring) != errDone { //nolint:errorlint // It is compared as it was set.
		return context.Cause(acquiring)
	}

	w := worker{
		app: a, client: c, keeper: keeper, lease: lease, signals: signals, killAfter: flags.killAfter,
		flags: flags.hold, hold: newHolding(), outputs: outputPlaces(scratch.path, flags.declared), progress: progressPath(scratch.path, flags.hold.progressFile),
	}
	if flags.hold.leaseFile != "" {
		if w.leaseFile, err = writeLease(flags.hold.leaseFile, lease); err != nil {
			return err
		}
	}
	defer w.whileHeld(ctx)()
	cmd := &exec.Cmd{Path: program, Args: args, Env: w.environment(scratch.path)}
	ended := w.whileRunning(ctx)
	err = w.run(ctx, cmd)
	ended()
	if err != nil {
		return err
	}
	publishing, done := signals.untilEnding(ctx)
	defer done()
	if keeper.Context().Err() == nil { // or it was said while the command ran
		defer a.noticeExpiry(keeper)()
	}
	receipt, err := w.publish(publishing, scratch.path, flags)
	if err != nil {
		return err
	}
	result.Receipt = &receipt
	if receipt.Primary != "" {
		result.url = c.FileURL(receipt.Key, receipt.Token, receipt.Primary)
	}
	return nil
}

var errDone = errors.New("done")

// worker is one command under one lease.
type worker struct {
	app       *app
	client    *client.Client
	keeper    *client.Keeper
	lease     client.Lease
	signals   signals
	killAfter time.Duration
	flags     holdFlags
	hold      *holding
	progress  string        // the progress file, "" for none
	outputs   []string      // where the outputs lie
	leaseFile *writtenLease // nil for none
}

// ownVariables are those that belong to one run alone: in a run inside another one the outer one's would mislead.
var ownVariables = []string{"PAWL_LEASE_ID", "PAWL_TOKEN", "PAWL_LEASE_FILE", "PAWL_PROGRESS_FILE"}

// environment is what the command finds. The lease_id stands here and never on a command line, which others can read.
func (w worker) environment(scratch string) []string {
	var env []string
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); !slices.Contains(ownVariables, name) {
			env = append(env, entry)
		}
	}
	if w.leaseFile != nil {
		env = append(env, "PAWL_LEASE_FILE="+w.leaseFile.path)
	}
	if w.progress != "" {
		env = append(env, "PAWL_PROGRESS_FILE="+w.progress)
	}
	return append(env,
		"PAWL_URL="+w.client.URL(),
		"PAWL_KEY="+string(w.lease.Key),
		fmt.Sprintf("PAWL_TOKEN=%d", w.lease.Token),
		"PAWL_LEASE_ID="+w.lease.LeaseID.Hex(),
		"PAWL_LEASE_EXPIRES="+stamp(w.lease.ExpiresAt),
		"PAWL_OUT="+scratch,
		"PAWL_FILES_URL="+w.client.FilesURL(w.lease.Key, w.lease.Token),
		"PAWL_EFFECT_PREFIX="+w.lease.EffectPrefix,
	)
}

// publish uploads what the command left behind, and publishes it. The publish is sent whatever the own clock says of
// the lease: the fence decides, not the clock.
func (w worker) publish(ctx context.Context, scratch string, flags runFlags) (publish.Receipt, error) {
	if err := w.stillHeld(ctx); err != nil {
		return publish.Receipt{}, err
	}
	outputs, err := collectOutputs(scratch, flags.declared)
	if err != nil {
		return publish.Receipt{}, err
	}
	defer outputs.close()
	if outputs.files, err = w.app.nameOutputs(outputs.files); err != nil {
		return publish.Receipt{}, err
	}
	uploading, done := w.untilOver(ctx)
	defer done()
	err = w.upload(uploading, outputs.files)
	if errors.Is(err, publish.ErrGenerationSealed) {
		// The command may have done it all by itself. Then the publish below is a replay, if it asks for the same.
		same, lookErr := w.publishedAlready(uploading, outputs.files)
		switch {
		case uploading.Err() != nil:
			err = context.Cause(uploading)
		case lookErr != nil:
			return publish.Receipt{}, errors.Join(err, lookErr)
		case same:
			err = nil
		}
	}
	if err != nil {
		if w.isLost() && (exitCode(err) != exitFenced || errors.Is(err, w.keeper.Err())) { // else it is the fence's own word
			return publish.Receipt{}, w.fenced(ctx)
		}
		return publish.Receipt{}, err
	}
	if err := w.stillHeld(ctx); err != nil {
		return publish.Receipt{}, err
	}
	receipt, err := w.publishSettled(ctx, publish.PublishRequest{
		Grant: w.lease.Grant(), Final: true, Primary: flags.publishPath,
		Metadata: flags.publishValues, Expect: flags.expected, AllowEmpty: flags.expect.allowEmpty, Release: true,
		ReuseFrom: flags.reuseFrom, ReuseStale: flags.reuse.stale,
	}, len(outputs.files) == 0)
	var refusal *publish.Error
	if errors.As(err, &refusal) && refusal.Code == publish.ErrGenerationIncomplete && len(outputs.files) == 0 &&
		len(refusal.Missing)+len(refusal.Empty)+len(refusal.Failed)+len(refusal.Pending) == 0 {
		return publish.Receipt{}, missingError{errors.New("the command succeeded, but wrote no file to PAWL_OUT, and uploaded none itself; nothing is published. " +
			"Let it write there, or name its outputs with --out")}
	}
	if err == nil {
		w.keeper.Stop()
	}
	return receipt, err
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
func (w worker) fenced(ctx context.Context) error { return w.fencedBy(ctx, w.keeper.Err()) }

// fencedBy is fenced with the refusal by which the loss is known.
func (w worker) fencedBy(ctx context.Context, lost error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	never := publish.Version{Token: publish.MaxToken, Revision: 1}
	_, err := w.client.Publish(ctx, publish.PublishRequest{Grant: w.lease.Grant(), Final: true, IfMatch: &never})
	if errors.Is(err, publish.ErrStaleToken) {
		return err
	}
	var refusal *publish.Error
	if errors.As(lost, &refusal) && (refusal.Code == publish.ErrLeaseLost || refusal.Code == publish.ErrGenerationCollected) {
		named := *refusal
		if named.Token == 0 {
			named.Token = w.lease.Token
		}
		return &named
	}
	return fencedError{errors.New(message(lost))}
}
