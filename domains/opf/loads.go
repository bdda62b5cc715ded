package opf

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/gpc-engine/gpc/domains/opf/network"
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

// loadPaths draws the loads of one test trajectory, [length][bus] in pu: the
// file's load times the common level, times a path of its own for each bus and
// for P and Q, times white noise.
func loadPaths(rng *rand.Rand, n *network.Network, regime string, length int) (p, q [][]float64, err error) {
	span, known := levels[regime]
	if !known {
		return nil, nil, fmt.Errorf("opf has no regime %q: it has %q, %q and %q", regime, RegimePaper, RegimeEnvelope, RegimeSwing)
	}
	level := make([]float64, length)
	if regime == RegimeSwing {
		period, phase := swingPeriods[rng.IntN(len(swingPeriods))], rng.Float64()
		for t := range level {
			level[t] = math.Sin(2 * math.Pi * (float64(t)/period + phase))
		}
	} else {
		level = path(rng, length)
	}
	middle, half := (span[0]+span[1])/2, (span[1]-span[0])/2
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
			own := path(rng, length)
			for t := range out {
				out[t][i] = v * level[t] * (1 + busSpread*own[t]) * (1 + busNoise*rng.NormFloat64())
			}
		}
		return out
	}
	return spread(n.Pd), spread(n.Qd), nil
}

// branchDraw is the branch factors of one trajectory.
func branchDraw(rng *rand.Rand, branches int) []float64 {
	b := make([]float64, branches)
	for k := range b {
		b[k] = 1 + math.Max(-BranchRange, math.Min(BranchRange, BranchSigma*rng.NormFloat64()))
	}
	return b
}
