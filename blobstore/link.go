package blobstore

import "os"

// linkNoReplace gives the file from the name to, unless to exists (fs.ErrExist), and then takes the name from
// away. A crash between the two leaves a second name in the temporary folder, which the sweep removes; the object
// is whole either way, so a failed removal is no failure of the upload.
func linkNoReplace(root *os.Root, from, to string) error {
	if err := root.Link(from, to); err != nil {
		return err
	}
	_ = root.Remove(from) //nolint:errcheck // See above.
	return nil
}
