// Command payment shows how to pay once with a payment provider that can't fence: two workers bill one invoice, the first one stalls
// between asking for its idempotency key and charging, and comes back after the second one has done it all.
//
//	go run ./examples/payment [INVOICE]
//
// It needs a running Pawl, at PAWL_URL or http://127.0.0.1:8484.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/publish"
)

// exitFenced is the exit code of a worker whose output is out of date, as with pawl itself.
const exitFenced = 80

// cents is what an invoice comes to.
const cents = 4200

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ctx, cancel = signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM) // The workers are ended with it.
	defer cancel()
	c, err := client.New(cmp.Or(os.Getenv("PAWL_URL"), "http://127.0.0.1:8484"), client.Options{})
	if err == nil {
		if holder := os.Getenv("PAYMENT_HOLDER"); holder != "" {
			err = work(ctx, c, holder)
		} else {
			err = tell(ctx, c, publish.Key("invoices/"+cmp.Or(argument(), "52")))
		}
	}
	if errors.Is(err, publish.ErrStaleToken) {
		fmt.Println(err)
		os.Exit(exitFenced)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func argument() string {
	if len(os.Args) > 1 {
		return os.Args[1]
	}
	return ""
}

// work is one worker, in a process of its own.
func work(ctx context.Context, c *client.Client, holder string) error {
	w := worker{pawl: c, holder: holder, provider: os.Getenv("PAYMENT_PROVIDER"), stall: func() {}}
	if os.Getenv("PAYMENT_STALL") != "" {
		w.stall = stop
	}
	return w.bill(ctx, publish.Key(os.Getenv("PAYMENT_INVOICE")), cents)
}

// stop stops this whole process until somebody lets it go on. The thread that asks for it may run a moment longer, so it waits for that.
func stop() {
	goOn := make(chan os.Signal, 1)
	signal.Notify(goOn, syscall.SIGCONT)
	defer signal.Stop(goOn)
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) //nolint:errcheck // Who waits for it to stop would notice.
	<-goOn
}

// tell starts the provider and the workers, and lets things happen in their order.
func tell(ctx context.Context, c *client.Client, invoice publish.Key) error {
	for effect, err := range c.AllEffects(ctx, invoice) {
		if err != nil && !errors.Is(err, publish.ErrNotFound) {
			return err
		}
		if effect.State == publish.EffectDone {
			return fmt.Errorf("%s was billed before, as %s; name another invoice: go run ./examples/payment 53", invoice, effect.Result)
		}
	}
	shop := &provider{charges: map[string]charge{}}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: shop, ReadHeaderTimeout: 10 * time.Second}
	go server.Serve(listener) //nolint:errcheck // It ends with Close.
	defer server.Close()      //nolint:errcheck // The story is told.

	start := func(holder string, env ...string) (*exec.Cmd, error) {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		cmd := exec.CommandContext(ctx, self)
		cmd.Env = append(os.Environ(), append(env, "PAYMENT_HOLDER="+holder, "PAYMENT_INVOICE="+string(invoice),
			"PAYMENT_PROVIDER=http://"+listener.Addr().String())...)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		return cmd, cmd.Start()
	}
	a, err := start("worker-a", "PAYMENT_STALL=yes")
	if err != nil {
		return err
	}
	defer a.Process.Kill() //nolint:errcheck // Only if the story broke off: it may be stopped still.
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(a.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil {
		return err
	}
	if !status.Stopped() {
		return errors.New("worker-a ended before it could stall")
	}
	fmt.Println("worker-a stalls, and its lease runs out")

	b, err := start("worker-b")
	if err != nil {
		return err
	}
	if err := b.Wait(); err != nil {
		return fmt.Errorf("worker-b: %w", err)
	}
	fmt.Println("worker-a goes on")
	if err := a.Process.Signal(syscall.SIGCONT); err != nil {
		return err
	}
	_ = a.Wait() //nolint:errcheck // The exit code tells.
	fmt.Printf("worker-a exits with %d\n", a.ProcessState.ExitCode())
	requests, charges := shop.counts()
	fmt.Printf("the provider had %d requests and made %d charge(s)\n", requests, charges)
	if requests != 2 || charges != 1 || a.ProcessState.ExitCode() != exitFenced {
		return errors.New("that isn't how it should end")
	}
	return nil
}
