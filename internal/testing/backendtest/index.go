package backendtest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/tensor"
)

// codeSet is a set of codes on a curved sheet, as M* is, with decoded states.
type codeSet struct{ codes, decoded tensor.Matrix }

func newCodeSet(seed uint64, count, latent, measured int) codeSet {
	rng := newRand(seed)
	sheet := testdomain.Network(rng, 0.2, 2, 9, latent+measured)
	set := codeSet{tensor.New(count, latent), tensor.New(count, measured)}
	for i := range count {
		p := []float64{2 * rng.NormFloat64(), 2 * rng.NormFloat64()}
		y := ref.Widen(sheet).Forward(p)
		for j := range y {
			y[j] += 0.02 * rng.NormFloat64()
		}
		tensor.Narrow(set.codes.Row(i), y[:latent])
		tensor.Narrow(set.decoded.Row(i), y[latent:])
	}
	return set
}

// queries are codes moved a little, with observations to match.
func (s codeSet) queries(seed uint64, batch int) (x, z tensor.Matrix) {
	rng := newRand(seed)
	x, z = tensor.New(batch, s.decoded.Cols), tensor.New(batch, s.codes.Cols)
	for b := range batch {
		i := rng.IntN(s.codes.Rows)
		for j, v := range s.codes.Row(i) {
			z.Row(b)[j] = v + float32(0.1*rng.NormFloat64())
		}
		for j, v := range s.decoded.Row(i) {
			x.Row(b)[j] = v + float32(0.05*rng.NormFloat64())
		}
	}
	return x, z
}

// residuals are the squared distances of every decoded code to x.
func (s codeSet) residuals(x []float32) []float64 {
	r := make([]float64, s.decoded.Rows)
	for i := range r {
		r[i] = tensor.SquaredDistance(s.decoded.Row(i), x)
	}
	return r
}

// threshold returns a tau that lets the given share of the codes through, in
// the middle of a gap between two residuals so that rounding decides nothing.
func threshold(residuals []float64, share float64) float32 {
	sorted := slices.Sorted(slices.Values(residuals))
	at := int(share * float64(len(sorted)-1))
	if at+1 < len(sorted) {
		return float32((sorted[at] + sorted[at+1]) / 2)
	}
	return float32(2 * sorted[at])
}

type localized struct {
	z          tensor.Matrix
	nearest    []int32
	residual   []float32
	consistent []bool
}

func runLocalize(index backend.Index, x, z tensor.Matrix, tau []float32, neighbours int) (localized, error) {
	l := localized{output(z.Rows, z.Cols), make([]int32, z.Rows), make([]float32, z.Rows), make([]bool, z.Rows)}
	return l, index.Localize(x, z, tau, neighbours, backend.LocalizeOutput{Z: l.z, Nearest: l.nearest, Residual: l.residual, Consistent: l.consistent})
}

// compare holds one row to the exact search; near ties within rounding may go
// either way, and then the refined point is not compared.
func (s codeSet) compare(got localized, b int, x, z []float32, tau float32, neighbours int) error {
	residual := s.residuals(x)
	type candidate struct {
		index    int
		distance float64
	}
	var consistent []candidate
	for i, r := range residual {
		if r <= float64(tau) {
			consistent = append(consistent, candidate{i, tensor.SquaredDistance(s.codes.Row(i), z)})
		}
	}
	if got.consistent[b] != (len(consistent) > 0) {
		return fmt.Errorf("consistent is %v, %d codes have a residual ≤ tau", got.consistent[b], len(consistent))
	}
	near := int(got.nearest[b])
	if near < 0 || near >= s.codes.Rows {
		return fmt.Errorf("nearest is %d of %d codes", near, s.codes.Rows)
	}
	if err := tolResidual.number(float64(got.residual[b]), residual[near], 1+residual[near]); err != nil {
		return fmt.Errorf("residual of code %d: %w", near, err)
	}
	if len(consistent) == 0 {
		if err := tolResidual.number(residual[near], slices.Min(residual), 1+residual[near]); err != nil {
			return fmt.Errorf("smallest residual: %w", err)
		}
		return identical(got.z.Row(b), s.codes.Row(near))
	}
	if residual[near] > float64(tau) {
		return fmt.Errorf("nearest code %d has residual %v, tau is %v", near, residual[near], tau)
	}
	slices.SortStableFunc(consistent, func(a, b candidate) int {
		switch {
		case a.distance < b.distance:
			return -1
		case a.distance > b.distance:
			return 1
		}
		return 0
	})
	best := consistent[0].distance
	if err := tolResidual.number(tensor.SquaredDistance(s.codes.Row(near), z), best, 1+best); err != nil {
		return fmt.Errorf("distance of the nearest code %d (reference %d): %w", near, consistent[0].index, err)
	}
	k := min(max(neighbours, 1), len(consistent))
	if k == 1 {
		return identical(got.z.Row(b), s.codes.Row(near))
	}
	if k < len(consistent) && consistent[k].distance-consistent[k-1].distance <= tolResidual.Relative*(1+consistent[k].distance) {
		return nil
	}
	var hull [][]float64
	for _, c := range consistent[:k] {
		hull = append(hull, row64(s.codes.Row(c.index)))
	}
	want := make([]float32, len(z))
	tensor.Narrow(want, ref.AffineProjection(row64(z), hull))
	return tolRefinement.rowAt(got.z.Row(b), want, math.Sqrt(consistent[k-1].distance))
}

