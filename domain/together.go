package domain

import "context"

// Together is implemented by a plant that advances many of its episodes at less cost
// together than one by one. NewStepper makes what does, for one goroutine; nil where this
// machine has nothing to gain.
type Together interface {
	NewStepper() Stepper
}

// Stepper advances episodes of the plant that made it. Apply does to each, to the rounding
// of its arithmetic, what Episode.Apply does with its action of u, and writes what that
// returns; vectors of outcomes that are large enough are used again. What it does to one
// episode does not depend on the others.
type Stepper interface {
	Apply(episodes []Episode, u [][]float64, outcomes []Outcome, errs []error)
}

// Preparing is implemented by a plant that draws test scenes at less cost together than one by
// one. Prepare draws those of a seed, so that Episode with the same arguments finds them;
// Episode says what is wrong with one that could not be drawn. A plant keeps at least
// 128 scenes that were prepared last.
type Preparing interface {
	Prepare(ctx context.Context, seed uint64, indices []int, opt EpisodeOptions) error
}
