// Package client is for Go programs that publish with Pawl, or read what was published. It needs nothing beside the standard library and
// package publish, whose types and errors are the server's own: errors.Is(err, publish.ErrStaleToken) holds on both sides of the wire.
//
// # Work under a lease
//
// [Client.Run] does a whole job. It acquires the key, keeps the lease alive while work runs, and gives it back:
//
//	err := pawl.Run(ctx, "thumbs/image-52", func(ctx context.Context, lease *client.Lease) error {
//		if _, err := lease.UploadFile(ctx, "thumb.jpg", "/tmp/thumb.jpg"); err != nil {
//			return err
//		}
//		_, err := lease.Publish(ctx)
//		return err
//	})
//
// For third parties that can't fence, such as a payment, [Lease.Effect] gives a key that is the same for every holder.
//
// The steps are there one by one, too: [Client.Acquire], [Client.KeepLease], [Lease.Upload], [Lease.UploadFile], [Lease.Publish], [Client.Release]. The
// Client's own Upload and Publish take a publish.Grant, for programs that were handed theirs.
//
// # What a lease is worth
//
// A lease keeps two workers from doing the same work most of the time, and no more: it can't stop a process that was paused. What is correct
// is decided by the fence, when the server compares the token of a publish with the greatest that it has accepted. So:
//
//   - The context of work ends when the lease is lost or has run out by the own clock. That saves work that would be for nothing.
//   - Running out is not being refused. Who was late, but wasn't overtaken by a publish, still publishes; Publish asks the server in any case.
//   - The time of a lease is counted from the sending of the last good renewal, on a clock that goes on while the machine is suspended.
//
// # Errors
//
// A worker looks for these kinds, by errors.Is; the facts, such as both tokens, are in the *publish.Error that errors.As finds:
//
//	publish.ErrLeaseHeld            another worker has the key; try later, or acquire with Wait
//	publish.ErrStaleToken           overtaken: drop this output, and don't send it again
//	publish.ErrLeaseLost            the same, noticed before the publish
//	publish.ErrGenerationCollected  the retention policy has given up what the worker was making: likewise
//	client.ErrLeaseExpired          the lease ran out, no renewal was answered, and nothing was published
//	publish.ErrGenerationIncomplete files are missing; the error lists them
//	publish.ErrOutcomeUnknown       no answer came: repeating the same call is safe, and tells
//	client.ErrUnreachable           nothing was sent
//
// A kind that only a newer server knows keeps its name: errors.Is(err, publish.Code("of-tomorrow")).
//
// # Repetitions
//
// Every call may be repeated without harm, and the client does so when an answer was lost or the server is away for a moment: an acquire names
// its grant by a lease_id that the client draws, a publish is replayed by the server, and each upload has an object of its own. Pauses are random
// below a bound that doubles, and at least what Retry-After asks for. A publish that was replayed says so in its receipt, and whether
// another version has superseded it since. What was refused as stale is never repeated. Every call ends soon with its context.
//
// # Reading
//
// [Client.Pointer] tells the current version of a key, [Client.WaitPointer] waits for the next one, [Client.Resolve] looks many keys up at one moment.
// [Client.AllFiles] lists a version, and [Client.OpenFile] reads a file of it from its permanent address: over breaks of the connection, with length and
// SHA-256 checked before io.EOF. Names come checked, so that none leads out of a folder; see [ErrHostileName].
//
// # Secrets
//
// The credential and the lease_id go into headers alone, and to the server's own host alone. They show in no error, log line or address.
package client
