package main

/*
#include <stdint.h>
*/
import "C"

import (
	"context"
	"sync"
	"unsafe"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/closedloop/environment"
)

// fleet is environments of one case, of float32 or float64.
type fleet interface {
	description() any
	reset(ctx context.Context, seed *uint64, mask []bool, numbers []int64, rows []unsafe.Pointer) error
	step(ctx context.Context, rows []unsafe.Pointer) error
	physical(i int, a, u []float64) error
	size() int
	actions() int
	normalisation(ctx context.Context) (mean, deviation []float64, err error)
}

// fleetOf implements fleet.
type fleetOf[T environment.Float] struct {
	mu          sync.Mutex
	controlCase *gpc.Case
	opt         environment.Options
	*environment.Fleet[T]
}

func newFleet[T environment.Float](c *gpc.Case, opt environment.Options) (fleet, error) {
	f, err := environment.New[T](c.Definition(), opt)
	return &fleetOf[T]{controlCase: c, opt: opt, Fleet: f}, gpc.BadInput(err)
}

// Arrays of a step, in the order in which the caller has their addresses; 0 is one that is not wanted.
const (
	rowAction = iota
	rowObservation
	rowFinal
	rowReward
	rowCost
	rowViolated
	rowTerminated
	rowTruncated
	rowStepped
	rowObjectives
	rowMargins
	rowSigma
	rowEpisode
	rowCount
)

// rows are the caller's arrays.
func (f *fleetOf[T]) rows(arrays []unsafe.Pointer) *environment.Rows[T] {
	n := f.Environments()
	observation, action, objectives, margins := f.Sizes()
	return &environment.Rows[T]{
		Action: memory[T](arrays[rowAction], n*action), Observation: memory[T](arrays[rowObservation], n*observation), Final: memory[T](arrays[rowFinal], n*observation),
		Reward: memory[float64](arrays[rowReward], n), Cost: memory[float64](arrays[rowCost], n), Violated: memory[bool](arrays[rowViolated], n),
		Terminated: memory[bool](arrays[rowTerminated], n), Truncated: memory[bool](arrays[rowTruncated], n), IsStep: memory[bool](arrays[rowStepped], n),
		Objectives: memory[float64](arrays[rowObjectives], n*objectives), Margins: memory[float64](arrays[rowMargins], n*margins), Sigma: memory[float64](arrays[rowSigma], n*objectives),
		Episode: memory[int64](arrays[rowEpisode], n),
	}
}

// memory is n entries of the caller's, nil where there is no address.
func memory[V any](address unsafe.Pointer, n int) []V {
	if address == nil {
		return nil
	}
	return unsafe.Slice((*V)(address), n)
}

func (f *fleetOf[T]) size() int    { return f.Environments() }
func (f *fleetOf[T]) actions() int { return len(f.controlCase.Spec().Action) }

func (f *fleetOf[T]) reset(ctx context.Context, seed *uint64, mask []bool, numbers []int64, arrays []unsafe.Pointer) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if seed != nil {
		f.Seed(*seed)
	}
	return asBadInput(ctx, f.Reset(ctx, mask, numbers, f.rows(arrays)))
}

func (f *fleetOf[T]) step(ctx context.Context, arrays []unsafe.Pointer) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return asBadInput(ctx, f.Step(ctx, f.rows(arrays)))
}

// asBadInput marks an error as the caller's, who asked for such a step or such episodes, unless
// it is that of ctx.
func asBadInput(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	return gpc.BadInput(err)
}

func (f *fleetOf[T]) physical(i int, a, u []float64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i < 0 || i >= f.Environments() {
		return wrongf("environment %d, want 0 to the last of %d", i, f.Environments())
	}
	f.Physical(i, a, u)
	return nil
}

// normalisation is that of the bundled map where it is about the case's own problem, else
// the spread of first observations.
func (f *fleetOf[T]) normalisation(ctx context.Context) (mean, deviation []float64, err error) {
	if !f.controlCase.Bundled() || f.controlCase.Definition().Learned != nil {
		mean, deviation, err = environment.Spread(ctx, f.controlCase.Definition(), f.opt)
		return mean, deviation, asBadInput(ctx, err)
	}
	m, err := f.controlCase.Model("")
	if err != nil {
		return nil, nil, err
	}
	n, _, _, _ := f.Sizes()
	mean, deviation = make([]float64, n), make([]float64, n)
	for k := range n {
		mean[k], deviation[k] = float64(m.NormX.Mean[k]), float64(m.NormX.Scale[k])
	}
	return mean, deviation, nil
}

func (f *fleetOf[T]) description() any {
	return struct {
		Spec    gpc.SpecDescription `json:"spec"`
		Threads int                 `json:"threads"`
	}{gpc.DescribeSpec(f.controlCase.Spec()), f.Threads()}
}

