package domain

// Stepper advances episodes of the plant that made it. Apply does to each, to the rounding
// of its arithmetic, what Episode.Apply does with its action of u, and writes what that
// returns; vectors of outcomes that are large enough are used again. What it does to one
// episode does not depend on the others.
type Stepper interface {
	Apply(episodes []Episode, u [][]float64, outcomes []Outcome, errs []error)
}
