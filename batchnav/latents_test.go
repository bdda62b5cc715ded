package batchnav_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/tensor"
)

func latents(t *testing.T) (*batchnav.Latents, *testdomain.Cart, batchnav.Rows) {
	t.Helper()
	cart := testdomain.NewCart(50)
	l := require.Get(batchnav.NewLatents(ref.New(), testdomain.Map(cart, 13, false), cart, batchnav.Options{}))(t)
	return l, cart, batchnav.Rows{S: []float64{0.3, -0.2, -0.5, 0.1}, C: []float64{0, 0}, W: []float64{0.75, 0.25, 0.5, 0.5}}
}

// The Jacobians are the derivatives of what Decode gives.
func TestJacobiansAreThoseOfTheDecoders(t *testing.T) {
	l, cart, in := latents(t)
	spec, nz := cart.Spec(), l.Size()
	z := tensor.New(2, nz)
	require.OK(t, l.Encode(in, false, z))
	for of, size := range map[batchnav.Decoder]int{batchnav.DecoderU: spec.PlanSize(), batchnav.DecoderS: spec.MeasuredSize()} {
		jac := tensor.New(2, size*nz)
		require.OK(t, l.Jacobian(of, z, jac))
		decode := func(z tensor.Matrix) tensor.Matrix {
			u, s := tensor.New(2, spec.PlanSize()), tensor.New(2, spec.MeasuredSize())
			require.OK(t, l.Decode(z, in, u, s))
			if of == batchnav.DecoderU {
				return u
			}
			return s
		}
		const h = 1e-2 // float32 outputs
		for k := range nz {
			up, down := z.Clone(), z.Clone()
			for i := range 2 {
				up.Row(i)[k] += h
				down.Row(i)[k] -= h
			}
			a, b := decode(up), decode(down)
			for i := range 2 {
				for j := range size {
					want := float64(a.Row(i)[j]-b.Row(i)[j]) / float64(up.Row(i)[k]-down.Row(i)[k])
					if got := float64(jac.Row(i)[j*nz+k]); math.Abs(got-want) > 1e-3*(1+math.Abs(want)) {
						t.Errorf("decoder %d, row %d: derivative of %d in %d is %g, by differences %g", of, i, j, k, got, want)
					}
				}
			}
		}
	}
}

// A latent step from a latent is independent of the rows beside it.
func TestRowsOfAStepAreApart(t *testing.T) {
	l, _, in := latents(t)
	nz := l.Size()
	z, both, one := tensor.New(2, nz), tensor.New(2, nz), tensor.New(1, nz)
	require.OK(t, l.Encode(in, true, z))
	energy := make([]float64, 2)
	require.OK(t, l.Step(z, in, batchnav.Moved{Z: both, Energy: energy}))
	alone := make([]float64, 1)
	plans, alonePlan := tensor.New(2, 1), tensor.New(1, 1)
	require.OK(t, l.Decode(z, in, plans, tensor.Matrix{}))
	require.OK(t, l.Decode(z.Slice(1, 2), batchnav.Rows{S: in.S[2:], C: in.C[1:], W: in.W[2:]}, alonePlan, tensor.Matrix{}))
	if alonePlan.Row(0)[0] != plans.Row(1)[0] || alonePlan.Row(0)[0] == 0 {
		t.Errorf("a plan alone is %v, next to another %v", alonePlan.Row(0), plans.Row(1))
	}
	sigma := make([]float64, 4)
	require.OK(t, l.Step(z, in, batchnav.Moved{Sigma: sigma}))
	if !slices.Equal(sigma, in.W) {
		t.Errorf("priorities %v, want %v", sigma, in.W)
	}
	require.OK(t, l.Step(z.Slice(1, 2), batchnav.Rows{S: in.S[2:], C: in.C[1:], W: in.W[2:]}, batchnav.Moved{Z: one, Energy: alone}))
	for j, v := range one.Row(0) {
		if v != both.Row(1)[j] || alone[0] != energy[1] {
			t.Fatalf("alone %v with energy %g, beside another %v with %g", one.Row(0), alone[0], both.Row(1), energy[1])
		}
	}
}

func TestLatentsRefuse(t *testing.T) {
	l, cart, in := latents(t)
	z := tensor.New(2, l.Size())
	require.OK(t, l.Encode(in, false, z))
	nan, lost := in, z.Clone()
	nan.S = []float64{0, 0, math.NaN(), 0}
	lost.Row(1)[0] = float32(math.Inf(1))
	for text, err := range map[string]error{
		"observation 1":           l.Encode(nan, false, z),
		"states have 3":           l.Encode(batchnav.Rows{S: in.S[:3], C: in.C}, false, z),
		"weights have 3":          l.Encode(batchnav.Rows{S: in.S, C: in.C, W: in.W[:3]}, false, z),
		"latent 1 is not finite":  l.Jacobian(batchnav.DecoderU, lost, tensor.New(2, cart.Spec().PlanSize()*l.Size())),
		"jacobian: jac":           l.Jacobian(batchnav.DecoderS, z, tensor.New(2, 1)),
		"1 energies":              l.Step(z, in, batchnav.Moved{Energy: make([]float64, 1)}),
		"encode: z":               l.Encode(in, false, tensor.New(2, 1)),
		"3 priorities":            l.Step(z, in, batchnav.Moved{Sigma: make([]float64, 3)}),
		"decode: the states have": l.Decode(z, batchnav.Rows{S: in.S[:3], C: in.C}, tensor.New(2, 1), tensor.Matrix{}),
		"step: the contexts have": l.Step(z, batchnav.Rows{S: in.S, C: in.C[:1]}, batchnav.Moved{}),
		"jacobian: z":             l.Jacobian(batchnav.DecoderU, tensor.New(2, 1), tensor.New(2, 1)),
		"step: z":                 l.Step(tensor.New(2, 1), in, batchnav.Moved{}),
		"step: latent 1 is not":   l.Step(lost, in, batchnav.Moved{}),
		"decode: z":               l.Decode(tensor.New(2, 1), in, tensor.New(2, 1), tensor.Matrix{}),
		"decode: latent 1 is not": l.Decode(lost, in, tensor.Matrix{}, tensor.Matrix{}),
	} {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("error %v, want one with %q", err, text)
		}
	}
	none := tensor.New(0, l.Size())
	require.OK(t, l.Encode(batchnav.Rows{}, true, none))
	require.OK(t, l.Decode(none, batchnav.Rows{}, tensor.Matrix{}, tensor.Matrix{}))
	require.OK(t, l.Step(none, batchnav.Rows{}, batchnav.Moved{}))
}
