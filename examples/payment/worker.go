package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/publish"
)

// worker bills invoices.
type worker struct {
	pawl     *client.Client
	holder   string
	provider string // its address
	stall    func() // what happens to it between asking and charging
}

// theCharge is the effect of billing an invoice. The key names the invoice, so this needn't.
const theCharge publish.EffectName = "charge"

// bill takes the lease of an invoice, charges its customer, publishes the provider's receipt, and notes that the charge is made.
func (w worker) bill(ctx context.Context, invoice publish.Key, cents int) error {
	lease, err := w.pawl.Acquire(ctx, publish.AcquireRequest{Key: invoice, Holder: w.holder, TTL: time.Second, Wait: 30 * time.Second})
	if err != nil {
		return err
	}
	effect, err := lease.Effect(ctx, theCharge)
	if err != nil {
		return err // Fenced, for instance: then nothing must be sent.
	}
	fmt.Printf("%s has token %d, and asked for the idempotency key\n", w.holder, lease.Token)
	w.stall()

	made := charge{ID: effect.Result, Cents: cents}
	if effect.State != publish.EffectDone {
		// Nobody knows whether a predecessor got this far. With the same key it doesn't matter.
		if made, err = w.charge(ctx, effect.IdempotencyKey, cents); err != nil {
			return err
		}
	}
	receipt, err := json.Marshal(made)
	if err != nil {
		return err
	}
	if _, err := lease.Upload(ctx, "receipt.json", bytes.NewReader(receipt)); err != nil {
		return err
	}
	published, err := lease.Publish(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("%s has published the receipt as version %s\n", w.holder, published.Version())
	if _, err := lease.EffectDone(ctx, theCharge, made.ID); err != nil {
		return err
	}
	return w.pawl.Release(ctx, lease.Key, lease.LeaseID)
}

// charge sends the order to the provider, which can't fence.
func (w worker) charge(ctx context.Context, idempotencyKey string, cents int) (made charge, err error) {
	order := fmt.Appendf(nil, `{"cents": %d}`, cents)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.provider, bytes.NewReader(order))
	if err != nil {
		return made, err
	}
	req.Header.Set("Idempotency-Key", idempotencyKey)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return made, err
	}
	defer resp.Body.Close() //nolint:errcheck // It is only read.
	if resp.StatusCode != http.StatusOK {
		return made, fmt.Errorf("the provider says %s", resp.Status)
	}
	if err := json.NewDecoder(resp.Body).Decode(&made); err != nil {
		return made, fmt.Errorf("reading the provider's answer: %w", err)
	}
	how := "the provider made"
	if resp.Header.Get("Idempotent-Replayed") == "true" {
		how = "the provider had made before"
	}
	fmt.Printf("%s sent the order: %s %s\n", w.holder, how, made.ID)
	return made, nil
}
