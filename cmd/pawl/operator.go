package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/publish"
)

// operatorFlags say who does something to a key, and why.
type operatorFlags struct {
	by, reason string
}

func (o *operatorFlags) register(cmd *cobra.Command, reason string) {
	cmd.Flags().StringVar(&o.by, "by", "", "who does this, for people; default user@host, or with a credential its name, which is all that it may be")
	if reason != "" {
		cmd.Flags().StringVar(&o.reason, "reason", "", reason)
	}
}

// operator is who does it, "" where the server knows that by the credential.
func (o *operatorFlags) operator(a *app) publish.Operator {
	if o.by != "" {
		return publish.Operator(o.by)
	}
	if credential, file, err := a.credential(); credential != "" || file != "" || err != nil { // An error is newClient's to tell.
		return ""
	}
	return publish.Operator(userAtHost())
}

// why gives the reason, which must be there.
func (o *operatorFlags) why() (string, error) {
	if o.reason == "" {
		return "", usageError{errors.New("--reason: is missing; say why, for those who look at the key later")}
	}
	return o.reason, nil
}

// onKey calls do with a key's name and a client.
func (a *app) onKey(name string, do func(*client.Client, publish.Key) error) error {
	key, err := a.key(name)
	if err != nil {
		return err
	}
	c, err := a.newClient(quickRetry)
	if err != nil {
		return err
	}
	defer c.Close()
	return do(c, key)
}

func breakLeaseFlag(cmd *cobra.Command, breakLease *bool) {
	cmd.Flags().BoolVar(breakLease, "break-lease", false, "do it also while somebody holds the lease: that one's work is stale then")
}
