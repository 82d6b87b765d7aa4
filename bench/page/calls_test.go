package page

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/publish"
)

// read is one thing that a page asks the stores for.
type read struct {
	name string
	// do returns how many rows it has looked at, or else given.
	do func(ctx context.Context, s *publish.Service) (int, error)
}

// reads are the calls behind the pages.
func reads(n int) []read {
	middle := publish.Key(keyName(n/2/10*10 + 1))
	since := time.Now().AddDate(0, 0, -15)
	calls := []read{
		{"overview", func(ctx context.Context, s *publish.Service) (int, error) {
			_, err := s.Overview(ctx, middle)
			return 1, err
		}},
		{"overview of 1,000 generations", func(ctx context.Context, s *publish.Service) (int, error) {
			_, err := s.Overview(ctx, deepKey)
			return 1, err
		}},
		{"pointer", func(ctx context.Context, s *publish.Service) (int, error) {
			_, err := s.Pointer(ctx, middle)
			return 1, err
		}},
		history(middle), history(deepKey), history(streamKey),
		{"resolve 100", func(ctx context.Context, s *publish.Service) (int, error) {
			var keys []publish.Key
			for i := range 100 {
				keys = append(keys, publish.Key(keyName(n/200*i/10*10+1)))
			}
			_, err := s.Resolve(ctx, publish.Everything, keys)
			return len(keys), err
		}},
	}
	for _, prefix := range []string{"", "shots/", "small/"} {
		calls = append(calls, read{fmt.Sprintf("rejections %q, two pages", prefix), func(ctx context.Context, s *publish.Service) (int, error) {
			first, err := s.Rejections(ctx, publish.RejectionsRequest{Reach: publish.Everything, Prefix: prefix})
			if err != nil || first.Next == "" {
				return len(first.Rejections), err
			}
			second, err := s.Rejections(ctx, publish.RejectionsRequest{Reach: publish.Everything, Prefix: prefix, After: first.Next})
			return len(first.Rejections) + len(second.Rejections), err
		}}, read{fmt.Sprintf("leases %q", prefix), func(ctx context.Context, s *publish.Service) (int, error) {
			page, err := s.Leases(ctx, publish.LeasesRequest{Reach: publish.Everything, Prefix: prefix})
			return len(page.Leases), err
		}}, read{fmt.Sprintf("leases %q expired", prefix), func(ctx context.Context, s *publish.Service) (int, error) {
			page, err := s.Leases(ctx, publish.LeasesRequest{Reach: publish.Everything, Prefix: prefix, Expired: true})
			return len(page.Leases), err
		}}, browse(publish.BrowseRequest{Reach: publish.Everything, Prefix: prefix, Delimiter: true}))
		for _, filter := range []publish.BrowseRequest{
			{},
			{Text: "nowhere"},
			{Text: "7"},
			{Type: "text"},
			{Type: "video/mp4"},
			{Leased: true},
			{Rejected: true},
			{UpdatedSince: since},
			{UpdatedSince: time.Now()},
			{Leased: true, Rejected: true},
		} {
			for _, sort := range publish.BrowseSorts() {
				if !sort.ByName() && !sort.ByAge() && prefix != "small/" {
					continue
				}
				filter.Reach, filter.Prefix, filter.Sort = publish.Everything, prefix, sort
				calls = append(calls, browse(filter))
			}
		}
	}
	return calls
}

// history asks for the newest 100 generations.
func history(key publish.Key) read {
	return read{fmt.Sprintf("history of %s", key), func(ctx context.Context, s *publish.Service) (int, error) {
		page, err := s.History(ctx, key, 0, 100)
		return len(page.Generations), err
	}}
}

// browse asks for the first page.
func browse(req publish.BrowseRequest) read {
	name := fmt.Sprintf("browse %q sort=%s", req.Prefix, req.Sort)
	for _, filter := range []struct {
		text string
		set  bool
	}{
		{" tree", req.Delimiter},
		{" text=" + req.Text, req.Text != ""},
		{" type=" + req.Type, req.Type != ""},
		{" leased", req.Leased},
		{" rejected", req.Rejected},
		{" since " + req.UpdatedSince.Format(time.DateOnly), !req.UpdatedSince.IsZero()},
	} {
		if filter.set {
			name += filter.text
		}
	}
	return read{name, func(ctx context.Context, s *publish.Service) (int, error) {
		page, err := s.Browse(ctx, req)
		if refusal := (*publish.Error)(nil); errors.As(err, &refusal) {
			return 0, fmt.Errorf("%w: %v", err, refusal.Fields)
		}
		return page.Searched, err
	}}
}
