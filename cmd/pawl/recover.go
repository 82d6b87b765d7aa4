package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/publish"
)

// recoverFlags say what pawl recover does beside listing.
type recoverFlags struct {
	storesFlags
	register, registerAll, bump, yes bool
	out, reason                      string
}

func (a *app) recoverCommand() *cobra.Command {
	var f recoverFlags
	cmd := &cobra.Command{
		Use:   "recover [KEY TOKEN]",
		Short: "After a restore: list what the bucket has and the database lost, and register it again",
		Long: "List the generations of which the blob store has uploads that the database doesn't know, because it was restored from a backup or\n" +
			"lost its last commits in a failover. Settings are those of a server (PAWL_DATABASE_URL, PAWL_BLOBS, PAWL_S3_…). It never grants a\n" +
			"token, never changes a counter or a pointer, and by itself changes nothing.\n\n" +
			"  pawl recover KEY TOKEN --out FOLDER    fetch the files of one of them, to publish them again with pawl put\n" +
			"  pawl recover KEY TOKEN --register      make the database know it, as unpublished; nobody can upload into it or publish it\n" +
			"  pawl recover --register-all            the same with all whose generation the database doesn't know\n" +
			"  pawl recover --bump                    after a volume snapshot was put back, which the database can't notice by itself:\n" +
			"                                         show what the epoch is; with --yes raise it, so that the next token of every key is\n" +
			"                                         above all that were granted before. Stop all servers first",
		Args: cobra.RangeArgs(0, 2),
		RunE: a.verb(func(ctx context.Context, args []string) error {
			prefix, err := a.prefixKey(f.storesFlags)
			if err != nil {
				return err
			}
			var key publish.Key
			var token publish.Token
			if len(args) > 0 {
				if key, token, err = a.keyAndToken(args); err != nil {
					return err
				}
			}
			if err := f.check(key != ""); err != nil {
				return usageError{err}
			}
			return a.withStores(ctx, f.storesFlags, func(ctx context.Context, both *bothStores) error {
				switch {
				case f.bump:
					return a.bump(ctx, both, f)
				case f.out != "":
					return a.fetchLost(ctx, both, key, token, f.out)
				case f.register:
					return a.register(ctx, both, key, token)
				}
				return a.recover(ctx, both, prefix, f.registerAll)
			})
		}),
	}
	f.storesFlags.register(cmd.Flags())
	cmd.Flags().BoolVar(&f.register, "register", false, "make the database know the generation again, as unpublished")
	cmd.Flags().BoolVar(&f.registerAll, "register-all", false, "make the database know all lost generations again, as unpublished")
	cmd.Flags().StringVar(&f.out, "out", "", "fetch the generation's files into this folder, which must not exist")
	cmd.Flags().BoolVar(&f.bump, "bump", false, "show the epoch; with --yes, raise it")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "with --bump: do it")
	cmd.Flags().StringVar(&f.reason, "reason", "raised by hand", "with --bump --yes: why, for the record")
	return cmd
}

func (a *app) keyAndToken(args []string) (publish.Key, publish.Token, error) {
	if len(args) != 2 {
		return "", 0, usageError{errors.New("name a key and a token, or neither")}
	}
	key, err := a.key(args[0])
	if err != nil {
		return "", 0, err
	}
	token, err := publish.ParseToken(args[1])
	if err != nil {
		return "", 0, usageError{err}
	}
	return key, token, nil
}

// check says what doesn't go together.
func (f recoverFlags) check(one bool) error {
	chosen := 0
	for _, set := range []bool{f.register, f.registerAll, f.bump, f.out != ""} {
		if set {
			chosen++
		}
	}
	switch {
	case chosen > 1:
		return errors.New("--register, --register-all, --out and --bump exclude each other; give one")
	case one && !f.register && f.out == "":
		return errors.New("say what to do with the generation: --register or --out FOLDER")
	case !one && (f.register || f.out != ""):
		return errors.New("name the generation: pawl recover KEY TOKEN")
	case f.yes && !f.bump:
		return errors.New("--yes belongs to --bump")
	}
	return nil
}

