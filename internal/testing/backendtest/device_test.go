package backendtest

import (
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/tensor"
)

// onHost are device functions that are the problem's own methods, but for what spoil
// does to their results.
type onHost struct {
	gradient func(*backend.DeviceGradients)
	step     func(*backend.DeviceSteps)
}

func (h onHost) DeviceGradient(p domain.Problem, at backend.DeviceRows) (r backend.DeviceGradients, err error) {
	spec := p.Spec()
	for i := range at.S {
		s, c, u := rounded(at.S[i]), rounded(at.C[i]), rounded(at.U[i])
		J, gs, gu, base := make([]float64, spec.ObjectiveSize()), make([]float64, len(s)), make([]float64, len(u)), make([]float64, spec.PlanSize())
		p.Objectives(s, u, c, J)
		p.Gradient(s, u, c, rounded(at.Sigma[i]), gs, gu)
		p.Base(s, c, base)
		for _, v := range []struct {
			to   *[]float32
			from []float64
		}{{&r.J, J}, {&r.GS, gs}, {&r.GU, gu}, {&r.Base, base}} {
			row := make([]float32, len(v.from))
			tensor.Narrow(row, v.from)
			*v.to = append(*v.to, row...)
		}
	}
	if h.gradient != nil {
		h.gradient(&r)
	}
	return r, nil
}

func (h onHost) DeviceStep(p domain.Problem, at backend.DeviceRows, project bool) (r backend.DeviceSteps, err error) {
	for i := range at.S {
		row := stepOf(p, at.S[i], at.C[i], rounded(at.U[i]), project)
		plan := make([]float64, p.Spec().PlanSize())
		copy(plan, row[0])
		input := make([]float32, len(row[5]))
		tensor.Narrow(input, row[5])
		r.Plan, r.S, r.C = append(r.Plan, plan...), append(r.S, row[1]...), append(r.C, row[2]...)
		r.Cost, r.Margin, r.Margins, r.Input = append(r.Cost, row[3][0]), append(r.Margin, row[3][1]), append(r.Margins, row[4]...), append(r.Input, input...)
	}
	if h.step != nil {
		h.step(&r)
	}
	return r, nil
}

// Device functions that agree pass; one number that is off is found, and named.
func TestDeviceFunctionsThatAreOff(t *testing.T) {
	c := toyCase()
	points := require.Get(domainStates(c, nil))(t)
	points = points[:12]
	if errs := checkDevice(onHost{}, c.Problem, slices.Clone(points)); len(errs) > 0 {
		t.Fatalf("the problem's own methods: %v", errs)
	}
	narrowed := func(v []float32) { v[len(v)-1] += 1e-3 * (1 + v[len(v)-1]) }
	wide := func(v []float64) { v[len(v)-1] += 1e-6 * (1 + v[len(v)-1]) }
	for what, off := range map[string]onHost{
		"J":            {gradient: func(r *backend.DeviceGradients) { narrowed(r.J) }},
		"∂/∂s":         {gradient: func(r *backend.DeviceGradients) { narrowed(r.GS) }},
		"∂/∂u":         {gradient: func(r *backend.DeviceGradients) { narrowed(r.GU) }},
		"base":         {gradient: func(r *backend.DeviceGradients) { narrowed(r.Base) }},
		"action":       {step: func(r *backend.DeviceSteps) { r.Plan[0] += 1e-6 }},
		"state":        {step: func(r *backend.DeviceSteps) { wide(r.S) }},
		"context":      {step: func(r *backend.DeviceSteps) { wide(r.C) }},
		"cost":         {step: func(r *backend.DeviceSteps) { wide(r.Cost) }},
		"margin":       {step: func(r *backend.DeviceSteps) { wide(r.Margin) }},
		"all margins":  {step: func(r *backend.DeviceSteps) { wide(r.Margins) }},
		"input of E_x": {step: func(r *backend.DeviceSteps) { narrowed(r.Input) }},
	} {
		errs := checkDevice(off, c.Problem, slices.Clone(points))
		if len(errs) == 0 || !strings.Contains(errs[0].Error(), what) {
			t.Errorf("%s is off: %v", what, errs)
		}
	}
}
