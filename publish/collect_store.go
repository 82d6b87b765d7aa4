package publish

import (
	"context"
	"fmt"
	"time"
)

// GenerationName names one generation.
type GenerationName struct {
	Key   Key   `json:"key"`
	Token Token `json:"token"`
}

// objects is the beginning of the names of all objects of the generation, and of no others.
func (g GenerationName) objects() string { return fmt.Sprintf("%s/-/%d/", g.Key, g.Token) }

// DueGeneration is a condemned generation whose objects are to be deleted.
type DueGeneration struct {
	GenerationName
	Since time.Time `json:"since"` // by the store's clock
}

// StoredUpload is the part of an object's name that is below its generation.
type StoredUpload struct {
	ID   UploadID
	Path Path
}

// CollectStore is the part of PointerStore that gives generations up. A condemned generation stays condemned, is never current, and nothing of
// it is reused; so which of its objects kept generations reference can only become fewer, and an answer stays safe to act on however
// late. All times are the store's own.
type CollectStore interface {
	// Collectable walks the generations of keys that are prefix or lie below it ("" is all), from behind after on (nil: from the first), and
	// returns those that may be condemned now. It looks at about limit keys and generations. next is where to go on (token 0: before the key's first), nil at the end.
	//
	// A generation may be condemned unless it is current, or is kept by grace or the policy of its key. Published ones are kept
	// if the policy limits neither their number nor their age, for as long as they are among its KeepGenerations newest beside the current one, and
	// until its KeepFor and grace have passed since they were superseded. Others are kept until KeepUnpublishedFor (DefaultKeepUnpublished where no
	// policy says) and grace have passed since the last sign of work: the grant, or an upload. Whether a lease is alive doesn't matter.
	Collectable(ctx context.Context, prefix string, grace time.Duration, after *GenerationName, limit int) (found []GenerationName, next *GenerationName, err error)
	// Condemn gives a generation up if it still may be, in one transaction that locks the key, then the generation. From then on
	// publishes, uploads, reuse and rollbacks of it are generation-collected, and it is due. It reports whether it did so.
	Condemn(ctx context.Context, name GenerationName, grace time.Duration) (bool, error)
	// DueGenerations returns at most limit generations that are due now, oldest first, behind after if that isn't nil.
	DueGenerations(ctx context.Context, after *DueGeneration, limit int) ([]DueGeneration, error)
	// Referenced reports for each object of a condemned generation whether a generation that isn't condemned names it, in any revision.
	Referenced(ctx context.Context, name GenerationName, objects []StoredUpload) ([]bool, error)
	// Emptied notes that no object is left of a generation but those that are referenced. It is due again after late, once. Condemned generations
	// whose objects it has referenced are due again at once. If it has become due again since DueGenerations, nothing is noted: it returns false.
	Emptied(ctx context.Context, due DueGeneration, late time.Duration) (bool, error)
	// TakeDuty gives a duty to a holder for a time, or prolongs it, and reports whether the holder has it: nobody else does then. LeaveDuty
	// gives it back. Duties save work; nothing may rest on them for safety.
	TakeDuty(ctx context.Context, duty, holder string, ttl time.Duration) (bool, error)
	LeaveDuty(ctx context.Context, duty, holder string) error
}
