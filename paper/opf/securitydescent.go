package opf

import (
	"math"

	"github.com/gpc-engine/gpc/tensor"
)

// Constants of a descent.
const (
	// The first step changes no power by more than costPowerStep, pu; the box of later steps is 1 to widestBox times as
	// large. No step changes a voltage by more than costVoltageStep, pu: reactive powers answer to voltages, and where
	// buses come to a reactive limit or leave it the linear model ends.
	costPowerStep   = 0.08
	costVoltageStep = 0.0015
	widestBox       = 8
	// What a change of a voltage costs in the program of a step counts so many times: without, voltages go from one end
	// of the box to the other where their slopes are small, and back in the next step.
	voltageInertia = 1e4
	// Steps of a decision at most, each from the power flow of the one before; another one is taken where the last was
	// to gain or lose more than worthwhile, as a share of the objectives.
	descentSteps = 2
	worthwhile   = 1e-5
	// The box is halved where steps gain less than what was promised by more than this share of it, and doubled where by
	// less than that, as in trust region methods; a share of the objectives of up to worthwhile is noise.
	boxHalves  = 0.8
	boxDoubles = 0.5
)

// descent moves the dispatches of a trajectory towards the least weighted objectives: by steps of sequential linear
// programming, in a box that is as wide as the linear model has been found good for.
type descent struct {
	weights  [objectives]float64
	box      float64   // of a step, in units of that of the first
	watch    []bool    // outages with a limit near at the last dispatch; nil: none is known
	value    float64   // the objectives where a decision's steps begin
	promised float64   // what its steps are to gain
	gain     float64   // and the last of them
	bounded  bool      // the box held one back
	active   activeSet // by the program of the last step
}

// worth is what weighted objectives are at the dispatch of a workspace.
func (w *workspace) worth(c []float64, weights *[objectives]float64) float64 {
	var J [objectives]float64
	w.objectives(c, J[:])
	return tensor.Dot(weights[:], J[:])
}

// due says whether a round is one of a step.
func (d *descent) due(round int) bool {
	return round == 0 || round < descentSteps && math.Abs(d.gain) > worthwhile*d.value
}

// goesDown takes a step where one is due and says whether it did.
func (w *workspace) goesDown(d *descent, c, u []float64, round int) bool {
	if round == 0 {
		d.value, d.promised = w.worth(c, &d.weights), 0
		d.gain, d.bounded = 0, false
	}
	if !w.linear.LineariseAt(w.solver) {
		return false
	}
	w.descend(d, c, u)
	return true
}

// end takes what the objectives are where a decision ends, and the outages that have a limit near there.
func (d *descent) end(value float64, watch []bool) {
	d.watch = append(d.watch[:0], watch...)
	short, noise := d.promised-(d.value-value), worthwhile*d.value
	switch {
	case short > boxHalves*math.Abs(d.promised)+noise:
		d.box = math.Max(1, d.box/2)
	case d.bounded && short < boxDoubles*math.Abs(d.promised)+noise:
		d.box = math.Min(widestBox, 2*d.box)
	}
}

// descend moves a dispatch towards the least weighted objectives, by the program of a certificate with the limits
// after the watched outages, in a box about the dispatch.
func (w *workspace) descend(d *descent, c, u []float64) {
	if w.certificate == nil {
		w.certificate = newCertificate(w)
	}
	w.slopes(c, d.weights)
	w.boxes(c, u)
	p, gens := w.projection, w.system.layout.gens
	step := func(entry int) float64 {
		if entry >= gens {
			return costVoltageStep
		}
		return d.box * costPowerStep
	}
	for j, entry := range p.control {
		p.program.lo[j], p.program.hi[j] = math.Max(p.program.lo[j], -step(entry)), math.Min(p.program.hi[j], step(entry))
	}
	w.prices(c, w.system.inert(), d.weights[economic], &d.active)
	d.gain = 0
	for j, entry := range p.control {
		x := p.program.x[j]
		d.gain -= w.certificate.slope[j] * x
		if entry < gens {
			cost := &w.system.Network.Cost[entry]
			before, _, _ := cost.At(u[entry])
			after, _, _ := cost.At(u[entry] + x)
			d.gain -= d.weights[economic] * (after - before)
		}
		d.bounded = d.bounded || entry < gens && math.Abs(x) >= step(entry)
		u[entry] += x
	}
	d.promised += d.gain
	w.cached = false
}
