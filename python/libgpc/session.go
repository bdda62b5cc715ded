package main

/*
#include <stdint.h>
*/
import "C"

import (
	"cmp"
	"math"
	"runtime"
	"slices"
	"time"
	"unsafe"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
)

//export gpc_cases
func gpc_cases(out **C.char, err **C.char) C.int32_t {
	return try(err, func() error {
		k := catalogue()
		var all []gpc.Description
		for _, c := range k.All() {
			all = append(all, c.Describe())
		}
		return answer(out, all)
	})
}

// sessionInfo is what a session is.
type sessionInfo struct {
	Case    string   `json:"case"`
	Method  string   `json:"method"`
	Model   string   `json:"model"` // its file, "" for the bundled one
	Backend string   `json:"backend"`
	ISA     string   `json:"isa"`
	Device  string   `json:"device"`
	Threads int      `json:"threads"`
	Reason  string   `json:"reason"`
	Notices []string `json:"notices"` // of a GPU that was left, of scenes that maps are not made for
}

//export gpc_about
func gpc_about(h C.uintptr_t, out **C.char, err **C.char) C.int32_t {
	return onHandle(h, err, func(s *session) error {
		a := s.engine.About()
		return answer(out, sessionInfo{s.staged.Name(), s.setup.Method, s.file, a.Backend, a.ISA, a.Device, a.Threads, a.Reason, s.notices.all()})
	})
}

//export gpc_methods
func gpc_methods(h C.uintptr_t, out **C.char, err **C.char) C.int32_t {
	return onHandle(h, err, func(s *session) error {
		return answer(out, s.staged.DescribeMethods())
	})
}

// described is a spec with the latent dimension of the session's own map, 0 for a method without one.
func (s *session) described(spec *domain.Spec) gpc.SpecDescription {
	d := gpc.DescribeSpec(spec)
	d.Latent = 0
	if s.setup.Model != nil {
		d.Latent = s.setup.Model.Latent()
	}
	return d
}

func fallbacks() (names []string) {
	for f := domain.Fallback(1); f.Known(); f <<= 1 {
		names = append(names, f.String())
	}
	return names
}

//export gpc_spec
func gpc_spec(h C.uintptr_t, out **C.char, err **C.char) C.int32_t {
	return onHandle(h, err, func(s *session) error {
		return answer(out, struct {
			Spec gpc.SpecDescription `json:"spec"`
			Map  gpc.SpecDescription `json:"map_spec"` // of what the map is about
			// Fallbacks are the names of the bits of a fallback, from bit 0.
			Fallbacks []string `json:"fallbacks"`
			// Outputs are what is measured for loops that do not say otherwise, none where they have no estimator.
			Outputs []string `json:"outputs"`
			// Unread are the places of the context that are estimated.
			Unread []int `json:"unread"`
			// Remarks are those on the case.
			Remarks []string `json:"remarks"`
		}{s.described(s.staged.Spec()), s.described(s.staged.MapSpec()), fallbacks(), s.outputs(), s.unread(), s.catalogued.Remarks()})
	})
}

func (s *session) unread() (places []int) {
	if m := s.staged.Definition().Measurement; m != nil {
		for _, p := range m.Unknown {
			places = append(places, p.Context)
		}
	}
	return places
}

func (s *session) outputs() []string {
	all := []domain.Variable{}
	if s.measured.Estimate != nil {
		all = s.staged.Spec().Measured
	} else if m := s.staged.Definition().Measurement; m != nil {
		all = m.Outputs
	}
	list := make([]string, len(all))
	for i, v := range all {
		list[i] = v.Name
	}
	return list
}

// scene is how test episodes are drawn.
type scene struct {
	Seed       uint64             `json:"seed"`
	Regime     string             `json:"regime"`
	Noise      float64            `json:"noise"`
	Bias       float64            `json:"bias"`
	Preference []float64          `json:"preference"` // null: adaptive
	Shift      map[string]float64 `json:"shift"`
}

// preference is a list of weights as those of the command line, null for the adaptive mode.
func preference(weights []float64, spec *domain.Spec) (domain.Preference, error) {
	if weights == nil {
		return domain.Preference{Adaptive: true}, nil
	}
	p := domain.Preference{W: weights}
	return p, gpc.BadInput(p.Validate(spec.ObjectiveSize()))
}

