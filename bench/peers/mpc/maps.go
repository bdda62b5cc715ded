//go:build linux

package main

import (
	"errors"
	"io/fs"
	"os"
	"runtime"
	"slices"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/domain/equations"
)

// shootingName is what maps are compared with as if it were a peer: our own solver, warm.
const shootingName = "package shooting"

// decide times the decisions of a system's map in the states of the episodes, one closed
// loop a method: the map alone, the map with its guard, and the method that it was compiled
// for. A file that is not there is no map.
func (e *episodes) decide(y equations.System, file string) error {
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	definition, err := y.Case()
	if err != nil {
		return err
	}
	c, err := gpc.NewCase(definition)
	if err != nil {
		return err
	}
	engine, err := gpc.OpenEngine(gpc.EngineOptions{Backend: "cpu", Threads: 1})
	if err != nil {
		return err
	}
	defer engine.Close()
	compiled, err := c.Setup("", file)
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	methods := []string{"direct-no-guard", "direct", compiled.Method}
	slices.Sort(methods)
	for _, method := range slices.Compact(methods) {
		setup, err := c.Setup(method, file)
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
				began := cpuMicroseconds()
				_, err := loop.Decide(d.States[0], d.Contexts[0], domain.Preference{W: d.Weights})
				m.us[i] = cpuMicroseconds() - began
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
