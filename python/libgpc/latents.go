package main

/*
#include <stdint.h>
*/
import "C"

import (
	"unsafe"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

// matrix is rows of latents, or of what is about them, of the caller's.
func (a *views) matrix(name string, p *C.float, length C.int64_t, n C.int64_t, cols int) tensor.Matrix {
	data := viewed[float32](a, name, unsafe.Pointer(p), length, int(n)*cols)
	if data == nil {
		return tensor.Matrix{Cols: cols, Stride: cols}
	}
	return tensor.Matrix{Rows: int(n), Cols: cols, Stride: cols, Data: data}
}

// operate runs an operation of a session's map.
func operate(h C.uintptr_t, err **C.char, f func(l *batchnav.Latents, spec *domain.Spec, a *views) error) C.int32_t {
	return onHandle(h, err, func(s *session) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.operations == nil {
			operations, err := s.staged.Latents(s.engine, s.setup)
			if err != nil {
				return err
			}
			s.operations = operations
		}
		return f(s.operations, s.staged.MapSpec(), new(views))
	})
}

// gpc_encode writes latents [n, n_z] of observations of what the map is about, localized on
// the manifold or not.
//
//export gpc_encode
func gpc_encode(h C.uintptr_t, n, localized C.int64_t, state *C.double, states C.int64_t, ctx *C.double, contexts C.int64_t, weights *C.double, nweights C.int64_t,
	latent *C.float, latents C.int64_t, err **C.char) C.int32_t {
	return operate(h, err, func(l *batchnav.Latents, spec *domain.Spec, a *views) error {
		rows := a.rows(spec, int(n), state, states, ctx, contexts, weights, nweights)
		z := a.matrix("latent", latent, latents, n, l.Size())
		if a.err != nil {
			return a.err
		}
		return gpc.BadInput(l.Encode(rows, localized != 0, z))
	})
}

// gpc_decode writes plans [n, plan] and states [n, n_s], either may be left out.
//
//export gpc_decode
func gpc_decode(h C.uintptr_t, n C.int64_t, latent *C.float, latents C.int64_t, state *C.double, states C.int64_t, ctx *C.double, contexts C.int64_t,
	plan *C.float, plans C.int64_t, decoded *C.float, ndecoded C.int64_t, err **C.char) C.int32_t {
	return operate(h, err, func(l *batchnav.Latents, spec *domain.Spec, a *views) error {
		rows := a.rows(spec, int(n), state, states, ctx, contexts, nil, 0)
		z := a.matrix("latent", latent, latents, n, l.Size())
		u := a.matrix("plan", plan, plans, n, spec.PlanSize())
		shat := a.matrix("decoded", decoded, ndecoded, n, spec.MeasuredSize())
		if a.err != nil {
			return a.err
		}
		return gpc.BadInput(l.Decode(z, rows, u, shat))
	})
}

// gpc_jacobian writes derivatives of plans [n, plan, n_z], or of states [n, n_s, n_z].
//
//export gpc_jacobian
func gpc_jacobian(h C.uintptr_t, n, ofStates C.int64_t, latent *C.float, latents C.int64_t, jacobian *C.float, jacobians C.int64_t, err **C.char) C.int32_t {
	return operate(h, err, func(l *batchnav.Latents, spec *domain.Spec, a *views) error {
		decoder, size := batchnav.DecoderU, spec.PlanSize()
		if ofStates != 0 {
			decoder, size = batchnav.DecoderS, spec.MeasuredSize()
		}
		z := a.matrix("latent", latent, latents, n, l.Size())
		jac := a.matrix("jacobian", jacobian, jacobians, n, size*l.Size())
		if a.err != nil {
			return a.err
		}
		return gpc.BadInput(l.Jacobian(decoder, z, jac))
	})
}

// gpc_step writes moved latents [n, n_z], their plans [n, plan], energies [n] and priorities
// [n, M]; any may be left out.
//
//export gpc_step
func gpc_step(h C.uintptr_t, n C.int64_t, latent *C.float, latents C.int64_t, state *C.double, states C.int64_t, ctx *C.double, contexts C.int64_t, weights *C.double, nweights C.int64_t,
	nextLatent *C.float, nmoved C.int64_t, plan *C.float, plans C.int64_t, energy *C.double, energies C.int64_t, sigma *C.double, sigmas C.int64_t, err **C.char) C.int32_t {
	return operate(h, err, func(l *batchnav.Latents, spec *domain.Spec, a *views) error {
		in := a.rows(spec, int(n), state, states, ctx, contexts, weights, nweights)
		z := a.matrix("latent", latent, latents, n, l.Size())
		out := batchnav.Moved{
			Z: a.matrix("moved", nextLatent, nmoved, n, l.Size()), U: a.matrix("plan", plan, plans, n, spec.PlanSize()),
			Energy: viewed[float64](a, "energy", unsafe.Pointer(energy), energies, int(n)),
			Sigma:  viewed[float64](a, "sigma", unsafe.Pointer(sigma), sigmas, int(n)*spec.ObjectiveSize()),
		}
		if a.err != nil {
			return a.err
		}
		return gpc.BadInput(l.Step(z, in, out))
	})
}
