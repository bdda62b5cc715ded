package bench

import (
	"cmp"
	"fmt"
	"math"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/ref"
)

// Deviation is how far the results of an operation are from float64 over the first
// rows of the batch that was timed, relative to their largest magnitude.
type Deviation struct {
	Rows       int     `json:"rows"`               // compared with float64
	Max        float64 `json:"max"`                // largest deviation over the largest magnitude
	RMS        float64 `json:"rms"`                // root mean square of the same
	Float32Max float64 `json:"fp32_max,omitempty"` // those of float32 where the timed run rounds to TF32
	Float32RMS float64 `json:"fp32_rms,omitempty"` // likewise
}

// String is the table's cell.
func (d *Deviation) String() string {
	switch {
	case d == nil:
		return "–"
	case d.Float32Max > 0:
		return fmt.Sprintf("%.1e (fp32 %.1e)", d.Max, d.Float32Max)
	}
	return fmt.Sprintf("%.1e", d.Max)
}

// deviationRows are as many as the float64 reference takes in a moment.
const deviationRows = 16

// deviation runs an operation on the timed backend, on the float64 reference and,
// where the timed one rounds to TF32, in float32.
func (r *Runner) deviation(rows int, run func(b backend.Backend) ([]float32, error)) (*Deviation, error) {
	want, err := run(ref.New())
	if err != nil {
		return nil, fmt.Errorf("float64 reference: %w", err)
	}
	values, err := run(r.b)
	if err != nil {
		return nil, err
	}
	d := &Deviation{Rows: rows}
	if d.Max, d.RMS, err = deviate(values, want); err != nil {
		return nil, err
	}
	if r.opt.Float32 != nil && r.d.Precision != "" {
		if values, err = run(r.opt.Float32); err != nil {
			return nil, fmt.Errorf("in float32: %w", err)
		}
		if d.Float32Max, d.Float32RMS, err = deviate(values, want); err != nil {
			return nil, fmt.Errorf("in float32: %w", err)
		}
	}
	return d, nil
}

// deviate is the largest and the root-mean-square difference over the largest
// magnitude. Both must be numbers.
func deviate(values, want []float32) (largest, rms float64, err error) {
	scale, sum := 0.0, 0.0
	for i, w := range want {
		d := math.Abs(float64(values[i]) - float64(w))
		if math.IsNaN(d) || math.IsInf(d, 0) {
			return 0, 0, fmt.Errorf("result %d is %v, in float64 %v", i, values[i], w)
		}
		scale, largest, sum = math.Max(scale, math.Abs(float64(w))), math.Max(largest, d), sum+d*d
	}
	scale = cmp.Or(scale, 1)
	return largest / scale, math.Sqrt(sum/float64(max(len(want), 1))) / scale, nil
}
