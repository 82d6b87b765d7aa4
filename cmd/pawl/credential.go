package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/publish"
)

func (a *app) credentialCommand() *cobra.Command {
	return a.parent(&cobra.Command{
		Use:   "credential",
		Short: "Make, list, rotate and revoke credentials",
		Long: "Make, list, rotate and revoke credentials. With PAWL_DATABASE_URL it is done in the database itself, which is how the first credential is\n" +
			"made; else, or with --url, by a server, which takes the verb admin on all keys that the credential is for.",
	}, "create, ls, rotate and revoke", a.credentialCreateCommand(), a.credentialListCommand(), a.credentialRotateCommand(), a.credentialRevokeCommand())
}

func (a *app) credentialCreateCommand() *cobra.Command {
	var name, expires string
	var scopes []string
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Make a credential and print it, this once",
		Long: "Make a credential and print it, this once; everything else goes to stderr.\n\n" +
			"A scope is a verb, read, publish, operate or admin, each of which includes those before it, and a prefix of keys unless it is for all:\n" +
			"publish:renders/ is for the keys below renders/. Commas split scopes; one with a comma in its prefix stands in quotes: '\"publish:a,b/\"'.",
		Example: "  pawl credential create --name ci --scope publish:renders/ --scope read >ci.credential",
		Args:    cobra.NoArgs,
		RunE: a.verb(func(ctx context.Context, _ []string) error {
			req := publish.CreateCredentialRequest{Name: name}
			if name == "" {
				return usageError{errors.New("--name is missing; it is what the audit and the history call whoever uses the credential")}
			}
			if len(scopes) == 0 {
				return usageError{errors.New("--scope is missing; say what the credential allows, such as publish:renders/")}
			}
			var err error
			if req.Scopes, err = publish.ParseScopes(strings.Join(scopes, ",")); err != nil {
				return usageError{fmt.Errorf("--scope: %w", err)}
			}
			if req.Lifetime, err = a.lifetime(expires); err != nil {
				return err
			}
			return a.withCredentials(ctx, func(keeper credentialKeeper) error {
				made, err := keeper.CreateCredential(ctx, req)
				if err != nil {
					return err
				}
				if err := a.printIssued(made); err != nil {
					return unprinted(ctx, keeper, made, err)
				}
				return nil
			})
		}),
	}
	cmd.Flags().StringVar(&name, "name", "", "what it is called; one name is one credential at a time")
	cmd.Flags().StringArrayVar(&scopes, "scope", nil, "what it allows, such as publish:renders/; may be given several times")
	cmd.Flags().StringVar(&expires, "expires", "", "how long it is good, such as 90d or 12h, or never (default 90d)")
	outliveReader(cmd)
	return cmd
}

func (a *app) credentialRotateCommand() *cobra.Command {
	req := publish.RotateCredentialRequest{}
	var expires string
	cmd := &cobra.Command{
		Use:   "rotate ID|NAME",
		Short: "Make a credential in the place of another, and print it, this once",
		Long: "Make a credential of the same name and scopes as another, and print it, this once. The other one goes on to be good for the overlap,\n" +
			"in which whoever uses it gets the new one.\n\n" + namedHelp,
		Example: "  (umask 077; pawl credential rotate ci >ci.next) && mv ci.next ci.credential",
		Args:    cobra.ExactArgs(1),
		RunE: a.verb(func(ctx context.Context, args []string) error {
			var err error
			if req.Overlap < 0 || req.Overlap > publish.MaxOverlap {
				return usageError{fmt.Errorf("--overlap %s: must be from 0s to %s", req.Overlap, publish.MaxOverlap)}
			}
			if req.Lifetime, err = a.lifetime(expires); err != nil {
				return err
			}
			return a.withCredentials(ctx, func(keeper credentialKeeper) error {
				if req.ID, err = named(ctx, keeper, args[0]); err != nil {
					return err
				}
				made, err := keeper.RotateCredential(ctx, req)
				if err != nil {
					return err
				}
				if err := a.printIssued(made); err != nil {
					return ioError{fmt.Errorf("the credential %s is made all the same, and its text is lost: rotate that one, too: %w", made.ID, err)}
				}
				return nil
			})
		}),
	}
	cmd.Flags().DurationVar(&req.Overlap, "overlap", publish.DefaultOverlap, "how long the other one stays good; 0s ends it now")
	cmd.Flags().StringVar(&expires, "expires", "", "how long the new one is good, such as 90d or 12h, or never (default 90d)")
	outliveReader(cmd)
	return cmd
}

