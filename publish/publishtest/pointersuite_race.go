package publishtest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/pawlhq/pawl/publish"
)

// raceRounds is how often each race is run: enough to meet the interleavings of two transactions, few enough to
// stay quick on a real database.
const raceRounds = 40

func raceTests() []pointerTest {
	return []pointerTest{
		{name: "case-06", run: raceRenewAcquire},
		{name: "acquire", run: raceAcquire},
		{name: "acquire-repeated", run: raceAcquireRepeated},
		{name: "publish", run: racePublish},
		{name: "publish-repeated", run: racePublishRepeated},
		{name: "create-only", run: raceCreateOnly},
		{name: "complete", run: raceComplete},
		{name: "seal", run: raceSeal},
		{name: "granted", run: raceGranted},
		{name: "rejections", run: raceRejections},
	}
}

// together runs n calls at the same time and returns their errors.
func together(n int, call func(i int) error) []error {
	errs := make([]error, n)
	start := make(chan struct{})
	var calls sync.WaitGroup
	for i := range n {
		calls.Go(func() {
			<-start
			errs[i] = call(i)
		})
	}
	close(start)
	calls.Wait()
	return errs
}

// raceRenewAcquire is case 6: of a late renewal and a new grant exactly one succeeds.
func raceRenewAcquire(s *suite) {
	for round := range raceRounds {
		a := s.acquire(s.key(fmt.Sprint(round)), "a")
		s.Expire(s.T, a.Key)
		errs := together(2, func(i int) error {
			if (i+round)%2 == 0 {
				_, err := s.Store.Renew(s.Context(), a.Key, a.LeaseID, 0)
				return err
			}
			_, err := s.Store.Acquire(s.Context(), acquireRequest(a.Key, "b"))
			return err
		})
		if (errs[0] == nil) == (errs[1] == nil) {
			s.Fatalf("round %d: both or neither: %v", round, errs)
		}
		lost := errors.Join(errs...)
		if !errors.Is(lost, publish.ErrLeaseHeld) && !errors.Is(lost, publish.ErrLeaseLost) {
			s.Fatalf("round %d: %v", round, lost)
		}
	}
}

// raceAcquire: of many that want a free key exactly one gets it, and tokens never repeat.
func raceAcquire(s *suite) {
	const n = 8
	key := s.key("k") // At first not even its row exists.
	for round := range raceRounds / 4 {
		leases := make([]publish.Lease, n)
		errs := together(n, func(i int) (err error) {
			leases[i], err = s.Store.Acquire(s.Context(), acquireRequest(key, fmt.Sprint(i)))
			return err
		})
		granted := 0
		for i, err := range errs {
			if err != nil {
				s.refused(err, publish.Error{Code: publish.ErrLeaseHeld, Key: key, Token: publish.Token(round + 1)})
				continue
			}
			granted++
			s.same("token", leases[i].Token, publish.Token(round+1))
		}
		s.same("grants", granted, 1)
		s.Expire(s.T, key)
	}
}

// raceAcquireRepeated: a client that repeats its request before the first answer came has one grant.
func raceAcquireRepeated(s *suite) {
	const n = 4
	for round := range raceRounds / 4 {
		req := acquireRequest(s.key(fmt.Sprint(round)), "a")
		leases := make([]publish.Lease, n)
		errs := together(n, func(i int) (err error) {
			leases[i], err = s.Store.Acquire(s.Context(), req)
			return err
		})
		s.ok(errors.Join(errs...))
		first := 0
		for _, lease := range leases {
			s.same("token", lease.Token, publish.Token(1))
			if !lease.Replayed {
				first++
			}
		}
		s.same("grants", first, 1)
	}
}

// racePublish: however publishes of many tokens meet, those accepted form a chain of growing tokens that ends
// with the greatest.
func racePublish(s *suite) {
	const n = 6
	for round := range raceRounds / 4 {
		grants := s.grants(s.key(fmt.Sprint(round)), n)[1:]
		for _, grant := range grants {
			s.upload(grant, "f", "of its own")
		}
		receipts := make([]publish.Receipt, n)
		errs := together(n, func(i int) (err error) {
			receipts[i], err = s.Store.Publish(s.Context(), final(grants[i]))
			return err
		})
		var previous *publish.Version
		for i, err := range errs {
			if err != nil {
				refusal := s.refused(err, publish.Error{Code: publish.ErrStaleToken, Token: grants[i].Token, GrantedToken: n})
				if refusal.AcceptedToken <= grants[i].Token {
					s.Errorf("token %d refused by the fence %d", grants[i].Token, refusal.AcceptedToken)
				}
				continue
			}
			s.same("previous", receipts[i].Previous, previous)
			previous = new(receipts[i].Version())
		}
		s.current(grants[0].Key, publish.Version{Token: n, Revision: 1})
	}
}

// racePublishRepeated: of equal publishes at the same time one is made, the others are its replays.
func racePublishRepeated(s *suite) {
	const n = 4
	for round := range raceRounds / 4 {
		a := s.acquire(s.key(fmt.Sprint(round)), "a")
		s.upload(a, "f", "one")
		receipts := make([]publish.Receipt, n)
		errs := together(n, func(i int) (err error) {
			receipts[i], err = s.Store.Publish(s.Context(), publish.PublishRequest{Grant: a, Final: round%2 == 0})
			return err
		})
		s.ok(errors.Join(errs...))
		made := 0
		for _, receipt := range receipts {
			s.same("version", receipt.Version(), publish.Version{Token: a.Token, Revision: 1})
			if !receipt.Replayed {
				made++
			}
		}
		s.same("publishes", made, 1)
	}
}

