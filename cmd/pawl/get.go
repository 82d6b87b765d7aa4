package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/client"
	"github.com/pawlhq/pawl/publish"
)

func (a *app) getCommand() *cobra.Command {
	var name, output string
	var number int64
	var folder folderFlags
	cmd := &cobra.Command{
		Use:   "get KEY",
		Short: "Download a file of the current version, or all of them into a folder, and check the digests",
		Long: "Download the primary file of the current version, or the one that --path names. A broken connection is resumed on the\n" +
			"permanent address, so the bytes are those of one version. The output appears only once its digest was checked; with\n" +
			"-o - the exit code tells whether what came is good.\n\n" +
			"With --dir, make a folder hold exactly the files of the version. They are put together in a hidden folder beside it, .NAME.pawl-get, and\n" +
			"swapped into place when all are there and good: the folder has the files of before or the new ones, never a mix, also when this is\n" +
			"killed. The next run goes on with what had come. Files that are the same in the folder of before are hard links to them.",
		Example: "  pawl get shots/010/comp --dir comp",
		Args:    cobra.ExactArgs(1),
		RunE: a.verb(func(ctx context.Context, args []string) error {
			key, err := a.key(args[0])
			if err != nil {
				return err
			}
			var wanted publish.Path
			if name != "" {
				if wanted, err = a.path(name); err != nil {
					return err
				}
			}
			var token publish.Token
			if a.flagGiven("token") {
				if token, err = publish.ParseToken(strconv.FormatInt(number, 10)); err != nil {
					return usageError{fmt.Errorf("--token: %w", err)}
				}
			}
			if err := folder.check(); err != nil {
				return err
			}
			c, err := a.newClient(quickRetry)
			if err != nil {
				return err
			}
			defer c.Close()
			if a.flagGiven("dir") {
				return a.getFolder(ctx, c, key, token, folder)
			}
			return a.get(ctx, c, key, token, wanted, output)
		}),
	}
	cmd.Flags().StringVar(&name, "path", "", "path of the file in the version (default: the primary file)")
	cmd.Flags().StringVarP(&output, "output", "o", "", "where to write to, - for stdout (default: the base name of the path, here)")
	cmd.Flags().Int64Var(&number, "token", 0, "token of the version to read (default: the current one)")
	cmd.Flags().StringVar(&folder.dir, "dir", "", "folder to fill with all files of the version")
	cmd.Flags().BoolVar(&folder.replace, "replace", false, "with --dir: also replace a folder that pawl get didn't put there, or that was changed since")
	cmd.Flags().IntVar(&folder.parallel, "parallel", 8, "with --dir: how many files are downloaded at once")
	a.quietFlag(cmd)
	cmd.MarkFlagsMutuallyExclusive("dir", "path")
	cmd.MarkFlagsMutuallyExclusive("dir", "output")
	return cmd
}

// gotten is what get prints as JSON.
type gotten struct {
	Key     publish.Key     `json:"key"`
	Version publish.Version `json:"version"`
	Path    publish.Path    `json:"path"`
	Size    int64           `json:"size"`
	SHA256  publish.Digest  `json:"sha256"`
	Output  string          `json:"output"`
	URL     string          `json:"url"`
}

func (a *app) get(ctx context.Context, c *client.Client, key publish.Key, token publish.Token, wanted publish.Path, output string) error {
	pointer, err := findVersion(ctx, c, key, token)
	if err != nil {
		return err
	}
	if wanted == "" {
		wanted = pointer.Primary
	}
	if wanted == "" {
		return usageError{fmt.Errorf("version %s of %s has %d files and no primary one: name one with --path", pointer.Version(), key, pointer.Files)}
	}
	if output == "" {
		if output, err = localName(wanted); err != nil {
			return err
		}
	}
	// From here on the permanent address is read: a flip of the pointer meanwhile changes nothing.
	download, err := c.Open(ctx, key, pointer.Token, wanted, publish.LeaseID{})
	if err != nil {
		return err
	}
	defer download.Close()      //nolint:errcheck // Nothing was written.
	var shown meter = noMeter{} // Perhaps stdout is the same terminal.
	if output != "-" {
		shown = a.meter()
	}
	shown.Expect(1, max(download.Size, 0))
	size, err := a.save(&toldReader{download, shown.Add}, output)
	shown.Stop()
	if err != nil {
		return err
	}
	result := gotten{
		Key: key, Version: pointer.Version(), Path: wanted, Size: size, SHA256: download.Digest, Output: output,
		URL: c.FileURL(key, pointer.Token, wanted),
	}
	switch {
	case output == "-":
		return nil // stdout belongs to the bytes
	case a.json:
		return a.printJSON(result)
	}
	a.printf("%s: version %s of %s, %d bytes\n", output, result.Version, key, size)
	return nil
}

// localName makes the name of a local file from that of a published one. A manifest is data from elsewhere: a path in it
// may have been made to write outside of this folder.
func localName(p publish.Path) (string, error) {
	if _, err := publish.ParsePath(string(p)); err != nil {
		return "", hostileName(p)
	}
	base := path.Base(string(p))
	if !filepath.IsLocal(base) || strings.ContainsAny(base, `:\`) || base == "-" {
		return "", hostileName(p)
	}
	return base, nil
}

func hostileName(p publish.Path) error {
	return refusedError{fmt.Errorf("the published name %+q can't be a local file name; choose one with -o", p)}
}

// refusedError is a lasting refusal by this side.
type refusedError struct{ error }

func (refusedError) exitCode() int { return exitRefused }

// save writes a download to stdout, or to a file that appears only when all of it is there and good.
func (a *app) save(download io.Reader, output string) (int64, error) {
	if output == "-" {
		return io.Copy(a.stdout, download)
	}
	if target, err := filepath.EvalSymlinks(output); err == nil {
		output = target // what a link names is replaced, not the link
	}
	if info, err := os.Stat(output); err == nil && !info.Mode().IsRegular() {
		return saveInto(download, output)
	}
	temp, err := os.CreateTemp(filepath.Dir(output), ".pawl-get-*")
	if err != nil {
		return 0, ioError{err}
	}
	defer os.Remove(temp.Name()) //nolint:errcheck // It is gone already after the rename.
	size, err := io.Copy(temp, download)
	if err != nil {
		return 0, errors.Join(err, temp.Close())
	}
	// CreateTemp makes a file for its owner alone; a download is made as the user's other files are.
	if err := errors.Join(temp.Chmod(0o666&^umask()), temp.Sync(), temp.Close()); err != nil {
		return 0, ioError{err}
	}
	if err := os.Rename(temp.Name(), output); err != nil {
		return 0, ioError{err}
	}
	return size, nil
}

// saveInto writes a download into what is no regular file and so can't be replaced, such as a pipe or /dev/null.
func saveInto(download io.Reader, output string) (int64, error) {
	f, err := os.OpenFile(output, os.O_WRONLY, 0)
	if err != nil {
		return 0, ioError{err}
	}
	size, err := io.Copy(f, download)
	if err != nil {
		return size, errors.Join(err, f.Close())
	}
	if err := f.Close(); err != nil {
		return size, ioError{err}
	}
	return size, nil
}
