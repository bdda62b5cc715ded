package train

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/gpc-engine/gpc/internal/backend"
)

// A few samples cause most of the regret. A map that is off by 0.006 on average is off by 0.1 where a constraint is
// about to bind. An error costs most there. A share of each epoch is therefore drawn by the present errors.

// emphasisInterval is the number of epochs that use the same measured errors: decoding the training set costs about a
// tenth of an epoch.
const emphasisInterval = 3

// emphasisArray is the errors' name among a checkpoint's arrays.
const emphasisArray = "emphasis"

// emphasis holds the last measured decoding error of every row of the phase.
type emphasis struct {
	share float64
	error []float32 // ‖u − u*‖ of the controller's own action, one per row of the phase
}

// isDue reports whether an epoch starts with a new measurement. The first epoch of the manifold phase has no useful
// map.
func (e *emphasis) isDue(phase Phase, epoch int) bool {
	if phase == Manifold {
		epoch--
	}
	return e != nil && epoch >= 0 && epoch%emphasisInterval == 0
}

// measure decodes all rows of a phase.
func (e *emphasis) measure(r *run, phaseRows []int32) error {
	nets, err := r.trainer.Networks()
	if err != nil {
		return err
	}
	e.error = slices.Grow(e.error[:0], len(phaseRows))[:0]
	for from := 0; from < len(phaseRows); from += calibrationRows {
		rows := phaseRows[from:min(from+calibrationRows, len(phaseRows))]
		d, err := evaluate(r.opt.Backend, r.opt.Problem, &r.opt.Data, r.set, nets, rows)
		if err != nil {
			return err
		}
		for _, v := range d.deltas {
			e.error = append(e.error, float32(v))
		}
	}
	return nil
}

// order writes one epoch. A share 1 − share of the places holds every row at most once. The others hold rows drawn
// with probability proportional to their error. All are shuffled. Without errors it is a permutation. It depends only
// on the errors, the seed, the stream and the epoch.
func (e *emphasis) order(order, rows []int32, seed, stream uint64, epoch int) {
	shuffled(order, rows, seed, stream, epoch)
	if e == nil || len(e.error) != len(rows) {
		return
	}
	sum := 0.0
	cumulative := make([]float64, len(rows))
	for i, v := range e.error {
		sum += float64(v)
		cumulative[i] = sum
	}
	if !(sum > 0) {
		return
	}
	rng := rand.New(rand.NewPCG(seed+stream, streamEmphasis|uint64(uint32(epoch))))
	for i := range int(e.share * float64(len(order))) {
		index, _ := slices.BinarySearch(cumulative, rng.Float64()*sum)
		order[i] = rows[min(index, len(rows)-1)]
	}
	rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
}

// restore removes the errors from a checkpoint's arrays, so that the trainer sees only its own.
func (e *emphasis) restore(arrays map[string][]float32, rows int) error {
	values, ok := arrays[emphasisArray]
	delete(arrays, emphasisArray)
	if !ok {
		return nil
	}
	if len(values) != rows {
		return fmt.Errorf("array %q has %d entries, want one for each of the %d rows of its phase", emphasisArray, len(values), rows)
	}
	e.error = values
	return nil
}

// save adds the errors to a checkpoint's arrays.
func (e *emphasis) save(state *backend.TrainerState) {
	if e != nil && len(e.error) > 0 {
		state.Arrays[emphasisArray] = e.error
	}
}

// reset drops the errors at the end of their phase.
func (e *emphasis) reset() {
	if e != nil {
		e.error = nil
	}
}
