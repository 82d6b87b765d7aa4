package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// app is what every verb works with.
type app struct {
	stdin  io.Reader
	stdout *checkedWriter
	stderr io.Writer
	getenv func(string) string

	// started is set once a verb's own code runs: what goes wrong before is a fault of usage.
	started bool
	flags   *pflag.FlagSet // of the verb

	json   bool
	quiet  bool // of the verbs that show progress
	client clientFlags
}

// run carries out one command line and returns the exit code. It prints what went wrong on stderr.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, getenv func(string) string) int {
	a := &app{stdin: stdin, stdout: &checkedWriter{to: stdout}, stderr: stderr, getenv: getenv}
	root := a.rootCommand()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(a.stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err != nil && !a.started {
		err = usageError{err}
	}
	if err == nil {
		err = a.unwritten()
	}
	if err == nil {
		return exitOK
	}
	// A command that pawl run ran has said itself why it failed.
	if child := (childError{}); !errors.As(err, &child) || child.why != "" {
		fmt.Fprintln(stderr, "pawl: "+message(err)) //nolint:errcheck // There is nowhere left to report it.
	}
	return exitCode(err)
}

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "pawl",
		Short: "Publish the outputs of workers; a stalled worker that comes back late can't overwrite newer ones",
		Long: "Pawl publishes the outputs of workers so that the current version of a key only ever moves forward.\n\n" +
			"Settings come from flags, then from PAWL_* variables, then from defaults. Results go to stdout, everything else to\n" +
			"stderr.\n\n" + exitCodesHelp,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cobra.NoArgs(cmd, args); err != nil {
				return fmt.Errorf("%w; see: pawl --help", err)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return fmt.Errorf("name a verb\n\n%s", cmd.UsageString())
		},
	}
	root.PersistentFlags().BoolVar(&a.json, "json", false, "print the result as JSON")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w; see: %s --help", err, cmd.CommandPath())
	})
	server := []*cobra.Command{
		a.devCommand(), a.serveCommand(), a.migrateCommand(), a.collectCommand(), a.verifyCommand(), a.recoverCommand(), a.doctorCommand(),
	}
	worker := []*cobra.Command{a.runCommand(), a.acquireCommand(), a.renewCommand(), a.releaseCommand(), a.putCommand(), a.publishCommand(), a.effectCommand()}
	reader := []*cobra.Command{a.getCommand(), a.lsCommand(), a.resolveCommand(), a.statCommand(), a.historyCommand(), a.effectsCommand(), a.rejectionsCommand(), a.leasesCommand(), a.watchCommand()}
	operator := []*cobra.Command{a.rollbackCommand(), a.pinCommand(), a.unpinCommand(), a.retireCommand(), a.breakLeaseCommand(), a.auditCommand()}
	for _, cmd := range slices.Concat(worker, reader, operator) {
		a.client.register(cmd.Flags())
	}
	for _, cmd := range slices.Concat(worker, operator) {
		outliveReader(cmd)
	}
	a.addGroup(root, "server", "The server", server)
	a.addGroup(root, "worker", "Workers", worker)
	a.addGroup(root, "reader", "Readers", reader)
	a.addGroup(root, "operator", "Operators", append(operator, a.policyCommand(), a.credentialCommand()))
	root.AddCommand(a.versionCommand())
	root.SetHelpCommand(a.helpCommand(root))
	return root
}

func (a *app) addGroup(root *cobra.Command, id, title string, commands []*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: id, Title: title + ":"})
	for _, cmd := range commands {
		cmd.GroupID = id
		root.AddCommand(cmd)
	}
}

// parent makes a verb of several that ask a server; it does nothing by itself. names are theirs, for people.
func (a *app) parent(cmd *cobra.Command, names string, verbs ...*cobra.Command) *cobra.Command {
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(*cobra.Command, []string) error {
		return usageError{fmt.Errorf("%s: name one of %s", cmd.Name(), names)}
	}
	for _, verb := range verbs {
		a.client.register(verb.Flags())
		cmd.AddCommand(verb)
	}
	return cmd
}

// helpCommand replaces cobra's, which prints an error about an unknown topic and exits 0.
func (a *app) helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [verb]",
		Short: "Explain a verb",
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return fmt.Errorf("there is no verb %q", strings.Join(args, " "))
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		},
	}
}

// quietFlag adds --quiet to a verb that shows progress.
func (a *app) quietFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&a.quiet, "quiet", "q", false, "show no progress on stderr, also when that is a terminal")
}

// verb wraps the code of a verb: from here on an error is no longer one of usage, unless it says so.
func (a *app) verb(do func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		a.started, a.flags = true, cmd.Flags()
		return do(cmd.Context(), args)
	}
}

// outliveReader lets a verb see that nobody reads its output any more, instead of being ended by SIGPIPE: it has changed something,
// and what isn't told must be taken back or be told on stderr. Verbs that only read end as others do in a pipe.
func outliveReader(cmd *cobra.Command) {
	do := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		unread := make(chan os.Signal, 1)
		signal.Notify(unread, syscall.SIGPIPE) // A command that is run has the default effect again.
		defer signal.Stop(unread)
		return do(cmd, args)
	}
}

// notice tells people something on stderr that isn't an error.
func (a *app) notice(format string, args ...any) {
	fmt.Fprintf(a.stderr, "pawl: "+format+"\n", args...) //nolint:errcheck // A notice that can't be shown changes nothing.
}

// setting gives a flag's value, or else that of an environment variable.
func (a *app) setting(flag, variable string) string {
	if flag != "" {
		return flag
	}
	return a.getenv(variable)
}

// checkedWriter remembers that a write failed, so that no verb exits 0 when its result didn't get out.
type checkedWriter struct {
	to  io.Writer
	err error
}

func (w *checkedWriter) Write(p []byte) (int, error) {
	n, err := w.to.Write(p)
	if err != nil && w.err == nil {
		w.err = err
	}
	return n, err
}