//export gpc_fleet_new
func gpc_fleet_new(opt *C.char, out *C.uintptr_t, err **C.char) C.int32_t {
	return withOptions(opt, err, func(o *struct {
		Case         string             `json:"case"`
		System       string             `json:"system"` // the text of one, instead of a case
		Environments int                `json:"environments"`
		Seed         uint64             `json:"seed"`
		Cycle        int                `json:"cycle"`
		Preference   []float64          `json:"preference"` // none: adaptive
		Noise        float64            `json:"noise"`
		Regime       string             `json:"regime"`
		Shift        map[string]float64 `json:"shift"`
		Safeguard    bool               `json:"safeguard"`
		Past         bool               `json:"past"`
		FailureCost  float64            `json:"failure_cost"`
		Autoreset    string             `json:"autoreset"`
		Threads      int                `json:"threads"`
		Type         string             `json:"dtype"`
	}) error {
		c, err := findCase(o.Case, o.System)
		if err != nil {
			return err
		}
		if c, err = c.Shifted(o.Shift); err != nil {
			return err
		}
		pref, err := preference(o.Preference, c.Spec())
		if err != nil {
			return err
		}
		opts := environment.Options{
			Environments: o.Environments, Seed: o.Seed, Cycle: o.Cycle, Noise: o.Noise, Regime: o.Regime,
			Preference: pref, Safeguard: o.Safeguard, Past: o.Past, FailureCost: o.FailureCost, Autoreset: environment.Autoreset(o.Autoreset), Threads: o.Threads,
		}
		var f fleet
		switch o.Type {
		case "float32":
			f, err = newFleet[float32](c, opts)
		case "float64":
			f, err = newFleet[float64](c, opts)
		default:
			err = wrongf("dtype %q, want float32 or float64", o.Type)
		}
		if err != nil {
			return err
		}
		hand(out, f)
		return nil
	})
}

//export gpc_fleet_about
func gpc_fleet_about(h C.uintptr_t, out **C.char, err **C.char) C.int32_t {
	return onHandle(h, err, func(f fleet) error {
		return answer(out, f.description())
	})
}

// gpc_fleet_reset begins episodes. seeded is 0 or 1: whether seed is taken, from which number
// i on in environment i. marked marks the environments that are meant, numbers are the episodes; both
// may be left out.
//
//export gpc_fleet_reset
func gpc_fleet_reset(h C.uintptr_t, seeded C.int64_t, seed C.uint64_t, marked unsafe.Pointer, marks C.int64_t, numbers unsafe.Pointer, episodes C.int64_t,
	rows unsafe.Pointer, arrays C.int64_t, cancel C.uintptr_t, err **C.char) C.int32_t {
	return try(err, func() error {
		call, err := stepping(h, rows, arrays, cancel)
		if err != nil {
			return err
		}
		var a views
		n := call.fleet.size()
		mask, number := viewed[bool](&a, "which", marked, marks, n), viewed[int64](&a, "numbers", numbers, episodes, n)
		if a.err != nil {
			return a.err
		}
		var start *uint64
		if s := uint64(seed); seeded != 0 {
			start = &s
		}
		return call.fleet.reset(call.ctx, start, mask, number, call.rows)
	})
}

//export gpc_fleet_step
func gpc_fleet_step(h C.uintptr_t, rows unsafe.Pointer, arrays C.int64_t, cancel C.uintptr_t, err **C.char) C.int32_t {
	return try(err, func() error {
		call, err := stepping(h, rows, arrays, cancel)
		if err != nil {
			return err
		}
		return call.fleet.step(call.ctx, call.rows)
	})
}

// fleetCall is what a call that reads and writes rows needs.
type fleetCall struct {
	fleet fleet
	rows  []unsafe.Pointer
	ctx   context.Context
}

// stepping is such a call of a handle.
func stepping(h C.uintptr_t, rows unsafe.Pointer, arrays C.int64_t, cancel C.uintptr_t) (call fleetCall, err error) {
	if call.fleet, _, err = fromHandle[fleet](h); err != nil { // which nothing closes
		return call, err
	}
	call.rows, err = view[unsafe.Pointer]("rows", rows, arrays, rowCount)
	if err == nil && call.rows == nil {
		err = wrongf("rows are missing, want %d addresses", rowCount)
	}
	if err != nil {
		return call, err
	}
	call.ctx, err = runOf(cancel)
	return call, err
}

//export gpc_fleet_physical
func gpc_fleet_physical(h C.uintptr_t, i C.int64_t, a, u unsafe.Pointer, entries C.int64_t, err **C.char) C.int32_t {
	return onHandle(h, err, func(f fleet) error {
		var r views
		from, to := viewed[float64](&r, "action", a, entries, f.actions()), viewed[float64](&r, "physical action", u, entries, f.actions())
		if r.err != nil {
			return r.err
		}
		if from == nil || to == nil {
			return wrongf("an action is missing")
		}
		return f.physical(int(i), from, to)
	})
}

//export gpc_fleet_normalisation
func gpc_fleet_normalisation(h C.uintptr_t, mean, deviation unsafe.Pointer, entries C.int64_t, cancel C.uintptr_t, err **C.char) C.int32_t {
	return onHandle(h, err, func(f fleet) error {
		r, err := runOf(cancel)
		if err != nil {
			return err
		}
		m, d, err := f.normalisation(r)
		if err != nil {
			return err
		}
		for _, v := range []struct {
			name    string
			address unsafe.Pointer
			from    []float64
		}{{"mean", mean, m}, {"deviation", deviation, d}} {
			to, err := view[float64](v.name, v.address, entries, len(v.from))
			if err != nil {
				return err
			}
			copy(to, v.from)
		}
		return nil
	})
}
