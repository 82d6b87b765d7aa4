//go:build !linux

package blobstore

import "os"

// renameNoReplace renames from to to, unless to exists (fs.ErrExist). Only a hard link does that everywhere.
func renameNoReplace(root *os.Root, from, to string) error { return linkNoReplace(root, from, to) }
