package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/publish"
)

// A whole job: the key is acquired, its lease kept and given back; in between, one file is uploaded and published.
func ExampleClient_Run() {
	server := newServer() // A whole Pawl in this process; yours is at an address such as http://127.0.0.1:8484.
	defer server.Close()

	ctx := context.Background()
	pawl, err := client.New(server.URL, client.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pawl.Close()

	err = pawl.Run(ctx, "reports/today", func(ctx context.Context, lease *client.Lease) error {
		if _, err := lease.Upload(ctx, "report.txt", strings.NewReader("42 widgets\n")); err != nil {
			return err
		}
		receipt, err := lease.Publish(ctx)
		fmt.Printf("%s is at version %s: %d bytes\n", receipt.Key, receipt.Version(), receipt.Bytes)
		return err
	})
	switch {
	case errors.Is(err, publish.ErrLeaseHeld):
		fmt.Println("another worker is at it")
	case errors.Is(err, publish.ErrStaleToken), errors.Is(err, publish.ErrLeaseLost):
		fmt.Println("overtaken: this output is out of date")
	case err != nil:
		fmt.Println(err)
	}
	// Output: reports/today is at version 1.1: 11 bytes
}

// A worker stalls past its lease, and another one publishes meanwhile. When the first wakes up, its publish is refused: an expected
// outcome, with both tokens.
func ExampleClient_Publish_staleWorker() {
	server := newServer()
	defer server.Close()

	ctx := context.Background()
	pawl, err := client.New(server.URL, client.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pawl.Close()
	render := func(lease client.Lease, pixels string) error {
		if _, err := lease.Upload(ctx, "out.txt", strings.NewReader(pixels)); err != nil {
			return err
		}
		_, err := lease.Publish(ctx)
		return err
	}

	a, err := pawl.Acquire(ctx, publish.AcquireRequest{Key: "thumbs/image-52", Holder: "worker-a", TTL: 100 * time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	// A stalls here. B waits until A's lease has run out.
	b, err := pawl.Acquire(ctx, publish.AcquireRequest{Key: "thumbs/image-52", Holder: "worker-b", TTL: time.Minute, Wait: time.Minute})
	if err == nil {
		err = render(b, "rendered by B")
	}
	fmt.Println("B publishes:", err)

	err = render(a, "rendered by A, late")
	var stale *publish.Error
	if errors.Is(err, publish.ErrStaleToken) && errors.As(err, &stale) {
		fmt.Printf("A is refused: its token is %d, accepted was %d\n", stale.Token, stale.AcceptedToken)
	}
	pointer, err := pawl.Pointer(ctx, "thumbs/image-52")
	fmt.Println("current is", pointer.Version(), err)
	// Output:
	// B publishes: <nil>
	// A is refused: its token is 1, accepted was 2
	// current is 2.1 <nil>
}

// Files go by their name. A large one is sent to the blob store itself where the server offers that.
func ExampleLease_UploadFile() {
	server := newServer()
	defer server.Close()
	folder, err := os.MkdirTemp("", "frames-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder) //nolint:errcheck // An example's own folder.
	name := filepath.Join(folder, "beauty.1001.exr")
	if err := os.WriteFile(name, []byte("pixels"), 0o600); err != nil {
		fmt.Println(err)
		return
	}

	pawl, err := client.New(server.URL, client.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pawl.Close()
	err = pawl.Run(context.Background(), "shots/010", func(ctx context.Context, lease *client.Lease) error {
		file, err := lease.UploadFile(ctx, "beauty.1001.exr", name)
		if err != nil {
			return err
		}
		fmt.Println(file.Path, file.Size, file.SHA256.String()[:8])
		_, err = lease.Publish(ctx, func(req *publish.PublishRequest) {
			req.Expect = []string{"beauty.[1001-1002].exr"}
		})
		return err
	})
	var incomplete *publish.Error
	if errors.Is(err, publish.ErrGenerationIncomplete) && errors.As(err, &incomplete) {
		fmt.Println("not published without", incomplete.Missing)
	}
	// Output:
	// beauty.1001.exr 6 6ec9c2b0
	// not published without [beauty.1002.exr]
}

// Readers resolve a key to its current version, and read that: its files never change, whatever is published meanwhile. The end of the file is
// reached only when length and SHA-256 are the published ones.
func ExampleClient_OpenFile() {
	server := newServer()
	defer server.Close()
	ctx := context.Background()
	pawl, err := client.New(server.URL, client.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pawl.Close()
	err = pawl.Run(ctx, "models/tagger", func(ctx context.Context, lease *client.Lease) error {
		for _, name := range []publish.Path{"labels.txt", "weights.bin"} {
			if _, err := lease.Upload(ctx, name, strings.NewReader("the bytes of "+string(name))); err != nil {
				return err
			}
		}
		_, err := lease.Publish(ctx)
		return err
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	current, err := pawl.Pointer(ctx, "models/tagger")
	if err != nil {
		fmt.Println(err)
		return
	}
	for file, err := range pawl.AllFiles(ctx, current.Key, current.Version()) {
		if err != nil {
			fmt.Println(err)
			return
		}
		download, err := pawl.OpenFile(ctx, current.Key, current.Version(), file, 0, nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		body, err := io.ReadAll(download)
		fmt.Printf("%s: %q %v\n", file.Path, body, err)
		_ = download.Close()
	}
	// Output:
	// labels.txt: "the bytes of labels.txt" <nil>
	// weights.bin: "the bytes of weights.bin" <nil>
}

// A reader waits for the next version, as long as it likes.
func ExampleClient_WaitPointer() {
	server := newServer()
	defer server.Close()
	ctx := context.Background()
	pawl, err := client.New(server.URL, client.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pawl.Close()
	published := make(chan error)
	go func() {
		published <- pawl.Run(ctx, "reports/today", func(ctx context.Context, lease *client.Lease) error {
			if _, err := lease.Upload(ctx, "report.txt", strings.NewReader("42 widgets\n")); err != nil {
				return err
			}
			_, err := lease.Publish(ctx)
			return err
		})
	}()
	pointer, changed, err := pawl.WaitPointer(ctx, "reports/today", nil, time.Minute)
	fmt.Println(pointer.Version(), changed, err)
	if err := <-published; err != nil {
		fmt.Println(err)
	}
	// Output: 1.1 true <nil>
}
