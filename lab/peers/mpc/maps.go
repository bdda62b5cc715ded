//go:build linux

package main

import (
	"runtime"
	"slices"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/examples/gallery/models"
	"github.com/gpc-engine/gpc/internal/machine"
	"github.com/gpc-engine/gpc/internal/testing/thread"
)

// shootingName is what maps are compared with as if it were a peer: our own solver, warm.
const shootingName = "package shooting"

// decide times the decisions of a system's map in the states of the episodes, one closed
// loop a method: the map alone, the map with its guard, and the method that it was compiled
// for, without what it does between decisions. A system without a bundled map has none.
func (e *episodes) decide(y equations.System) error {
	definition, err := y.Case()
	if err != nil {
		return err
	}
	catalogue := gpc.Catalogue{Cases: []domain.Case{definition}, Models: models.Bundled}
	c, err := catalogue.Find(y.Name)
	if err != nil || !c.Bundled() {
		return err
	}
	engine, err := gpc.OpenEngine(engine.Options{Backend: "cpu", Threads: 1})
	if err != nil {
		return err
	}
	defer engine.Close()
	compiled, err := c.Setup("", "")
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	methods := []string{"direct-no-guard", "direct", compiled.Method}
	slices.Sort(methods)
	for _, method := range slices.Compact(methods) {
		setup, err := c.Setup(method, "")
		if err != nil {
			return err
		}
		loop, err := c.Loop(engine, setup)
		if err != nil {
			return err
		}
		m := mapped{method: method, us: make([]float64, len(e.Decisions))}
		for range 2 { // the first time pays for caches
			for i, d := range e.Decisions {
				if d.First {
					loop.Reset()
				}
				began := machine.Microseconds(thread.CPU())
				_, err := loop.Decide(d.States[0], d.Contexts[0], domain.Preference{W: d.Weights})
				m.us[i] = machine.Microseconds(thread.CPU()) - began
				if err == nil {
					err = loop.Prepare() // the next decision, where the method works between them
				}
				if err != nil {
					return err
				}
			}
		}
		e.mapped = append(e.mapped, m)
	}
	return nil
}

// shot is our own solver in a peer's place.
func shot(e episodes) peer {
	var p peer
	for _, d := range e.Decisions {
		p.Times = append(p.Times, d.us)
		if !d.solved {
			p.Unsolved++
		}
	}
	return p
}