// recover lists lost generations, and registers those that can be.
func (a *app) recover(ctx context.Context, both *bothStores, prefix publish.Key, register bool) error {
	generations, refused := 0, 0
	err := publish.Lost(ctx, both.pointers, both.blobs, prefix, func(lost publish.LostGeneration) error {
		generations++
		if err := a.printLost(lost); err != nil || !register || lost.Known != "" || lost.Objects == 0 {
			return err
		}
		err := a.register(ctx, both, lost.Key, lost.Token)
		if errors.Is(err, publish.ErrUnknownToken) || errors.Is(err, publish.ErrInvalidRequest) {
			refused++
			a.notice("%s, token %d: %s", lost.Key, lost.Token, message(err))
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("looking for lost generations: %w", err)
	}
	if !a.json {
		a.printf("%d lost generation(s)\n", generations)
	}
	if refused > 0 {
		return &publish.Error{Code: publish.ErrPreconditionFailed, Detail: fmt.Sprintf("%d generation(s) couldn't be registered", refused)}
	}
	return a.unwritten()
}

func (a *app) printLost(lost publish.LostGeneration) error {
	if a.json {
		return a.printJSON(lost)
	}
	state := "unknown"
	if lost.Known != "" {
		state = "known as " + string(lost.Known)
	}
	text := fmt.Sprintf("%s\ttoken %d\t%s\t%d object(s)\t%d bytes", lost.Key, lost.Token, state, lost.Objects, lost.Bytes)
	switch {
	case lost.Receipt != nil:
		text += fmt.Sprintf("\tpublished %s by %s", stamp(&lost.Receipt.PublishedAt), lost.Receipt.Publisher)
	case lost.Marked:
		text += "\tpublished"
	case !lost.Last.IsZero():
		text += "\tlast stored " + lost.Last.Format(time.RFC3339)
	}
	a.printf("%s\n", text)
	return a.unwritten()
}

func (a *app) register(ctx context.Context, both *bothStores, key publish.Key, token publish.Token) error {
	done, files, err := publish.Register(ctx, both.pointers, both.blobs, key, token)
	if errors.Is(err, publish.ErrUnknownToken) {
		return fmt.Errorf("%w: this database may still grant token %d itself; if a snapshot of its volume was put back, run: pawl recover --bump", err, token)
	}
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(map[string]any{"key": key, "token": token, "registered": done, "files": files})
	}
	if !done {
		a.printf("%s, token %d: the database knows this generation\n", key, token)
	} else {
		a.printf("%s, token %d: registered with %d file(s), unpublished\n", key, token, files)
	}
	return a.unwritten()
}

// bump shows the epoch, and raises it when that is confirmed.
func (a *app) bump(ctx context.Context, both *bothStores, f recoverFlags) error {
	before, err := both.pointers.CurrentEpoch(ctx)
	if err != nil {
		return err
	}
	after := before
	if f.yes {
		// Above what other histories have witnessed, and so that later ones come above this.
		if _, err := publish.CheckWitnesses(ctx, both.pointers, both.blobs); err != nil {
			return err
		}
		if after, err = both.pointers.BumpEpoch(ctx, f.reason); err != nil {
			return err
		}
		if _, err := publish.CheckWitnesses(ctx, both.pointers, both.blobs); err != nil {
			return fmt.Errorf("the epoch was raised to %d, but no witness of it could be written: %w", after.Epoch, err)
		}
	}
	if a.json {
		return a.printJSON(map[string]any{"before": before, "after": after, "raised": f.yes})
	}
	a.printf("epoch %d since %s: %s\n", before.Epoch, stamp(&before.RaisedAt), before.Reason)
	if f.yes {
		a.printf("raised to epoch %d; the next token of every key is at least %d\n", after.Epoch, after.Epoch*1_000_000_000+1)
	} else {
		a.printf("nothing was changed; with --yes the next token of every key would be above all that any history of this database has granted\n")
	}
	return a.unwritten()
}