func (a *app) credentialRevokeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "revoke ID|NAME",
		Short: "End a credential for good, at all servers within 5 s",
		Long: "End a credential for good, at all servers within 5 s. One that it was rotated from stays good for the overlap: name that one by its id.\n\n" +
			namedHelp,
		Args: cobra.ExactArgs(1),
		RunE: a.verb(func(ctx context.Context, args []string) error {
			return a.withCredentials(ctx, func(keeper credentialKeeper) error {
				id, err := named(ctx, keeper, args[0])
				if err != nil {
					return err
				}
				revoked, err := keeper.RevokeCredential(ctx, id)
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(revoked)
				}
				a.printf("revoked %s (%q)\n", revoked.ID, revoked.Name)
				return a.unwritten()
			})
		}),
	}
	outliveReader(cmd)
	return cmd
}

func (a *app) credentialListCommand() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the credentials that are good",
		Args:  cobra.NoArgs,
		RunE: a.verb(func(ctx context.Context, _ []string) error {
			return a.withCredentials(ctx, func(keeper credentialKeeper) error {
				listed := publish.CredentialPage{Credentials: []publish.Credential{}}
				for c, err := range everyCredential(ctx, keeper) {
					if err != nil {
						return err
					}
					if all || c.Good() {
						listed.Credentials = append(listed.Credentials, c)
					}
				}
				return a.printCredentials(listed)
			})
		}),
	}
	cmd.Flags().BoolVar(&all, "all", false, "also those that were revoked or have expired")
	return cmd
}

func (a *app) printCredentials(page publish.CredentialPage) error {
	if a.json {
		return a.printJSON(page)
	}
	a.table(func(w io.Writer) {
		row(w, "ID\tNAME\tSCOPES\tSTATE\tREPLACED BY\tEXPIRES\tLAST USED\tMADE BY")
		for _, c := range page.Credentials {
			row(w, "%s\t%q\t%s\t%s\t%s\t%s\t%s\t%s", c.ID, c.Name, c.Scopes, c.State, cmp.Or(c.ReplacedBy, "-"), stamp(c.ExpiresAt), stamp(c.LastUsedAt), c.CreatedBy)
		}
	})
	return nil
}

// printIssued prints the text of a credential alone on stdout, or with all else as JSON.
func (a *app) printIssued(made publish.IssuedCredential) error {
	end := "never ends"
	if made.ExpiresAt != nil {
		end = "ends at " + stamp(made.ExpiresAt)
	}
	a.notice("credential %s (%q) for %s, %s; it can't be shown again", made.ID, made.Name, made.Scopes, end)
	if a.json {
		return a.printJSON(struct {
			publish.Credential
			Secret string `json:"secret"`
		}{made.Credential, made.Secret.Reveal()})
	}
	a.printf("%s\n", made.Secret.Reveal())
	return a.unwritten()
}

// unprinted revokes a credential whose text couldn't be told, so that nobody has it and its name is free.
func unprinted(ctx context.Context, keeper credentialKeeper, made publish.IssuedCredential, err error) error {
	if _, failed := keeper.RevokeCredential(ctx, made.ID); failed != nil {
		return ioError{fmt.Errorf("the credential %s is made all the same, its text is lost, and it could not be revoked (%s); revoke it: %w", made.ID, message(failed), err)}
	}
	return ioError{fmt.Errorf("the credential %s was revoked again, since its text could not be told: %w", made.ID, err)}
}

// lifetime reads --expires.
func (a *app) lifetime(text string) (publish.Lifetime, error) {
	if !a.flagGiven("expires") {
		return 0, nil
	}
	lifetime, err := publish.ParseLifetime("--expires", text)
	if err != nil {
		return 0, usageError{err}
	}
	return lifetime, nil
}
