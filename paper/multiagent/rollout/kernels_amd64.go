//go:build amd64 && !purego

package rollout

import "github.com/gpc-engine/gpc/internal/simd/isa"

//go:generate go -C _asm run . -out ../kernels_amd64.s -stubs ../stubs_amd64.go -pkg rollout

// assembled are the generated kernels of one instruction set, on lanes of the sixteen. Those that score margins are
// there without and with derivatives (first bit), and for discs without and with Exp (second bit).
type assembled struct {
	lanes int
	limit func(plan *float32, steps int, b *float32)
	track func(plan, path, goal *float32, steps int, m *float32, cost, constants *float32)
	discs [4]discsKernel
	pair  [2]pairKernel
	back  func(plan, path, grad, goal *float32, steps int, m *float32, out, constants *float32)
}

type (
	discsKernel func(path, discs *float32, count, steps int, p *float32, cost, low, safeSteps, grad, constants *float32)
	pairKernel  func(path, other *float32, radii float32, steps int, p *float32, cost, low, safeSteps, grad, otherGrad, constants *float32)
)

// kernelsOf returns the set of a level that package isa lists as available.
func kernelsOf(level isa.Level) kernels {
	switch level {
	case isa.AVX512:
		return (&assembled{
			16, limit512, track512,
			[4]discsKernel{discs512, discsGrad512, discsExp512, discsExpGrad512},
			[2]pairKernel{pairExp512, pairExpGrad512},
			back512,
		}).kernels()
	case isa.AVX2:
		return (&assembled{
			8, limit256, track256,
			[4]discsKernel{discs256, discsGrad256, discsExp256, discsExpGrad256},
			[2]pairKernel{pairExp256, pairExpGrad256},
			back256,
		}).kernels()
	}
	return generic
}

// variant chooses among the four.
func variant(p *Penalty[float32], grad bool) (i int) {
	if grad {
		i++
	}
	if p.Exp != (Vector[float32]{}) {
		i += 2
	}
	return i
}

// kernels calls the assembly for each part of the lanes that it works on.
func (a *assembled) kernels() kernels {
	table := &constants[0][0]
	first := func(v []float32, lane int) *float32 {
		if len(v) == 0 {
			return nil
		}
		return &v[lane]
	}
	return kernels{
		limit: func(plan []float32, steps int, b *Bounds[float32]) {
			for l := 0; l < Lanes; l += a.lanes {
				a.limit(first(plan, l), steps, &b.Previous[0])
			}
		},
		track: func(plan, path, goal []float32, steps int, m *Motion[float32], cost *Vector[float32]) {
			for l := 0; l < Lanes; l += a.lanes {
				a.track(first(plan, l), first(path, l), first(goal, 0), steps, &m.X[l], &cost[l], table)
			}
		},
		discs: func(path, discs []float32, count, steps int, p *Penalty[float32], cost, low, safeSteps *Vector[float32], grad []float32) {
			f := a.discs[variant(p, grad != nil)]
			for l := 0; l < Lanes; l += a.lanes {
				f(first(path, l), first(discs, 0), count, steps, &p.Exp[l], &cost[l], &low[l], &safeSteps[l], first(grad, l), table)
			}
		},
		pair: func(path, other []float32, radii float32, steps int, p *Penalty[float32], cost, low, safeSteps *Vector[float32], grad, otherGrad []float32) {
			f := a.pair[variant(p, grad != nil)&1]
			for l := 0; l < Lanes; l += a.lanes {
				f(first(path, l), first(other, l), radii, steps, &p.Exp[l], &cost[l], &low[l], &safeSteps[l], first(grad, l), first(otherGrad, l), table)
			}
		},
		back: func(plan, path, grad, goal []float32, steps int, m *Motion[float32], out []float32) {
			for l := 0; l < Lanes; l += a.lanes {
				a.back(first(plan, l), first(path, l), first(grad, l), first(goal, 0), steps, &m.X[l], first(out, l), table)
			}
		},
	}
}