//export gpc_observe
func gpc_observe(h C.uintptr_t, opt *C.char, state *C.double, states C.int64_t, ctx *C.double, contexts C.int64_t, err **C.char) C.int32_t {
	return onCall(h, opt, 0, err, func(s *session, o *struct {
		scene
		Episode int `json:"episode"`
	}, _ *run) error {
		spec := s.staged.Spec()
		var a views
		dstState, dstContext := viewed[float64](&a, "state", unsafe.Pointer(state), states, spec.MeasuredSize()), viewed[float64](&a, "context", unsafe.Pointer(ctx), contexts, spec.ContextSize())
		if a.err != nil {
			return a.err
		}
		pref, err := preference(o.Preference, spec)
		if err != nil {
			return err
		}
		var first batchnav.Observation
		if s.scenes != nil {
			first, err = s.firstObservation(o.Episode, o.scene, pref)
		} else {
			var c *gpc.Case
			if c, err = s.staged.Shifted(o.Shift); err == nil {
				first, err = c.Observe(o.Seed, o.Episode, domain.EpisodeOptions{Noise: o.Noise, Regime: o.Regime, Preference: pref})
			}
		}
		if err != nil {
			return err
		}
		copy(dstState, first.S)
		copy(dstContext, first.C)
		return nil
	})
}

// rows are n observations of the caller's.
func (a *views) rows(spec *domain.Spec, n int, state *C.double, states C.int64_t, ctx *C.double, contexts C.int64_t, weights *C.double, nweights C.int64_t) batchnav.Rows {
	return batchnav.Rows{
		S: viewed[float64](a, "state", unsafe.Pointer(state), states, n*spec.MeasuredSize()),
		C: viewed[float64](a, "context", unsafe.Pointer(ctx), contexts, n*spec.ContextSize()),
		W: viewed[float64](a, "preference", unsafe.Pointer(weights), nweights, n*spec.ObjectiveSize()),
	}
}

// one is a single observation of the caller's.
func one(spec *domain.Spec, state *C.double, states C.int64_t, ctx *C.double, contexts C.int64_t, weights *C.double, nweights C.int64_t) (o batchnav.Observation, err error) {
	var a views
	rows := a.rows(spec, 1, state, states, ctx, contexts, weights, nweights)
	if a.err != nil {
		return o, a.err
	}
	return rows.At(spec, 0), check(spec, rows, 1, false)
}

// check names the first entry that is not finite, but for those of the context that are not read.
func check(spec *domain.Spec, rows batchnav.Rows, n int, measured bool, unread ...domain.Unknown) error {
	for _, w := range []struct {
		name      string
		v         []float64
		variables []domain.Variable
	}{{"state", rows.S, spec.Measured}, {"context", rows.C, spec.Context}} {
		for i, x := range w.v {
			if x-x == 0 {
				continue
			}
			k := len(w.variables)
			if w.name == "state" && measured && math.IsNaN(x) {
				continue
			}
			if w.name == "context" && slices.ContainsFunc(unread, func(p domain.Unknown) bool { return p.Context == i%k }) {
				continue
			}
			if n > 1 {
				return wrongf("%s[%d, %d] (%s) is %v, want finite numbers", w.name, i/k, i%k, w.variables[i%k].Name, x)
			}
			return wrongf("%s[%d] (%s) is %v, want finite numbers", w.name, i, w.variables[i].Name, x)
		}
	}
	return nil
}

