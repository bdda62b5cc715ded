package cpufallback

import "github.com/gpc-engine/gpc/model"

// Floating-point operations of one row, a multiply-add counted as two; what is
// linear in the widths (bias, ReLU, masks) is left out.

// ForwardFLOPs is 2·Σ_l out_l·in_l.
func ForwardFLOPs(m *model.MLP) float64 { return 2 * float64(m.MulAdds()) }

// hiddenFLOPs is the forward pass without the last layer, which derivatives need
// for their masks.
func hiddenFLOPs(m *model.MLP) float64 {
	l := m.Layers[len(m.Layers)-1]
	return ForwardFLOPs(m) - 2*float64(l.W.Rows)*float64(l.W.Cols)
}

// VJPFLOPs is the hidden forward pass and the backward pass through all layers.
func VJPFLOPs(m *model.MLP) float64 { return hiddenFLOPs(m) + ForwardFLOPs(m) }

// JacobianFLOPs is the hidden forward pass and the cheaper direction of the
// matrix chain, every unit counted: 2·n·Σ_{l≥2} out_l·in_l in forward mode,
// 2·m·Σ_{l<L} out_l·in_l in reverse mode. It is what a program does that
// multiplies by the zeros of inactive units; this backend leaves them out, so its
// rate by this count is not bounded by the multiply-add ceiling. See
// ActiveJacobianFLOPs.
func JacobianFLOPs(m *model.MLP) float64 { return ActiveJacobianFLOPs(m, nil) }

// ActiveJacobianFLOPs counts only the products that are carried out where the
// given share of units is active, per hidden layer; nil is all. The direction is
// the one chosen with all units.
func ActiveJacobianFLOPs(m *model.MLP, share []float64) float64 {
	forward, reverse := modeMulAdds(m, m.In(), share)
	if chooseJacobianMode(m) == forwardMode {
		return hiddenFLOPs(m) + 2*forward
	}
	return hiddenFLOPs(m) + 2*reverse
}

// MetricFLOPs is JacobianFLOPs and 2·m·n² for JᵀJ, both triangles.
func MetricFLOPs(m *model.MLP) float64 {
	n := float64(m.In())
	return JacobianFLOPs(m) + 2*float64(m.Out())*n*n
}
