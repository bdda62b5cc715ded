package compile

import (
	"encoding/binary"
	"math"
	"sync"

	"github.com/gpc-engine/gpc/domain"
)

// optima caches the reference optima of starts that are driven from more than once: the held-out ones, in every round
// and by every method.
type optima struct {
	solve func(s, c []float64, steps int, pref domain.Preference) (float64, [][]float64, error)
	mu    sync.Mutex
	cache map[string]optimum
}

type optimum struct {
	cost float64
	plan [][]float64
	err  error
}

// lookUp is solve with a cache.
func (o *optima) lookUp(s, c []float64, steps int, pref domain.Preference) (float64, [][]float64, error) {
	var key []byte
	for _, part := range [][]float64{s, c, pref.W, {float64(steps)}} {
		for _, v := range part {
			key = binary.LittleEndian.AppendUint64(key, math.Float64bits(v))
		}
	}
	o.mu.Lock()
	found, ok := o.cache[string(key)]
	o.mu.Unlock()
	if !ok {
		found.cost, found.plan, found.err = o.solve(s, c, steps, pref)
		o.mu.Lock()
		o.cache[string(key)] = found
		o.mu.Unlock()
	}
	return found.cost, found.plan, found.err
}
