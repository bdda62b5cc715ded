package main

import (
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/simd/isa"
	"github.com/gpc-engine/gpc/internal/testing/backendtest"
	"github.com/gpc-engine/gpc/paper/multiagent/rollout"
	"github.com/gpc-engine/gpc/paper/multiagent/rollout/rollouttest"
)

// planDeviations are those of Case 2's roll-out on what a backend computes with: its
// device, its instruction set, or, for the reference, rounding alone.
func planDeviations(b backend.Backend) ([]backendtest.Deviation, error) {
	var v rollout.Evaluator
	if device, ok := b.(domain.Accelerator); ok {
		made, err := rollout.NewDevice(device)
		if err != nil {
			return nil, err
		}
		v = made
	}
	for _, level := range isa.Available() {
		if d := b.Describe(); v == nil && d.Name == "cpu" && d.ISA == level.String() {
			v = rollout.NewProcessor(rollout.On(level))
		}
	}
	plans, err := rollouttest.Deviations(v, rows)
	if err != nil {
		return nil, err
	}
	list := make([]backendtest.Deviation, len(plans))
	for i, p := range plans {
		list[i] = backendtest.Deviation{Operation: p.Operation, Size: p.Size, Absolute: p.Absolute, Relative: p.Relative}
	}
	return list, nil
}
