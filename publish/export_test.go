package publish

// HoldCatchUp takes the turns of all followers that are far behind.
func (s *Service) HoldCatchUp() {
	for range catchUpAtOnce {
		s.catchingUp() <- struct{}{}
	}
}
