package opf

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/gpc-engine/gpc/grid/network"
)

// Regimes of the test loads.
const (
	RegimePaper    = "paper"    // load level 0.62–0.78, where the paper's figures lie
	RegimeEnvelope = "envelope" // 0.62–0.99, all that is feasible; the default
	RegimeSwing    = "swing"    // fast swings over 0.62–0.90 in which the ramp limits bind
)

// levels is the range of the load level of each regime.
var levels = map[string][2]float64{
	RegimePaper:    {0.62, 0.78},
	RegimeEnvelope: {0.62, 0.99},
	RegimeSwing:    {0.62, 0.90},
}

// regime is the test loads of a scene, as parseRegime reads them.
type regime struct {
	name   string
	lo, hi float64 // of the load level
	spread float64 // of single buses about it
	hidden bool    // the controller does not see the branch factors
	// estimated: it sees what measured flows say of them.
	estimated bool
}

// parseRegime reads NAME[-hidden|-estimated][:LO:HI[:SPREAD]]: "" is RegimeEnvelope, LO and HI take
// the place of the regime's levels, SPREAD that of busSpread.
func parseRegime(text string) (regime, error) {
	parts := strings.Split(text, ":")
	r := regime{spread: busSpread}
	r.name, r.hidden = strings.CutSuffix(parts[0], hiddenSuffix)
	r.name, r.estimated = strings.CutSuffix(r.name, estimatedSuffix)
	r.name = cmp.Or(r.name, RegimeEnvelope)
	r.estimated = r.estimated && !r.hidden
	span, ok := levels[r.name]
	if !ok {
		return r, errors.New("want a name of the loads, or NAME:LO:HI[:SPREAD]")
	}
	r.lo, r.hi = span[0], span[1]
	fields := [...]*float64{&r.lo, &r.hi, &r.spread}
	wrong := len(parts) == 2 || len(parts) > 1+len(fields)
	for i, part := range parts[1:] {
		if wrong {
			break
		}
		var err error
		*fields[i], err = strconv.ParseFloat(part, 64)
		wrong = err != nil
	}
	if wrong || !(0 < r.lo && r.lo <= r.hi && r.hi <= largestLevel && 0 <= r.spread && r.spread < 1) {
		return r, fmt.Errorf("want %s, or %s:LO:HI[:SPREAD] with 0 < LO ≤ HI ≤ %v times the file's load and a spread of single buses of 0 to 1", r.name, r.name, largestLevel)
	}
	return r, nil
}

// String is what parseRegime reads, without what is the regime's own.
func (r regime) String() string {
	if span := levels[r.name]; span == [2]float64{r.lo, r.hi} && r.spread == busSpread {
		return r.name
	}
	return fmt.Sprintf("%s:%v:%v:%v", r.name, r.lo, r.hi, r.spread)
}

// largestLevel of a regime: no network carries more.
const largestLevel = 100

// swingPeriods are the periods, in steps, that a swing draws from.
var swingPeriods = [...]float64{16, 24, 40}

// Spread of single buses about the common level.
const (
	busSpread = 0.08  // of the slow path of each bus
	busNoise  = 0.002 // standard deviation of what is added at every step
)

// path is Σ_{k∈{1,2,3,5}} N(0,1)/k · sin 2π(kt/T + U[0,1]), t from 0 to T−1,
// scaled to a peak of 1.
func path(rng *rand.Rand, length int) []float64 {
	p := make([]float64, length)
	for _, k := range [...]float64{1, 2, 3, 5} {
		amplitude, phase := rng.NormFloat64()/k, rng.Float64()
		for t := range p {
			p[t] += amplitude * math.Sin(2*math.Pi*(k*float64(t)/float64(length)+phase))
		}
	}
	peak := 0.0
	for _, v := range p {
		peak = math.Max(peak, math.Abs(v))
	}
	for t := range p {
		p[t] /= peak
	}
	return p
}

// Loads draws the loads of one test trajectory of a regime, by its name as a scene has it.
func Loads(rng *rand.Rand, n *network.Network, name string, length int) (p, q [][]float64, err error) {
	r, err := parseRegime(name)
	if err != nil {
		return nil, nil, fmt.Errorf("opf: regime %q: %w", name, err)
	}
	p, q = loadPaths(rng, n, r, length)
	return p, q, nil
}

// loadPaths draws the loads of one test trajectory, [length][bus] in pu: the
// file's load times the common level, times a path of its own for each bus and
// for P and Q, times white noise.
func loadPaths(rng *rand.Rand, n *network.Network, r regime, length int) (p, q [][]float64) {
	level := make([]float64, length)
	if r.name == RegimeSwing {
		period, phase := swingPeriods[rng.IntN(len(swingPeriods))], rng.Float64()
		for t := range level {
			level[t] = math.Sin(2 * math.Pi * (float64(t)/period + phase))
		}
	} else {
		level = path(rng, length)
	}
	middle, half := (r.lo+r.hi)/2, (r.hi-r.lo)/2
	for t := range level {
		level[t] = middle + half*level[t]
	}
	spread := func(nominal []float64) [][]float64 {
		out := make([][]float64, length)
		for t := range out {
			out[t] = make([]float64, len(nominal))
		}
		for i, v := range nominal {
			if v == 0 {
				continue
			}
			deviation := path(rng, length)
			for t := range out {
				out[t][i] = v * level[t] * (1 + r.spread*deviation[t]) * (1 + busNoise*rng.NormFloat64())
			}
		}
		return out
	}
	return spread(n.Pd), spread(n.Qd)
}

// branchDraw is the branch factors of one trajectory.
func branchDraw(rng *rand.Rand, branches int) []float64 {
	b := make([]float64, branches)
	for k := range b {
		b[k] = 1 + math.Max(-BranchRange, math.Min(BranchRange, BranchSigma*rng.NormFloat64()))
	}
	return b
}
