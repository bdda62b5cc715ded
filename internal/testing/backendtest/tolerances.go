package backendtest

import (
	"fmt"
	"math"

	"github.com/gpc-engine/gpc/tensor"
)

// Tolerance bounds |got − want| of one quantity by Relative·scale, where scale
// is max(1, largest |want| of the row). Inputs of the suite are of order one,
// so that intermediate sums are too.
type Tolerance struct {
	Quantity string
	Relative float64
	Reason   string
}

// epsilon is the unit roundoff of float32, 2⁻²⁴.
const epsilon = 1.0 / (1 << 24)

//go:generate go test . -count=1 -run NumericsPage -update

// The one table of tolerances. docs/contribute/numerics.md repeats it; a test compares.
var (
	tolForward = Tolerance{"Forward", 1e-5,
		"three layers of up to 256 float32 products each; sums of K products in any order err by about √K·2⁻²⁴ of Σ|w||h|, which is up to 10 × the result"}
	tolVJP = Tolerance{"VJP", 1e-5,
		"a backward pass is as long as a forward pass; rows within `kinkMargin` of a ReLU's kink are left out, since there the exact derivative jumps"}
	tolJacobian = Tolerance{"Jacobian", 1e-5, "each row is a VJP"}
	tolMetric   = Tolerance{"Metric", 2e-5,
		"a product of two Jacobians, so twice their relative error, and a sum over outputs of one sign on the diagonal"}
	tolEigValue = Tolerance{"EigTopK values, of the largest eigenvalue", 1e-5,
		"a backward-stable symmetric solver in float32 errs by n·2⁻²⁴ of ‖G‖; n = 64"}
	tolEigResidual = Tolerance{"EigTopK ‖Gv − λv‖, of the largest eigenvalue", 2e-5,
		"well defined where eigenvalues repeat and single vectors are not"}
	tolEigOrthogonal = Tolerance{"EigTopK ‖VᵀV − I‖", 2e-5, "holds inside a repeated eigenvalue's subspace too"}
	tolEigVector     = Tolerance{"EigTopK vectors, times eigenvalue gap over the largest eigenvalue", 5e-5,
		"perturbation theory: an error E of G turns a vector by ‖E‖/gap"}
	tolField = Tolerance{"Field, of the row's largest entry", 3e-5,
		"forward and backward through D_s and D_u; 1/ε multiplies the error of D_s and the field alike"}
	tolEnergy = Tolerance{"Energy", 2e-5, "a sum of squares of decoded errors"}
	tolStep   = Tolerance{"Step, new latent", 1e-5,
		"Δt times two fields, and the Lie residual, which carries the eigenvectors' error over their gap; rows whose eigenvalue gap or sign is not resolved in float32 are left out"}
	tolStepAction = Tolerance{"Step, action", 5e-5, "the new latent's error times the slope of D_u in physical units"}
	tolDecode     = Tolerance{"Decode", 1e-5, "a forward pass and an affine map"}
	tolResidual   = Tolerance{"Localize residual and Nearest distance, relative to 1 + value", 1e-5,
		"a squared distance of up to 64 float32 differences"}
	tolRefinement = Tolerance{"Localize point, of the distance to the farthest code used", 5e-5,
		"the Gram system has condition k·10⁶ by its ridge: its k × k solve belongs in float64, its entries may come from float32 differences"}
	tolLoss = Tolerance{"training losses", 2e-5,
		"means of squared errors of order one, and the drift of the weights over the steps compared"}
	tolWeights = Tolerance{"weights after the training steps", 2e-5,
		"the comparison runs Adam with ε = 10⁻³ so that an update is a smooth function of the gradient: with a tiny ε a gradient of rounding noise moves a weight by a full ±lr"}
	tolWeightsPaper = Tolerance{"RMS of weights after the training steps, Adam ε = 10⁻⁸", 2e-5,
		"a few entries whose gradient is rounding noise move the other way by 2·lr; all others agree"}
	tolPosition = Tolerance{"a row alone and the same row inside a batch", 1e-5,
		"a batch's tail may take another register tile, whose sums run in another order; the order of rows around it must not matter more than that"}
	tolRotation = Tolerance{"group composition, as rotation matrices", 1e-5,
		"compared as rotations, since a rotation vector of length π has two signs"}
)

// Tolerances lists the table in the order of docs/contribute/numerics.md.
func Tolerances() []Tolerance {
	return []Tolerance{
		tolForward, tolVJP, tolJacobian, tolMetric, tolEigValue, tolEigResidual, tolEigOrthogonal, tolEigVector,
		tolField, tolEnergy, tolStep, tolStepAction, tolRotation, tolDecode, tolResidual, tolRefinement,
		tolLoss, tolWeights, tolWeightsPaper, tolPosition,
	}
}

const (
	// kinkMargin is the relative distance from a ReLU's kink (ref.MLP.KinkMargin)
	// below which a row's derivative is not compared: 32 units of roundoff, what
	// float32 sums of 256 products can be off.
	kinkMargin = 32 * epsilon
	// gapMargin is the eigenvalue gap over the largest eigenvalue, and signMargin
	// the lead of an eigenvector's largest entry over the next of other sign,
	// below which the Lie residual's frame is not determined in float32.
	gapMargin  = 1e-2
	signMargin = 1e-3
	// comparedShare is the share of rows that must survive these exclusions.
	comparedShare = 0.5
)

// number compares one value. NaN is equal to nothing; a non-finite want asks
// for a non-finite got.
func (tol Tolerance) number(got, want, scale float64) error {
	if !isFinite(want) {
		if isFinite(got) {
			return fmt.Errorf("%s: got %v where the reference is %v", tol.Quantity, got, want)
		}
		return nil
	}
	if d := math.Abs(got - want); !(d <= tol.Relative*scale) {
		return fmt.Errorf("%s: got %v, want %v, off by %.3g, tolerance %.3g", tol.Quantity, got, want, d, tol.Relative*scale)
	}
	return nil
}

// row compares a row at the scale of its largest entry.
func (tol Tolerance) row(got, want []float32) error {
	return tol.rowAt(got, want, math.Max(1, largest(want)))
}

func (tol Tolerance) rowAt(got, want []float32, scale float64) error {
	for i := range want {
		if err := tol.number(float64(got[i]), float64(want[i]), scale); err != nil {
			return fmt.Errorf("entry %d: %w", i, err)
		}
	}
	return nil
}

// rows compares all rows of two matrices for which keep is true (nil: all).
func (tol Tolerance) rows(got, want tensor.Matrix, keep []bool) error {
	for b := range want.Rows {
		if keep != nil && !keep[b] {
			continue
		}
		if err := tol.row(got.Row(b), want.Row(b)); err != nil {
			return fmt.Errorf("row %d: %w", b, err)
		}
	}
	return nil
}

func largest(v []float32) float64 {
	m := 0.0
	for _, x := range v {
		if f := math.Abs(float64(x)); f > m && !math.IsInf(f, 0) {
			m = f
		}
	}
	return m
}

func isFinite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// identical reports the first difference in bits; two NaN are the same here.
func identical(got, want []float32) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d values, want %d", len(got), len(want))
	}
	for i := range want {
		if a, b := math.Float32bits(got[i]), math.Float32bits(want[i]); a != b && !(got[i] != got[i] && want[i] != want[i]) {
			return fmt.Errorf("entry %d is %v (%08x), want bitwise %v (%08x)", i, got[i], a, want[i], b)
		}
	}
	return nil
}
