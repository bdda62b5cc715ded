package train

import (
	"math"
	"testing"

	"github.com/gpc-engine/gpc/model"
)

// half learns where the first state is positive only.
type half struct{ toy }

func (half) Selects(s, _ []float64) bool { return s[0] > 0 }

// What a selective problem leaves out is not trained on, and the rest is unchanged.
func TestSelectedRows(t *testing.T) {
	p := half{newToy()}
	d := p.data(20)
	got := d.selected(p)
	at := 0
	for i := range d.S.Rows {
		if d.S.Row(i)[0] <= 0 {
			continue
		}
		if got.S.Row(at)[0] != d.S.Row(i)[0] || got.Target.Row(at)[1] != d.Target.Row(i)[1] || got.Trajectory[at] != d.Trajectory[i] || got.Step[at] != d.Step[i] {
			t.Fatalf("row %d of the selection is not row %d of the data", at, i)
		}
		at++
	}
	if at != got.S.Rows || at == 0 || at == d.S.Rows {
		t.Errorf("%d of %d rows are selected, want %d", got.S.Rows, d.S.Rows, at)
	}
	if all := d.selected(p.toy); all.S.Rows != d.S.Rows {
		t.Errorf("a problem that is not selective keeps %d of %d rows", all.S.Rows, d.S.Rows)
	}
}

// All steps share a scale per component, which grows towards the end.
func TestFade(t *testing.T) {
	n := model.Normalizer{Mean: make([]float32, 6), Scale: []float32{1, 10, 2, 20, 3, 30}}
	fade(&n, 2, 2)
	shared := math.Sqrt((1 + 4 + 9) / 3.0)
	for h := range 3 {
		want := shared * float64(1+h)
		for j, f := range []float64{1, 10} {
			if got := float64(n.Scale[2*h+j]); math.Abs(got-f*want) > 1e-5*want*f {
				t.Errorf("step %d, component %d has the scale %v, want %v", h, j, got, f*want)
			}
		}
	}
}