var indexShapes = []struct{ count, latent, measured, batch int }{
	{1, 1, 1, 1}, {1, 3, 2, 33}, {7, 2, 1, 31}, {300, 3, 4, 33}, {1000, 16, 4, 32}, {500, 33, 12, 2}, {257, 64, 60, 33}, {5000, 5, 4, 33}, {2000, 2, 4, bigBatch / 4},
}

func checkIndex(t testing.TB, open Open) {
	b := opened(t, open, 0)
	for i, shape := range indexShapes {
		if testing.Short() && shape.batch > 33 {
			continue
		}
		set := newCodeSet(uint64(900+i), shape.count, shape.latent, shape.measured)
		index, err := b.NewIndex(strided(set.codes), set.decoded)
		if err != nil {
			t.Errorf("%+v: NewIndex: %v", shape, err)
			continue
		}
		if index.Len() != shape.count {
			t.Errorf("%+v: Len is %d", shape, index.Len())
		}
		x, z := set.queries(uint64(950+i), shape.batch)
		tau := make([]float32, shape.batch)
		for r := range tau {
			switch r % 5 {
			case 0:
				tau[r] = threshold(set.residuals(x.Row(r)), 0.02)
			case 1:
				tau[r] = threshold(set.residuals(x.Row(r)), 0.3)
			case 2:
				tau[r] = float32(math.Inf(1))
			case 3: // no code is consistent
				tau[r] = float32(slices.Min(set.residuals(x.Row(r))) / 2)
			case 4: // exactly one is
				tau[r] = threshold(set.residuals(x.Row(r)), 0)
			}
		}
		for _, neighbours := range []int{0, 1, 5, 12} {
			got, err := runLocalize(index, strided(x), strided(z), tau, neighbours)
			if err != nil {
				t.Errorf("%+v, %d neighbours: %v", shape, neighbours, err)
				continue
			}
			for r := range shape.batch {
				if err := set.compare(got, r, x.Row(r), z.Row(r), tau[r], neighbours); err != nil {
					t.Errorf("%+v, %d neighbours, query %d: %v", shape, neighbours, r, err)
				}
			}
		}
		for _, k := range []int{1, min(3, shape.count), min(17, shape.count)} {
			idx, dist2 := make([]int32, shape.batch*k), make([]float32, shape.batch*k)
			if err := index.Nearest(z, k, idx, dist2); err != nil {
				t.Errorf("%+v, Nearest %d: %v", shape, k, err)
				continue
			}
			for r := range shape.batch {
				if err := set.compareNearest(z.Row(r), k, idx[r*k:(r+1)*k], dist2[r*k:(r+1)*k]); err != nil {
					t.Errorf("%+v, Nearest %d, query %d: %v", shape, k, r, err)
				}
			}
		}
	}
}

func (s codeSet) compareNearest(z []float32, k int, idx []int32, dist2 []float32) error {
	all := make([]float64, s.codes.Rows)
	for i := range all {
		all[i] = tensor.SquaredDistance(s.codes.Row(i), z)
	}
	sorted := slices.Sorted(slices.Values(all))
	seen := map[int32]bool{}
	for j := range k {
		if idx[j] < 0 || int(idx[j]) >= len(all) || seen[idx[j]] {
			return fmt.Errorf("rank %d: index %d is out of range or repeated", j, idx[j])
		}
		seen[idx[j]] = true
		if err := tolResidual.number(all[idx[j]], sorted[j], 1+sorted[j]); err != nil {
			return fmt.Errorf("rank %d, code %d: %w", j, idx[j], err)
		}
		if err := tolResidual.number(float64(dist2[j]), all[idx[j]], 1+sorted[j]); err != nil {
			return fmt.Errorf("rank %d, reported distance: %w", j, err)
		}
		if j > 0 && dist2[j] < dist2[j-1] {
			return fmt.Errorf("ranks %d and %d descend: %v, %v", j-1, j, dist2[j-1], dist2[j])
		}
	}
	return nil
}

