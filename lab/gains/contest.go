package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
)

// contender is a method with what it knows of the gains.
type contender struct{ method, gains string }

// What a contender knows of the gains: themselves, their estimates, or nothing, so that it takes them for 1.
const (
	known     = "known"
	estimated = "estimated"
	unknown   = "unknown"
)

// contenders are driven in each system. The others are set beside the first.
var contenders = []contender{{"nmpc", known}, {"nmpc", estimated}, {"direct", estimated}, {"nmpc", unknown}, {"direct", unknown}}

// contest is a system with gains that an episode draws, and what decides in it.
type contest struct {
	plant *gpc.Case            // in which all are driven
	by    map[string]*gpc.Case // that decide, by what they know
	gains span
}

// newContest is that of a system.
func newContest(c *gpc.Case) (*contest, error) {
	gained, err := c.UncertainGains(share)
	if err != nil {
		return nil, err
	}
	k := &contest{by: map[string]*gpc.Case{}}
	for what, of := range map[string]*gpc.Case{known: gained, estimated: gained, unknown: c} {
		if of, err = of.Measured(domain.Whole(of.Spec(), noise)); err != nil {
			return nil, err
		}
		if what == known {
			told := *of.Definition().Measurement
			told.Unknown = nil
			of.Definition().Measurement = &told
		}
		if k.by[what], err = of.Robust(level); err != nil {
			return nil, err
		}
	}
	k.plant = k.by[estimated]
	k.plant.Definition().Plant.(*closedloop.Simulation).Oracle = nil // the first contender is the reference
	_, all := k.plant.Definition().Problem.(*equations.Problem).UncertainGains()
	k.gains = span{all[0].Context, all[0].Context + len(all)}
	return k, nil
}

// resolve reads what a contender decides by. The map of a model is in a folder, or bundled where it is not there.
func (k *contest) resolve(one contender, maps string) (*gpc.Resolved, error) {
	c := k.by[one.gains]
	file := filepath.Join(maps, c.Name()+".safetensors")
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) && c.Bundled() {
		file = ""
	}
	s, err := c.Setup(one.method, file)
	if err != nil {
		return nil, fmt.Errorf("%w (lab/scripts/gains.sh compiles it)", err)
	}
	return c.Resolve(s)
}

// controller is a contender that is given what an episode of the plant shows.
func (k *contest) controller(one contender, made *gpc.Resolved, e *gpc.Engine) (domain.Controller, error) {
	inner, err := made.Controller(e)
	if err != nil {
		return nil, err
	}
	switch one.gains {
	case known:
		return k.gains.told(inner, k.plant.Spec()), nil
	case unknown:
		return k.gains.hidden(inner), nil
	}
	return inner, nil
}

// span are the entries of a context that are gains.
type span struct{ from, to int }

// wrapped is a controller with abilities, and a beginning of an episode, in place of its own.
type wrapped struct {
	domain.Controller
	may   domain.ControllerAbilities
	reset func(ep domain.Episode) error
}

// Abilities implements domain.Able.
func (w *wrapped) Abilities() *domain.ControllerAbilities { return &w.may }

// Reset implements domain.Controller.
func (w *wrapped) Reset(ep domain.Episode) error { return w.reset(ep) }

// told is a controller whose context has the gains of the episode.
func (g span) told(inner domain.Controller, spec *domain.Spec) domain.Controller {
	s, truth := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize())
	w := &wrapped{Controller: inner, may: *domain.AbilitiesOfController(inner)}
	w.reset = func(ep domain.Episode) error {
		ep.Observe(s, truth)
		return inner.Reset(ep)
	}
	decide := w.may.DecideMeasured
	w.may.DecideMeasured = func(y, c []float64, pref domain.Preference, s, estimate, u []float64) (domain.Decision, error) {
		copy(c[g.from:g.to], truth[g.from:g.to])
		return decide(y, c, pref, s, estimate, u)
	}
	return w
}

// hidden is a controller of the model without gains, which has no place for them in its context. They are 1 in what it
// has decided by.
func (g span) hidden(inner domain.Controller) domain.Controller {
	w := &wrapped{Controller: inner, may: *domain.AbilitiesOfController(inner), reset: inner.Reset}
	decide := w.may.DecideMeasured
	var own, its []float64
	w.may.DecideMeasured = func(y, c []float64, pref domain.Preference, s, estimate, u []float64) (domain.Decision, error) {
		own = append(append(own[:0], c[:g.from]...), c[g.to:]...)
		its = append(its[:0], own...)
		d, err := decide(y, own, pref, s, its, u)
		copy(estimate, its[:g.from])
		for i := g.from; i < g.to; i++ {
			estimate[i] = 1
		}
		copy(estimate[g.to:], its[g.from:])
		return d, err
	}
	return w
}