//export gpc_refine
func gpc_refine(h C.uintptr_t, opt *C.char, state *C.double, states C.int64_t, ctx *C.double, contexts C.int64_t, weights *C.double, nweights C.int64_t,
	out **C.char, cancel C.uintptr_t, err **C.char) C.int32_t {
	return onCall(h, opt, cancel, err, func(s *session, o *struct {
		Candidates   int     `json:"candidates"`
		FlowSteps    int     `json:"flow_steps"`
		Seed         uint64  `json:"seed"`
		LookAhead    int     `json:"look_ahead"`
		Remaining    int     `json:"remaining"`
		NoRounds     bool    `json:"no_rounds"`
		TimeLimit    float64 `json:"within_s"`
		NoProjection bool    `json:"no_projection"`
	}, run *run) error {
		spec := s.staged.Spec()
		in, err := one(spec, state, states, ctx, contexts, weights, nweights)
		if err != nil {
			return err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.refiner == nil {
			refiner, err := s.staged.Refiner(s.engine, s.setup, o.Candidates)
			if err != nil {
				return err
			}
			s.refiner = refiner
		}
		threads := cmp.Or(s.choice.Threads, runtime.GOMAXPROCS(0))
		r, err := s.refiner.Refine(run, in, batchnav.RefineOptions{
			Candidates: o.Candidates, FlowSteps: o.FlowSteps, Seed: o.Seed, LookAhead: o.LookAhead, Remaining: o.Remaining, NoRounds: o.NoRounds,
			TimeLimit: time.Duration(o.TimeLimit * float64(time.Second)), NoProjection: o.NoProjection, Threads: threads,
		})
		return answer(out, r, asBadInput(run, err)) // what Refine refuses is asked for
	})
}

//export gpc_front
func gpc_front(h C.uintptr_t, opt *C.char, state *C.double, states C.int64_t, ctx *C.double, contexts C.int64_t, out **C.char, cancel C.uintptr_t, err **C.char) C.int32_t {
	return onCall(h, opt, cancel, err, func(s *session, o *struct {
		Points    int         `json:"points"`
		Weights   [][]float64 `json:"weights"`
		LookAhead int         `json:"look_ahead"`
		Remaining int         `json:"remaining"`
		Exact     bool        `json:"exact"`
	}, run *run) error {
		spec := s.staged.Spec()
		in, err := one(spec, state, states, ctx, contexts, nil, 0)
		if err != nil {
			return err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		request := batchnav.FrontOptions{Weights: o.Weights, Points: o.Points, LookAhead: o.LookAhead, Remaining: o.Remaining, Polish: -1, Threads: cmp.Or(s.choice.Threads, runtime.GOMAXPROCS(0))}
		var f *batchnav.Front
		if o.Exact {
			f, err = s.staged.ExactFront(run, in, request, nil)
		} else {
			if s.fronts == nil {
				if s.fronts, err = s.staged.Fronts(s.engine, s.setup); err != nil {
					return err
				}
			}
			f, err = s.fronts.Front(run, in, request)
		}
		return answer(out, f, asBadInput(run, err)) // what Front refuses is asked for
	})
}

//export gpc_evaluate
func gpc_evaluate(h C.uintptr_t, opt *C.char, out **C.char, cancel C.uintptr_t, err **C.char) C.int32_t {
	return onCall(h, opt, cancel, err, func(s *session, o *struct {
		scene
		Method     string `json:"method"`
		Candidates int    `json:"candidates"`
		Scene      string `json:"scene"`
		Episodes   *int   `json:"episodes"` // null: as many as are usual, or as scenes
		Only       *int   `json:"only"`     // episode, without its optimum; null: all
		Parallel   int    `json:"parallel"`
		Trace      string `json:"trace"`
		Resume     bool   `json:"resume"`
		plant
		measured
		Steps     *int      `json:"steps"` // null: the case's
		Budget    float64   `json:"budget_s"`
		Computing []float64 `json:"computing_s"`
	}, run *run) error {
		setup, err := s.setupOf(o.Method)
		if err != nil {
			return err
		}
		setup.Candidates = o.Candidates
		if err := checkOutput("trace", o.Trace); err != nil {
			return err
		}
		evaluation := closedloop.Options{
			Seed: o.Seed, Noise: o.Noise, Regime: o.Regime, Bias: o.Bias, Threads: o.Parallel, TracePath: o.Trace, Resume: o.Resume, Progress: run.progress, CheckIntegration: true, Budget: time.Duration(o.Budget * float64(time.Second)),
		}
		c, err := s.run(o.Scene, o.scene, o.Episodes, &evaluation)
		if err != nil {
			return err
		}
		if o.Only != nil {
			evaluation.ShardIndex, evaluation.ShardCount, evaluation.WithoutOptima = *o.Only, *o.Only+1, true
		}
		if c, err = o.drives(c, s.catalogued); err != nil {
			return err
		}
		if o.Steps != nil {
			if c, err = c.Driven(*o.Steps); err != nil {
				return err
			}
		}
		sensors := o.measured.or(s.measured)
		if c, err = sensors.apply(c, s.uncertain); err != nil {
			return err
		}
		if evaluation.Computing, err = computing(o.Computing); err != nil {
			return err
		}
		if evaluation.Preference, err = preference(o.Preference, c.Spec()); err != nil {
			return err
		}
		r, err := c.Evaluate(run, setup, s.choice, evaluation)
		if err != nil {
			return err
		}
		r.Findings = s.catalogued.Findings()
		return answer(out, r)
	})
}