// raceCreateOnly: of many create-only publishes of one key exactly one creates.
func raceCreateOnly(s *suite) {
	const n = 4
	for round := range raceRounds / 4 {
		grants := s.grants(s.key(fmt.Sprint(round)), n)[1:]
		for _, grant := range grants {
			s.upload(grant, "f", "of its own")
		}
		errs := together(n, func(i int) error {
			_, err := s.Store.Publish(s.Context(), publish.PublishRequest{Grant: grants[i], Final: true, IfNoneMatch: true})
			return err
		})
		created := 0
		for _, err := range errs {
			if err == nil {
				created++
			} else if !errors.Is(err, publish.ErrPreconditionFailed) && !errors.Is(err, publish.ErrStaleToken) {
				s.Error(err)
			}
		}
		s.same("created", created, 1)
	}
}

// raceComplete: uploads of one path that end at the same time leave the one that started last.
func raceComplete(s *suite) {
	const n = 5
	a := s.acquire(s.key("k"), "a")
	for round := range raceRounds / 4 {
		path := publish.Path(fmt.Sprint(round))
		uploads := make([]publish.Upload, n)
		for i := range uploads {
			uploads[i] = s.begin(a, path)
		}
		last := slices.MaxFunc(uploads, func(x, y publish.Upload) int { return cmp.Compare(x.Number, y.Number) })
		results := make([]publish.UploadResult, n)
		errs := together(n, func(i int) (err error) {
			results[i], err = s.Store.CompleteUpload(s.Context(), uploads[i], fileOf(path, fmt.Sprint(uploads[i].Number)))
			return err
		})
		s.ok(errors.Join(errs...))
		file, err := s.Store.File(s.Context(), a.Key, a.Token, path, a.LeaseID)
		if err != nil {
			s.Fatal(err)
		}
		s.same("what counts", file.Object, last.Object())
		s.same("its bytes", file.SHA256, fileOf(path, fmt.Sprint(last.Number)).SHA256)
		s.same("overtaken", results[slices.Index(uploads, last)].Overtaken, false)
	}
	s.same("uploads", s.generation(a).Uploads, publish.UploadCounts{Unpublished: raceRounds / 4})
}

// raceSeal: an upload that starts while the final publish runs is refused, or it stops the publish; and one that ends then is in the set,
// or it stops the publish. It is never lost in silence.
func raceSeal(s *suite) {
	for round := range raceRounds {
		a := s.acquire(s.key(fmt.Sprint(round)), "a")
		s.upload(a, "f", "one")
		running := publish.Upload{}
		if round%2 == 0 {
			running = s.begin(a, "g")
		}
		errs := together(2, func(i int) error {
			switch {
			case i == 0:
				_, err := s.Store.Publish(s.Context(), final(a))
				return err
			case round%2 == 0:
				_, err := s.Store.CompleteUpload(s.Context(), running, fileOf("g", "two"))
				return err
			}
			_, err := s.Store.BeginUpload(s.Context(), beginRequest(a, "g"))
			return err
		})
		g := s.generation(a)
		switch {
		case errs[0] != nil:
			s.refused(errs[0], publish.Error{Code: publish.ErrGenerationIncomplete, Pending: []publish.Path{"g"}})
			s.ok(errs[1])
		case round%2 == 0:
			s.ok(errs[1])
			s.files(a, fileOf("f", "one"), fileOf("g", "two"))
		default:
			s.refused(errs[1], publish.Error{Code: publish.ErrGenerationSealed})
			s.same("uploads", g.Uploads, publish.UploadCounts{})
		}
	}
}

// raceGranted: in the mode granted nothing is published after a newer grant.
func raceGranted(s *suite) {
	s.setFenceMode(s.prefix, publish.FenceGranted)
	for round := range raceRounds {
		a := s.acquire(s.key(fmt.Sprint(round)), "a")
		s.upload(a, "f", "one")
		s.Expire(s.T, a.Key)
		var receipt publish.Receipt
		errs := together(2, func(i int) (err error) {
			if (i+round)%2 == 0 {
				_, err = s.Store.Acquire(s.Context(), acquireRequest(a.Key, "b"))
				return err
			}
			receipt, err = s.Store.Publish(s.Context(), final(a))
			return err
		})
		acquired, published := errs[round%2], errs[1-round%2]
		if acquired != nil {
			s.Fatalf("acquire: %v", acquired)
		}
		if published != nil {
			s.refused(published, publish.Error{Code: publish.ErrStaleToken, GrantedToken: a.Token + 1})
			s.current(a.Key, publish.Version{})
		} else {
			s.same("superseded when it was published", receipt.SupersededBy, publish.Token(0))
		}
	}
}

// raceRejections: the same stale request, sent by many at once, is one record that has counted them all.
func raceRejections(s *suite) {
	const n = 8
	a := s.acquire(s.key("k"), "a")
	s.output(s.takeOver(a.Key, "b"), "b")
	repeats := make([]int, n)
	together(n, func(i int) error {
		_, err := s.Store.Publish(s.Context(), final(a))
		if refusal := new(publish.Error); errors.As(err, &refusal) {
			repeats[i] = refusal.Repeat
		}
		return nil
	})
	slices.Sort(repeats)
	s.same("repeats", repeats, []int{1, 2, 3, 4, 5, 6, 7, 8})
	records := s.generation(a).Rejections
	if len(records) != 1 || records[0].Repeat != n {
		s.Errorf("records: %+v", records)
	}
}
