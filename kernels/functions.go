package kernels

import (
	"errors"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/kernels/driver"
)

var _ backend.DeviceFunctions = (*Backend)(nil)

// scratch is the work of one call with device memory of its own.
type scratch struct {
	*queue
	m memory
}

func place[T driver.Element](s *scratch, values []T) driver.Pointer {
	return uploaded(s.queue, &s.m, values)
}

func fetch[T driver.Element](s *scratch, to []T, from driver.Pointer) {
	s.enqueue(func() error { return driver.Download(s.t, to, from) })
}

// withFunctions runs f with the device functions of a problem.
func (b *Backend) withFunctions(p domain.Problem, f func(s *scratch, code *problemCode)) error {
	return b.execute(func(t *driver.Thread) error {
		s := &scratch{queue: b.queue(t)}
		code := newProblemCode(s.queue, &s.m, p)
		f(s, &code)
		return errors.Join(s.err, s.m.free(t))
	})
}

func narrow(rows [][]float64) []float32 {
	var v []float32
	for _, r := range rows {
		for _, x := range r {
			v = append(v, float32(x))
		}
	}
	return v
}

// DeviceGradient implements backend.DeviceFunctions.
func (b *Backend) DeviceGradient(p domain.Problem, points backend.DeviceRows) (backend.DeviceGradients, error) {
	spec, rows := p.Spec(), len(points.S)
	ns, nc, nu := spec.MeasuredSize(), spec.ContextSize(), spec.ActionSize()
	m, np := spec.ObjectiveSize(), spec.PlanSize()
	r := backend.DeviceGradients{J: make([]float32, rows*m), GS: make([]float32, rows*ns), GU: make([]float32, rows*nu), Base: make([]float32, rows*np)}
	err := b.withFunctions(p, func(s *scratch, code *problemCode) {
		batch := domainBatch{
			s: place(s, narrow(points.S)), u: place(s, narrow(points.U)), c: place(s, narrow(points.C)), sigma: place(s, narrow(points.Sigma)),
			J: place(s, r.J), gs: place(s, r.GS), gu: place(s, r.GU),
			lds: int32(ns), ldu: int32(nu), ldc: int32(nc), ldsigma: int32(m), ldJ: int32(m), ldgs: int32(ns), ldgu: int32(nu), rows: int32(rows),
		}
		base := place(s, r.Base)
		code.gradient(s.queue, &batch)
		code.base(s.queue, rows, inputs{x: batch.s, ctx: batch.c, ldx: ns, ldctx: nc}, base, np)
		fetch(s, r.J, batch.J)
		fetch(s, r.GS, batch.gs)
		fetch(s, r.GU, batch.gu)
		fetch(s, r.Base, base)
	})
	return r, err
}

// DeviceStep implements backend.DeviceFunctions.
func (b *Backend) DeviceStep(p domain.Problem, points backend.DeviceRows, project bool) (backend.DeviceSteps, error) {
	spec, rows := p.Spec(), len(points.S)
	np, m, width := spec.PlanSize(), spec.ObjectiveSize(), spec.ObservationSize()
	r := backend.DeviceSteps{
		Plan: make([]float64, rows*np), S: slices.Concat(points.S...), C: slices.Concat(points.C...),
		Cost: make([]float64, rows), Margin: make([]float64, rows), Margins: make([]float64, rows*len(spec.Margins)), Input: make([]float32, rows*width),
	}
	plans := make([]float32, rows*np) // of whose actions the first is taken
	for i := range rows {
		copy(plans[i*np:], narrow(points.U[i:i+1]))
	}
	mean, scale := make([]float32, width), make([]float32, width)
	for i := range mean {
		mean[i], scale[i] = backend.DeviceNormal(i)
	}
	err := b.withFunctions(p, func(s *scratch, code *problemCode) {
		job := rolloutJob{
			s: place(s, r.S), c: place(s, r.C), cost: place(s, r.Cost), margin: place(s, r.Margin), plan: place(s, plans), best: place(s, r.Plan),
			margins: place(s, r.Margins), input: place(s, r.Input), stateOut: place(s, make([]float32, len(r.S))), contextOut: place(s, make([]float32, len(r.C))),
			rows: int32(rows), encode: 1, project: flag(project), workspace: place(s, make([]float64, code.workspace/8*code.inFlight(b, rows))),
		}
		preference := preferenceJob{
			weights: place(s, make([]float64, m)), slot: place(s, make([]float32, 1+m)), semantic: place(s, semanticOf(spec)),
			mean: place(s, mean), scale: place(s, scale), adaptive: 1,
		}
		code.rollout(s.queue, &job, &preference)
		fetch(s, r.S, job.s)
		fetch(s, r.C, job.c)
		fetch(s, r.Cost, job.cost)
		fetch(s, r.Margin, job.margin)
		fetch(s, r.Margins, job.margins)
		fetch(s, r.Plan, job.best)
		fetch(s, r.Input, job.input)
	})
	return r, err
}
