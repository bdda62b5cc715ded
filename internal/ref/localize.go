package ref

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/tensor"
)

// RidgeFraction scales the ridge of AffineProjection: ridge = RidgeFraction ·
// trace(C)/k. Small against any direction that k codes resolve, large against
// float32's rounding of the Gram matrix.
const RidgeFraction = 1e-6

// AffineProjection returns the point Σ w_j z_j of the affine hull of the codes
// nearest to q in the ridge-regularised sense
//
//	min_w ‖q − Σ_j w_j z_j‖² + ridge ‖w‖²  subject to  Σ_j w_j = 1
//
// With the Gram matrix C_jl = ⟨z_j − q, z_l − q⟩ and ridge = RidgeFraction ·
// trace(C)/k it is w = y/Σy, (C + ridge I) y = 1, solved by Cholesky. One code
// is returned as it is. If the factorisation fails (all codes equal q), or the
// result is not finite, the first code is returned, which the caller passes as
// the nearest.
func AffineProjection(q []float64, codes [][]float64) []float64 {
	k := len(codes)
	nearest := append([]float64(nil), codes[0]...)
	if k == 1 {
		return nearest
	}
	gram := mat.NewSymDense(k, nil)
	for j := range k {
		for l := j; l < k; l++ {
			gram.SetSym(j, l, dot(sub(codes[j], q), sub(codes[l], q)))
		}
	}
	ridge := RidgeFraction * mat.Trace(gram) / float64(k)
	ones := mat.NewVecDense(k, nil)
	for j := range k {
		gram.SetSym(j, j, gram.At(j, j)+ridge)
		ones.SetVec(j, 1)
	}
	var cholesky mat.Cholesky
	if !cholesky.Factorize(gram) {
		return nearest
	}
	y := mat.NewVecDense(k, nil)
	if err := cholesky.SolveVecTo(y, ones); err != nil {
		return nearest
	}
	sum := mat.Sum(y)
	point := make([]float64, len(q))
	for j, z := range codes {
		axpy(point, y.AtVec(j)/sum, z)
	}
	if !tensor.Finite(point) {
		return nearest
	}
	return point
}

// Location is the result of Localize for one observation.
type Location struct {
	Z          []float64
	Nearest    int
	Residual   float64
	Consistent bool
}

// Localize is step 1 of the online algorithm (eq. iclr-measurement-consistent,
// iclr-localization): among the codes with ‖x − decoded‖² ≤ tau the nearest to
// zobs, ties to the lower index, and zobs projected onto the affine hull of the
// nearest min(neighbours, consistent codes) of them; neighbours 0 or 1 is the code
// itself. With no consistent code it
// is the code of smallest residual, unrefined. A non-finite entry in x or zobs
// gives Nearest −1, NaN and not consistent.
func Localize(codes, decoded [][]float64, x, zobs []float64, tau float64, neighbours int) Location {
	if !tensor.Finite(x) || !tensor.Finite(zobs) {
		z := make([]float64, len(zobs))
		tensor.Fill(z, math.NaN())
		return Location{Z: z, Nearest: -1, Residual: math.NaN()}
	}
	residual := distances(decoded, x)
	var consistent []int
	for i, r := range residual {
		if r <= tau {
			consistent = append(consistent, i)
		}
	}
	if len(consistent) == 0 {
		best := slices.Index(residual, slices.Min(residual))
		return Location{Z: slices.Clone(codes[best]), Nearest: best, Residual: residual[best]}
	}
	distance := distances(codes, zobs)
	slices.SortStableFunc(consistent, func(a, b int) int { return cmp.Compare(distance[a], distance[b]) })
	var hull [][]float64
	for _, i := range consistent[:min(max(neighbours, 1), len(consistent))] {
		hull = append(hull, codes[i])
	}
	best := consistent[0]
	return Location{Z: AffineProjection(zobs, hull), Nearest: best, Residual: residual[best], Consistent: true}
}

// NearestCodes returns the k nearest codes of z, ascending, ties by index, and
// their squared distances. A non-finite z gives −1 and NaN.
func NearestCodes(codes [][]float64, z []float64, k int) (index []int, distance2 []float64) {
	if !tensor.Finite(z) {
		for range k {
			index, distance2 = append(index, -1), append(distance2, math.NaN())
		}
		return index, distance2
	}
	all := distances(codes, z)
	order := make([]int, len(codes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(all[a], all[b]) })
	for _, i := range order[:k] {
		index, distance2 = append(index, i), append(distance2, all[i])
	}
	return index, distance2
}

func distances(rows [][]float64, q []float64) []float64 {
	d := make([]float64, len(rows))
	for i, r := range rows {
		d[i] = squaredNorm(sub(r, q))
	}
	return d
}

type index struct{ codes, decoded [][]float64 }

// NewIndex implements backend.Backend. Codes must be finite.
func (b *Backend) NewIndex(codes, decoded tensor.Matrix) (backend.Index, error) {
	if err := backend.CheckIndex(codes, decoded); err != nil {
		return nil, err
	}
	x := &index{}
	for i := range codes.Rows {
		x.codes, x.decoded = append(x.codes, wide(codes.Row(i))), append(x.decoded, wide(decoded.Row(i)))
	}
	return x, nil
}

func (x *index) Len() int { return len(x.codes) }

func (x *index) Localize(s, zobs tensor.Matrix, tau []float32, neighbours int, out backend.LocalizeOutput) error {
	if err := backend.CheckLocalize(len(x.codes[0]), len(x.decoded[0]), s, zobs, tau, neighbours, out); err != nil {
		return err
	}
	for b := range zobs.Rows {
		l := Localize(x.codes, x.decoded, wide(s.Row(b)), wide(zobs.Row(b)), float64(tau[b]), neighbours)
		if out.Z.Rows > 0 {
			tensor.Narrow(out.Z.Row(b), l.Z)
		}
		if out.Nearest != nil {
			out.Nearest[b] = int32(l.Nearest)
		}
		if out.Residual != nil {
			out.Residual[b] = float32(l.Residual)
		}
		if out.Consistent != nil {
			out.Consistent[b] = l.Consistent
		}
	}
	return nil
}

func (x *index) Nearest(z tensor.Matrix, k int, idx []int32, dist2 []float32) error {
	if err := backend.CheckNearest(len(x.codes), len(x.codes[0]), z, k, idx, dist2); err != nil {
		return err
	}
	for b := range z.Rows {
		order, d := NearestCodes(x.codes, wide(z.Row(b)), k)
		for j := range order {
			idx[b*k+j], dist2[b*k+j] = int32(order[j]), float32(d[j])
		}
	}
	return nil
}