// checkIndexTies uses integer codes, whose distances are exact in float32: ties
// must go to the lower index, and a residual equal to tau is consistent.
func checkIndexTies(t testing.TB, open Open) {
	b := opened(t, open, 0)
	for _, latent := range []int{1, 3, 16} {
		rng := newRand(uint64(970 + latent))
		const count, batch = 400, 64
		codes, decoded := tensor.New(count, latent), tensor.New(count, 2)
		x, z := tensor.New(batch, 2), tensor.New(batch, latent)
		for _, m := range []tensor.Matrix{codes, decoded, x, z} {
			for i := range m.Data {
				m.Data[i] = float32(rng.IntN(3) - 1)
			}
		}
		tau := make([]float32, batch)
		for r := range tau {
			tau[r] = float32(rng.IntN(4) - 1)
		}
		index := require.Get(b.NewIndex(codes, decoded))(t)
		want, err := ref.New().NewIndex(codes, decoded)
		require.OK(t, err)
		got, err := runLocalize(index, x, z, tau, 1)
		if err != nil {
			t.Errorf("latent %d: %v", latent, err)
			continue
		}
		need := require.Get(runLocalize(want, x, z, tau, 1))(t)
		for r := range batch {
			if got.nearest[r] != need.nearest[r] || got.residual[r] != need.residual[r] || got.consistent[r] != need.consistent[r] {
				t.Errorf("latent %d, query %d: code %d, residual %v, consistent %v, want %d, %v, %v",
					latent, r, got.nearest[r], got.residual[r], got.consistent[r], need.nearest[r], need.residual[r], need.consistent[r])
			}
		}
		const k = 9
		idx, wantIdx := make([]int32, batch*k), make([]int32, batch*k)
		d, wantD := make([]float32, batch*k), make([]float32, batch*k)
		if err := index.Nearest(z, k, idx, d); err != nil {
			t.Error(err)
		}
		require.OK(t, want.Nearest(z, k, wantIdx, wantD))
		if !slices.Equal(idx, wantIdx) || !slices.Equal(d, wantD) {
			t.Errorf("latent %d: Nearest breaks ties otherwise than by the lower index", latent)
		}
	}
}

// checkIndexEdges asks with NaN, from far away, and of codes that coincide.
func checkIndexEdges(t testing.TB, open Open) {
	b := opened(t, open, 0)
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	set := newCodeSet(980, 300, 3, 4)
	index := require.Get(b.NewIndex(set.codes, set.decoded))(t)
	const batch, at = 33, 15
	x, z := set.queries(981, batch)
	tau := make([]float32, batch)
	for r := range tau {
		tau[r] = threshold(set.residuals(x.Row(r)), 0.2)
	}
	clean := require.Get(runLocalize(index, x, z, tau, 5))(t)
	for _, bad := range []float32{nan, inf, -inf} {
		for _, inLatent := range []bool{false, true} {
			xe, ze := x.Clone(), z.Clone()
			if inLatent {
				ze.Row(at)[1] = bad
			} else {
				xe.Row(at)[3] = bad
			}
			got, err := runLocalize(index, xe, ze, tau, 5)
			if err != nil {
				t.Errorf("%v in a query: %v", bad, err)
				continue
			}
			if got.nearest[at] != -1 || got.consistent[at] || got.residual[at] == got.residual[at] {
				t.Errorf("%v in a query: code %d, residual %v, consistent %v, want −1, NaN, false", bad, got.nearest[at], got.residual[at], got.consistent[at])
			}
			for j, v := range got.z.Row(at) {
				if v == v {
					t.Errorf("%v in a query: coordinate %d of the point is %v, want NaN", bad, j, v)
				}
			}
			for r := range batch {
				if r != at && (identical(got.z.Row(r), clean.z.Row(r)) != nil || got.nearest[r] != clean.nearest[r]) {
					t.Errorf("%v in query %d changed query %d", bad, at, r)
				}
			}
			if inLatent {
				idx, d := make([]int32, batch*2), make([]float32, batch*2)
				if err := index.Nearest(ze, 2, idx, d); err != nil {
					t.Errorf("%v in a query: Nearest: %v", bad, err)
				} else if idx[2*at] != -1 || idx[2*at+1] != -1 || d[2*at] == d[2*at] {
					t.Errorf("%v in a query: Nearest gives %d, %v, want −1, NaN", bad, idx[2*at], d[2*at])
				}
			}
		}
	}
	// tau of NaN lets nothing through, a negative one neither, one query serves a
	// whole batch.
	for _, none := range []float32{nan, -1, -inf} {
		got, err := runLocalize(index, tensor.Broadcast(x.Row(0), 3), tensor.Broadcast(z.Row(0), 3), []float32{none, tau[0], none}, 5)
		if err != nil {
			t.Errorf("tau %v: %v", none, err)
			continue
		}
		for r, limit := range []float32{none, tau[0], none} {
			if err := set.compare(got, r, x.Row(0), z.Row(0), limit, 5); err != nil {
				t.Errorf("tau %v, row %d of a broadcast: %v", none, r, err)
			}
		}
	}
	// Coinciding codes: the refinement has nothing to refine.
	same := codeSet{tensor.New(20, 3), tensor.New(20, 4)}
	for i := range same.codes.Data {
		same.codes.Data[i] = 0.5
	}
	index = require.Get(b.NewIndex(same.codes, same.decoded))(t)
	xs, zs := tensor.New(2, 4), tensor.New(2, 3)
	copy(zs.Row(0), []float32{0.5, 0.5, 0.5}) // on the codes; row 1 is away from them
	got := require.Get(runLocalize(index, xs, zs, []float32{1, 1}, 5))(t)
	for r := range 2 {
		if err := tolRefinement.rowAt(got.z.Row(r), same.codes.Row(0), 1); err != nil || got.nearest[r] != 0 {
			t.Errorf("coinciding codes, query %d: code %d, %v", r, got.nearest[r], err)
		}
	}
	// Codes far from the origin: distances must not cancel.
	far := newCodeSet(982, 200, 3, 4)
	for _, m := range []tensor.Matrix{far.codes, far.decoded} {
		for i := range m.Data {
			m.Data[i] += 64
		}
	}
	index = require.Get(b.NewIndex(far.codes, far.decoded))(t)
	x, z = far.queries(983, batch)
	for r := range tau {
		tau[r] = threshold(far.residuals(x.Row(r)), 0.2)
	}
	got = require.Get(runLocalize(index, x, z, tau, 1))(t)
	for r := range batch {
		if err := far.compare(got, r, x.Row(r), z.Row(r), tau[r], 1); err != nil {
			t.Errorf("codes far from the origin, query %d: %v", r, err)
		}
	}
}

