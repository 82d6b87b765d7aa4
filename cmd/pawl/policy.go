package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/publish"
)

func (a *app) policyCommand() *cobra.Command {
	return a.parent(&cobra.Command{
		Use:   "policy",
		Short: "Show and set what holds for keys by their prefix: fence mode, retention, limits",
		Long: "Show and set what holds for keys by their prefix: fence mode, retention, limits. A policy is for the key that is its prefix and all\n" +
			"below it. Of several the longest prefix says what holds, as a whole, but for the limits (--max-…): of these the least holds.",
	}, "list, set and unset", a.policyListCommand(), a.policySetCommand(), a.policyUnsetCommand())
}

func (a *app) policyListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List all policies",
		Args:  cobra.NoArgs,
		RunE: a.verb(func(ctx context.Context, _ []string) error {
			c, err := a.newClient(quickRetry)
			if err != nil {
				return err
			}
			defer c.Close()
			all := publish.PolicyPage{Policies: []publish.Policy{}}
			for after := (*string)(nil); ; {
				page, err := c.Policies(ctx, after, 0)
				if err != nil {
					return err
				}
				all.Policies = append(all.Policies, page.Policies...)
				if after = page.Next; after == nil {
					break
				}
			}
			if a.json {
				return a.printJSON(all)
			}
			a.table(func(w io.Writer) {
				row(w, "PREFIX\tFENCE MODE\tOTHERS")
				for _, p := range all.Policies {
					row(w, "%q\t%s\t%s", p.Prefix, p.FenceMode, describePolicy(p))
				}
			})
			return nil
		}),
	}
}

// describePolicy tells what a policy sets beside the fence mode.
func describePolicy(p publish.Policy) string {
	var parts []string
	count := func(n int64, format string) {
		if n != 0 {
			parts = append(parts, fmt.Sprintf(format, n))
		}
	}
	span := func(d publish.Duration, format string) {
		if d.Duration != 0 {
			parts = append(parts, fmt.Sprintf(format, d))
		}
	}
	count(p.KeepGenerations, "keep %d generations")
	span(p.KeepFor, "keep for %s")
	span(p.KeepUnpublishedFor, "keep unpublished for %s")
	span(p.MaxTTL, "TTL up to %s")
	count(p.MaxFileBytes, "files up to %d bytes")
	count(p.MaxGenerationBytes, "generations up to %d bytes")
	if parts == nil {
		return "-"
	}
	return strings.Join(parts, ", ")
}

func (a *app) policySetCommand() *cobra.Command {
	var flags operatorFlags
	var policy publish.Policy
	cmd := &cobra.Command{
		Use:   "set PREFIX",
		Short: "Replace the policy of a prefix; '' is that of all keys",
		Long: "Replace the policy of a prefix; '' is that of all keys. What isn't named here has no limit, also if it had one before.\n\n" +
			"The --keep flags are what collection goes by; see: pawl collect --help.",
		Example: "  pawl policy set ledgers --fence-mode granted --max-ttl 10m",
		Args:    cobra.ExactArgs(1),
		RunE: a.verb(func(ctx context.Context, args []string) error {
			policy.Prefix = args[0]
			for _, name := range []string{"keep-generations", "keep-for", "keep-unpublished-for", "max-ttl", "max-file-bytes", "max-generation-bytes"} {
				if text := a.flags.Lookup(name).Value.String(); a.flags.Changed(name) && (text == "0" || text == "0s" || text[0] == '-') {
					return usageError{fmt.Errorf("--%s %s: must be above 0; leave it out for no limit", name, text)}
				}
			}
			c, err := a.newClient(quickRetry)
			if err != nil {
				return err
			}
			defer c.Close()
			if err := c.SetPolicy(ctx, policy, flags.operator(a)); err != nil {
				return err
			}
			if a.json {
				return a.printJSON(policy)
			}
			a.printf("policy of %q: fence mode %s, %s\n", policy.Prefix, policy.FenceMode, describePolicy(policy))
			return a.unwritten()
		}),
	}
	f := cmd.Flags()
	f.StringVar((*string)(&policy.FenceMode), "fence-mode", string(publish.FenceAccepted), "accepted: a newer publish fences; granted: a newer grant does")
	f.Int64Var(&policy.KeepGenerations, "keep-generations", 0, "how many published generations to keep beside the current one")
	f.DurationVar(&policy.KeepFor.Duration, "keep-for", 0, "how long to keep a published generation after it was superseded")
	f.DurationVar(&policy.KeepUnpublishedFor.Duration, "keep-unpublished-for", 0, "how long to keep a generation that never was published")
	f.DurationVar(&policy.MaxTTL.Duration, "max-ttl", 0, "the longest lease that may be asked for")
	f.Int64Var(&policy.MaxFileBytes, "max-file-bytes", 0, "the largest file")
	f.Int64Var(&policy.MaxGenerationBytes, "max-generation-bytes", 0, "how much one generation may upload, at its publish")
	flags.register(cmd, "")
	outliveReader(cmd)
	return cmd
}

func (a *app) policyUnsetCommand() *cobra.Command {
	var flags operatorFlags
	cmd := &cobra.Command{
		Use:   "unset PREFIX",
		Short: "Remove the policy of a prefix",
		Args:  cobra.ExactArgs(1),
		RunE: a.verb(func(ctx context.Context, args []string) error {
			c, err := a.newClient(quickRetry)
			if err != nil {
				return err
			}
			defer c.Close()
			if err := c.UnsetPolicy(ctx, args[0], flags.operator(a)); err != nil {
				return err
			}
			if a.json {
				return a.printJSON(map[string]any{"prefix": args[0], "set": false})
			}
			a.printf("no policy of %q\n", args[0])
			return a.unwritten()
		}),
	}
	flags.register(cmd, "")
	outliveReader(cmd)
	return cmd
}
