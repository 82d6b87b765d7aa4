package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/pawlhq/pawl/blobstore"
	"github.com/pawlhq/pawl/publish"
)

// How readers get the bytes (PAWL_READS).
const (
	readsStream   = "stream"   // through this server
	readsRedirect = "redirect" // from the store, by a signed address
)

// storeSettings are the settings of the blob store beside its address.
type storeSettings struct {
	accessKey, secretKey, accessKeyFile, secretKeyFile string
	caFile, publicEndpoint                             string
	partMemory                                         int64 // bytes, 0 for the default
	verify                                             publish.Verification
	reads                                              string
	corsOrigins                                        []string
	keys                                               *usedKeys
}

func (a *app) storeSettings(blobs string) (storeSettings, error) {
	s := storeSettings{
		caFile:         a.getenv("PAWL_S3_CA_FILE"),
		publicEndpoint: a.getenv("PAWL_S3_PUBLIC_ENDPOINT"),
		verify:         cmp.Or(publish.Verification(a.getenv("PAWL_S3_VERIFY")), publish.VerifyCRC64NVME),
		reads:          cmp.Or(a.getenv("PAWL_READS"), readsStream),
		keys:           &usedKeys{},
	}
	access, err := a.secret("PAWL_S3_ACCESS_KEY")
	if err != nil {
		return s, err
	}
	secret, err := a.secret("PAWL_S3_SECRET_KEY")
	if err != nil {
		return s, err
	}
	s.accessKey, s.accessKeyFile, s.secretKey, s.secretKeyFile = access.value, access.file, secret.value, secret.file
	s.keys.add(s.accessKey, s.secretKey)
	for origin := range strings.SplitSeq(a.getenv("PAWL_CORS_ORIGINS"), ",") {
		if origin = strings.TrimSpace(origin); origin != "" {
			s.corsOrigins = append(s.corsOrigins, origin)
		}
	}
	switch s.verify {
	case publish.VerifyRead, publish.VerifyCRC64NVME:
	default:
		return s, configError{fmt.Errorf("PAWL_S3_VERIFY is %q; it must be %s or %s", s.verify, publish.VerifyRead, publish.VerifyCRC64NVME)}
	}
	switch {
	case s.reads != readsStream && s.reads != readsRedirect:
		return s, configError{fmt.Errorf("PAWL_READS is %q; it must be %s or %s", s.reads, readsStream, readsRedirect)}
	case s.reads == readsRedirect && blobs != "" && !strings.HasPrefix(blobs, "s3:"):
		return s, configError{fmt.Errorf("PAWL_READS is %s, but PAWL_BLOBS names no S3 store to send readers to; set PAWL_READS=%s", readsRedirect, readsStream)}
	}
	if text := a.getenv("PAWL_S3_PART_MEMORY"); text != "" {
		var ok bool
		if s.partMemory, ok = parseSize(text); !ok || s.partMemory < blobstore.MinPartMemory {
			return s, configError{fmt.Errorf("PAWL_S3_PART_MEMORY is %q; it must be a size such as 64MiB, at least %dMiB", text, blobstore.MinPartMemory>>20)}
		}
	}
	return s, nil
}

// origins are those of pages that may want to send to the store: the ones that are named, or else this server's own.
func (s serverSettings) origins() []string {
	switch {
	case len(s.store.corsOrigins) > 0 || s.listen == "":
		return s.store.corsOrigins
	case s.transport.origin != "":
		return []string{s.transport.origin}
	}
	return []string{s.transport.scheme() + "://" + s.listen}
}

// options are the settings as the store takes them.
func (s storeSettings) options() blobstore.Options {
	return blobstore.Options{
		AccessKey: s.accessKey, SecretKey: s.secretKey, AccessKeyFile: s.accessKeyFile, SecretKeyFile: s.secretKeyFile,
		CAFile: s.caFile, PublicEndpoint: s.publicEndpoint, PartMemory: s.partMemory, OnKeys: s.keys.add,
	}
}

// sizeUnits are the units of sizes, in bytes, the greatest first.
var sizeUnits = []struct {
	name string
	size int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

// parseSize reads a size in bytes: a number, with or without a unit of 1024, 1024², 1024³, 1024⁴ bytes behind it.
func parseSize(text string) (bytes int64, ok bool) {
	unit := int64(1)
	for _, known := range sizeUnits {
		if number, found := strings.CutSuffix(text, known.name); found {
			text, unit = strings.TrimSpace(number), known.size
			break
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n * unit, err == nil && n >= 0 && n <= math.MaxInt64/unit
}

// usedKeys are the keys that the store has used so far, which must not show in a log. They change while the server runs.
type usedKeys struct {
	mu    sync.Mutex
	texts []string
}

// maxUsedKeys bounds how many texts are remembered. Keys that were replaced that often ago are worth nothing any more.
const maxUsedKeys = 60

func (k *usedKeys) add(texts ...string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.texts = append(k.texts, texts...)
	k.texts = k.texts[max(0, len(k.texts)-maxUsedKeys):]
}

// know adds texts that aren't remembered yet.
func (k *usedKeys) know(texts ...string) {
	k.add(slices.DeleteFunc(texts, func(text string) bool { return slices.Contains(k.all(), text) })...)
}

func (k *usedKeys) all() []string {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]string(nil), k.texts...)
}
