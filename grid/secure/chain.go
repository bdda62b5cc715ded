package secure

import "context"

// Chain solves at loads one after another and calls each with every result. A step begins at the last secure
// dispatch, with its remembered outages; where that does not come to a secure one, at nothing, and warm is
// false. Starts of the steps are not read. The error is that of Solve or each.
func (s *Solver) Chain(ctx context.Context, steps []Problem, each func(step int, warm bool, r *Result) error) error {
	var last *Result
	for k, pr := range steps {
		var r *Result
		var err error
		if pr.Start = last; last != nil {
			if r, err = s.Solve(ctx, pr); err != nil {
				return err
			}
		}
		warm := r != nil && r.Status == Secure
		if !warm {
			pr.Start = nil
			if r, err = s.Solve(ctx, pr); err != nil {
				return err
			}
		}
		if r.Status == Secure {
			last = r
		}
		if err := each(k, warm, r); err != nil {
			return err
		}
	}
	return nil
}
