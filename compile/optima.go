package compile

import (
	"encoding/binary"
	"math"
	"sync"

	"github.com/gpc-engine/gpc/domain"
)

// optima are the reference optima of the starts that are driven from more than once: the
// held-out ones, in every round and by every method.
type optima struct {
	solve func(s, c []float64, steps int, pref domain.Preference) (float64, [][]float64, error)
	mu    sync.Mutex
	known map[string]optimum
}

type optimum struct {
	cost float64
	plan [][]float64
	err  error
}

// of is solve, remembered.
func (o *optima) of(s, c []float64, steps int, pref domain.Preference) (float64, [][]float64, error) {
	var key []byte
	for _, part := range [][]float64{s, c, pref.W, {float64(steps)}} {
		for _, v := range part {
			key = binary.LittleEndian.AppendUint64(key, math.Float64bits(v))
		}
	}
	o.mu.Lock()
	found, ok := o.known[string(key)]
	o.mu.Unlock()
	if !ok {
		found.cost, found.plan, found.err = o.solve(s, c, steps, pref)
		o.mu.Lock()
		o.known[string(key)] = found
		o.mu.Unlock()
	}
	return found.cost, found.plan, found.err
}
