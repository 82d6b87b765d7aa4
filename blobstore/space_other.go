//go:build !linux && !darwin

package blobstore

import "errors"

func freeSpace(string) (int64, error) { return 0, errors.ErrUnsupported }
