package model

import "github.com/gpc-engine/gpc/tensor"

// Forward writes net(in) to out, one row after another: in is [B][In], out
// [B][Out]. Sums are accumulated in float64 and rounded once per output.
func (m *MLP) Forward(in, out tensor.Matrix) error {
	if err := tensor.Check("model.Forward", "in", in, in.Rows, m.In()); err != nil {
		return err
	}
	if err := tensor.Check("model.Forward", "out", out, in.Rows, m.Out()); err != nil {
		return err
	}
	width := m.MaxHidden()
	buf := [2][]float32{make([]float32, width), make([]float32, width)}
	for i := range in.Rows {
		x := in.Row(i)
		for l, layer := range m.Layers {
			last := l == len(m.Layers)-1
			y := buf[l%2][:layer.W.Rows]
			if last {
				y = out.Row(i)
			}
			for r := range y {
				y[r] = layer.B[r] + dot(layer.W.Row(r), x)
				if !last && y[r] < 0 {
					y[r] = 0
				}
			}
			x = y
		}
	}
	return nil
}

// dot sums in four float64 accumulators, in a fixed order.
func dot(a, b []float32) float32 {
	var s [4]float64
	b = b[:len(a)]
	n := len(a) &^ 3
	for i := 0; i < n; i += 4 {
		s[0] += float64(a[i]) * float64(b[i])
		s[1] += float64(a[i+1]) * float64(b[i+1])
		s[2] += float64(a[i+2]) * float64(b[i+2])
		s[3] += float64(a[i+3]) * float64(b[i+3])
	}
	for i := n; i < len(a); i++ {
		s[0] += float64(a[i]) * float64(b[i])
	}
	return float32(s[0] + s[1] + s[2] + s[3])
}
