// Package publish is the domain of Pawl: publishing the outputs of workers so that the current version of a
// key only ever moves forward, however late a stalled worker comes back.
//
// The files read as the way of one output:
//
//	key.go      names: keys, paths, tokens, lease ids
//	acquire.go  a grant: a lease with a fencing token
//	upload.go   immutable objects, written under the token
//	publish.go  the fenced flip of the pointer
//	effect.go   what is done to third parties that can't fence
//	read.go     the current pointer, permanent bytes
//	browse.go   lists and history
//	errors.go   every refusal, with its facts
//	blob.go     the contract of the store of bytes
//	service.go  the Service that ties the contracts together
//
// The package imports the standard library alone. Postgres and the stores of bytes are adapters that implement
// PointerStore and BlobStore; HTTP is an adapter that calls the Service.
package publish