func checkIndexShapes(t testing.TB, open Open) {
	b := opened(t, open, 0)
	set := newCodeSet(990, 20, 3, 4)
	index := require.Get(b.NewIndex(set.codes, set.decoded))(t)
	x, z := set.queries(991, 5)
	tau := make([]float32, 5)
	none := backend.LocalizeOutput{}
	idx, d := make([]int32, 10), make([]float32, 10)
	for what, call := range map[string]func() error{
		"Localize, x":         func() error { return index.Localize(tensor.New(5, 3), z, tau, 1, none) },
		"Localize, rows of x": func() error { return index.Localize(tensor.New(4, 4), z, tau, 1, none) },
		"Localize, zobs":      func() error { return index.Localize(x, tensor.New(5, 4), tau, 1, none) },
		"Localize, tau":       func() error { return index.Localize(x, z, tau[:4], 1, none) },
		"Localize, Z":         func() error { return index.Localize(x, z, tau, 1, backend.LocalizeOutput{Z: tensor.New(5, 2)}) },
		"Localize, Nearest":   func() error { return index.Localize(x, z, tau, 1, backend.LocalizeOutput{Nearest: make([]int32, 4)}) },
		"Localize, Residual": func() error {
			return index.Localize(x, z, tau, 1, backend.LocalizeOutput{Residual: make([]float32, 6)})
		},
		"Localize, Consistent":   func() error { return index.Localize(x, z, tau, 1, backend.LocalizeOutput{Consistent: make([]bool, 1)}) },
		"Localize, neighbours":   func() error { return index.Localize(x, z, tau, -1, none) },
		"Nearest, z":             func() error { return index.Nearest(tensor.New(5, 2), 2, idx, d) },
		"Nearest, k = 0":         func() error { return index.Nearest(z, 0, nil, nil) },
		"Nearest, more than all": func() error { return index.Nearest(z, 21, make([]int32, 105), make([]float32, 105)) },
		"Nearest, idx":           func() error { return index.Nearest(z, 2, idx[:9], d) },
		"Nearest, dist2":         func() error { return index.Nearest(z, 2, idx, d[:9]) },
		"NewIndex, rows":         func() error { _, err := b.NewIndex(set.codes, tensor.New(19, 4)); return err },
		"NewIndex, no codes":     func() error { _, err := b.NewIndex(tensor.New(0, 3), tensor.New(0, 4)); return err },
		"NewIndex, NaN code": func() error {
			c := set.codes.Clone()
			c.Data[7] = float32(math.NaN())
			_, err := b.NewIndex(c, set.decoded)
			return err
		},
		"NewIndex, Inf in a state": func() error {
			d := set.decoded.Clone()
			d.Data[3] = float32(math.Inf(1))
			_, err := b.NewIndex(set.codes, d)
			return err
		},
	} {
		wantError(t, what, call)
	}
}
