package neighbours

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/gpc-engine/gpc/internal/simd/isa"
)

// kernels are the inner loops of one instruction set. Pointers are to the first
// element; lengths are trusted. Only distances enters a result and is bitwise
// the same in every set.
type kernels struct {
	lanes int
	// distances writes out[i] = ‖q − rows[list[i]]‖² in the order of the package
	// comment; q and the rows are padded with zeros to chunks·16 coordinates.
	distances func(q, rows *float32, chunks int, list *int32, count int, out *float32)
	// project writes out[a] = Σ_j (q_j − mean_j)·along[j][a] for 16 axes.
	project func(q, mean, directions *float32, dim int, out *float32)
	// boxes writes out[i] = scale times the distance of q from the box [lo_i, hi_i] for
	// blocks·16 boxes.
	boxes func(q *float32, dim int, lo, hi *float32, blocks int, scale float32, out *float32)
	// quantize projects q onto the box [lo, hi] as q' and rounds (q' − lo)·inverse
	// to bytes q̂. It writes errors = {ρ² = ‖q − q'‖², ‖(q' − lo)·inverse − q̂‖²}
	// and sums = {Σ q̂_j, Σ q̂_j²}.
	quantize func(q, lo, hi *float32, chunks int, inverse float32, bytes *uint8, errors *float32, sums *int32)
	// filter sets bit i of masks[i/32] when norms[i] − 2⟨bytes, packed_i⟩ ≤ limit,
	// for blocks·32 points.
	filter func(bytes *uint8, packed *int8, norms *int32, groups, blocks int, limit int32, masks *uint32)
}

// availableKernels lists what this CPU and build can run, widest last.
func availableKernels() []kernels {
	var available []kernels
	for _, level := range isa.Available() {
		available = append(available, kernelsOf(level))
	}
	return available
}

// chooseKernels returns the set with the given lanes; 0 leaves the choice to
// isa.Choose.
func chooseKernels(lanes int) (kernels, error) {
	if lanes == 0 {
		level, err := isa.Choose()
		if err != nil {
			return kernels{}, err
		}
		return kernelsOf(level), nil
	}
	var names []int
	for _, k := range availableKernels() {
		if k.lanes == lanes {
			return k, nil
		}
		names = append(names, k.lanes)
	}
	return kernels{}, fmt.Errorf("kernels of %d lanes: this CPU or build has only %v", lanes, names)
}

// SquaredDistance is the distance of the package comment, ‖a − b‖² in its fixed
// order; a and b have equal lengths.
func SquaredDistance(a, b []float32) float32 {
	var s [lanes]float32
	for j, v := range a {
		d := v - b[j]
		s[j%lanes] += float32(d * d) // the conversion forbids fusing
	}
	for half := lanes / 2; half > 0; half /= 2 {
		for l := range half {
			s[l] += s[l+half]
		}
	}
	return s[0]
}

var genericKernels = kernels{
	lanes:     1,
	distances: distancesGeneric,
	project:   projectGeneric,
	boxes:     boxesGeneric,
	quantize:  quantizeGeneric,
	filter:    filterGeneric,
}

func distancesGeneric(q, rows *float32, chunks int, list *int32, count int, out *float32) {
	width := chunks * lanes
	query := view(q, width)
	results := view(out, count)
	for i, p := range view(list, count) {
		results[i] = SquaredDistance(query, view(offset(rows, int(p)*width), width))
	}
}

func projectGeneric(q, mean, directions *float32, dim int, out *float32) {
	m, a := view(mean, dim), view(directions, dim*mostAxes)
	var s [mostAxes]float32
	for j, v := range view(q, dim) {
		row := (*[mostAxes]float32)(a[j*mostAxes:])
		for i := range s {
			s[i] += (v - m[j]) * row[i]
		}
	}
	copy(view(out, mostAxes), s[:])
}

func boxesGeneric(q *float32, dim int, lo, hi *float32, blocks int, scale float32, out *float32) {
	query := view(q, dim)
	for b := range blocks {
		var s [lanes]float32
		l, h := view(offset(lo, b*dim*lanes), dim*lanes), view(offset(hi, b*dim*lanes), dim*lanes)
		for j, v := range query {
			low, high := (*[lanes]float32)(l[j*lanes:]), (*[lanes]float32)(h[j*lanes:])
			for i := range s {
				d := max(low[i]-v, v-high[i], 0)
				s[i] += d * d
			}
		}
		o := view(offset(out, b*lanes), lanes)
		for i, v := range s {
			o[i] = scale * float32(math.Sqrt(float64(v)))
		}
	}
}

func quantizeGeneric(q, lo, hi *float32, chunks int, inverse float32, bytes *uint8, errors *float32, sums *int32) {
	width := chunks * lanes
	l, h, b := view(lo, width), view(hi, width), view(bytes, width)
	var excess, err float32
	var sum, norm int32
	for j, v := range view(q, width) {
		clamped := min(max(v, l[j]), h[j])
		excess += (v - clamped) * (v - clamped)
		t := (clamped - l[j]) * inverse
		r := float32(math.RoundToEven(float64(t)))
		err += (t - r) * (t - r)
		b[j] = uint8(r)
		sum += int32(r)
		norm += int32(r) * int32(r)
	}
	*errors, *offset(errors, 1) = excess, err
	*sums, *offset(sums, 1) = sum, norm
}

func filterGeneric(bytes *uint8, packed *int8, norms *int32, groups, blocks int, limit int32, masks *uint32) {
	const points = 16
	query := view(bytes, groups*4)
	m := view(masks, blocks)
	clear(m)
	for b := range blocks * (blockSize / points) {
		var dot [points]int32
		p := view(offset(packed, b*points*groups*4), points*groups*4)
		for g := range groups {
			q0, q1 := int32(query[4*g]), int32(query[4*g+1])
			q2, q3 := int32(query[4*g+2]), int32(query[4*g+3])
			row := (*[points * 4]int8)(p[g*points*4:])
			for i := range dot {
				dot[i] += q0*int32(row[4*i]) + q1*int32(row[4*i+1]) + q2*int32(row[4*i+2]) + q3*int32(row[4*i+3])
			}
		}
		var mask uint32
		for i, n := range view(offset(norms, b*points), points) {
			if n-2*dot[i] <= limit {
				mask |= 1 << i
			}
		}
		m[b/2] |= mask << (b % 2 * points)
	}
}

// survivors appends start+i for every set bit i of masks to list.
func survivors(masks []uint32, start int32, list []int32) []int32 {
	for _, m := range masks {
		for ; m != 0; m &= m - 1 {
			list = append(list, start+int32(bits.TrailingZeros32(m)))
		}
		start += blockSize
	}
	return list
}
