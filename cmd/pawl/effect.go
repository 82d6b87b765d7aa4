package main

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/publish"
)

func (a *app) effectCommand() *cobra.Command {
	var grant grantFlags
	var done bool
	var result string
	cmd := &cobra.Command{
		Use:   "effect KEY NAME",
		Short: "Print the idempotency key of an effect, for a third party that can't fence; or note that it is done",
		Long: "Print the idempotency key of an effect: what to send a third party with the request that must not count twice. It is the same\n" +
			"for every grant of the key, for ever, so a stalled worker and its successor send the same. NAME says what the effect is by the\n" +
			"business, such as charge-invoice-52, never which attempt: 1 to 128 of A-Z a-z 0-9 . _ ~ : @ + = , -\n\n" +
			"A grant that was fenced is refused (80). With --done note afterwards what came of it. If somebody has noted that before, stderr\n" +
			"says so, and there is nothing left to send; with --json see state and result.",
		Example: "  id=$(pawl effect \"$PAWL_KEY\" charge-invoice-52) && curl -H \"Idempotency-Key: $id\" …\n" +
			"  pawl effect \"$PAWL_KEY\" charge-invoice-52 --done --result ch_1042",
		Args: cobra.ExactArgs(2),
		RunE: a.verb(func(ctx context.Context, args []string) error {
			key, err := a.key(args[0])
			if err != nil {
				return err
			}
			name, err := publish.ParseEffectName(args[1])
			if err != nil {
				return usageError{err}
			}
			if result != "" && !done {
				return usageError{errors.New("--result: goes with --done alone; add that, or leave the result out")}
			}
			g, err := a.needGrant(key, grant)
			if err != nil {
				return err
			}
			c, err := a.newClient(quickRetry)
			if err != nil {
				return err
			}
			defer c.Close()
			return a.effect(ctx, c, g, name, done, result)
		}),
	}
	grant.register(cmd.Flags(), true)
	cmd.Flags().BoolVar(&done, "done", false, "note that the third party has carried it out")
	cmd.Flags().StringVar(&result, "result", "", "with --done: what the third party answered, e.g. its id of it; at most 1024 bytes")
	return cmd
}

func (a *app) effect(ctx context.Context, c *client.Client, grant publish.Grant, name publish.EffectName, done bool, result string) error {
	var effect publish.Effect
	var err error
	if done {
		effect, err = c.EffectDone(ctx, grant, name, result)
	} else {
		effect, err = c.Effect(ctx, grant, name)
	}
	if err != nil {
		return err
	}
	if effect.SupersededBy != 0 {
		a.notice("token %d was granted meanwhile; its holder may do the same, under the same idempotency key", effect.SupersededBy)
	}
	if effect.State == publish.EffectDone && (!done || effect.DoneToken != grant.Token || effect.Result != result) {
		a.notice("%s was done before, under token %d; result %q", effect.Name, effect.DoneToken, effect.Result)
	}
	if a.json {
		return a.printJSON(effect)
	}
	a.printf("%s\n", effect.IdempotencyKey)
	return a.unwritten()
}

func (a *app) effectsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "effects KEY",
		Short: "List a key's effects on third parties: which are pending, which are done, and which tokens asked",
		Long:  "List the effects of a key by name. --json prints one object a line (JSON Lines), with the newest 20 tokens that asked.",
		Args:  cobra.ExactArgs(1),
		RunE: a.verb(func(ctx context.Context, args []string) error {
			return a.onKey(args[0], func(c *client.Client, key publish.Key) error { return a.listEffects(ctx, c, key) })
		}),
	}
}

func (a *app) listEffects(ctx context.Context, c *client.Client, key publish.Key) error {
	if a.json {
		for effect, err := range c.AllEffects(ctx, key) {
			if err != nil {
				return err
			}
			if err := a.printJSON(effect); err != nil {
				return err
			}
		}
		return nil
	}
	var failed error
	a.table(func(w io.Writer) {
		row(w, "NAME\tSTATE\tTOKEN\tSINCE\tWHO\tRESULT")
		for effect, err := range c.AllEffects(ctx, key) {
			if err != nil {
				failed = err
				return
			}
			printEffect(w, effect)
		}
	})
	return failed
}

// printEffect shows the token that said done, or the newest one that asked, with its holder while that is kept. What is pending has been
// so since the first one asked: a third party may have known the idempotency key for as long.
func printEffect(w io.Writer, effect publish.Effect) {
	token, since, who := effect.Token, &effect.FirstAt, "-"
	if effect.State == publish.EffectDone {
		token, since = effect.DoneToken, effect.DoneAt
	}
	for _, asked := range effect.Tokens {
		if asked.Token == token {
			who = asked.Holder
		}
	}
	row(w, "%s\t%s\t%d\t%s\t%s\t%q", effect.Name, effect.State, token, stamp(since), who, effect.Result)
}
