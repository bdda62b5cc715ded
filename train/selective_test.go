package train

import (
	"math"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/model"
)

// half learns where the first state is positive only.
type half struct{ toy }

func (p half) Abilities() *domain.ProblemAbilities {
	return &domain.ProblemAbilities{Selects: p.Selects}
}

func (half) Selects(s, _ []float64) bool { return s[0] > 0 }

// What a selective problem leaves out is not trained on, and the rest is unchanged.
func TestSelectedRows(t *testing.T) {
	p := half{newToy()}
	d := p.data(20)
	got := d.selectRows(p)
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
	if all := d.selectRows(p.toy); all.S.Rows != d.S.Rows {
		t.Errorf("a problem that is not selective keeps %d of %d rows", all.S.Rows, d.S.Rows)
	}
}

// preparing counts how often it is prepared.
type preparing struct {
	toy
	times *int
}

func (p preparing) Abilities() *domain.ProblemAbilities {
	return &domain.ProblemAbilities{Prepare: func() { *p.times++ }}
}

// Plans are projected of a problem that was prepared, as in closed loop.
func TestPlansAreOfAPreparedProblem(t *testing.T) {
	times := 0
	if newPlanner(preparing{newToy(), &times}); times == 0 {
		t.Error("the problem was not prepared")
	}
}

// E_x learns from preferences as it will read them, and the action loss counts errors in
// the tolerances that a problem states.
func TestPreferenceFloorAndActionTolerance(t *testing.T) {
	toy := newToy()
	d := toy.data(6)
	for i := range d.S.Rows {
		d.Preference.Row(i)[0] = float32(i % 2) // every other row is adaptive
		if i%2 == 0 {
			clear(d.Preference.Row(i))
		}
	}
	spec := *toy.Spec()
	plain, err := newTrainingSet(&spec, &d, Options{validation: 0.3})
	require.OK(t, err)
	spec.Training.PreferenceFloor = 0.01
	spec.Training.ActionTolerance = make([]float64, spec.PlanSize())
	for j := range spec.Training.ActionTolerance {
		spec.Training.ActionTolerance[j] = 0.5 + float64(j)
	}
	set, err := newTrainingSet(&spec, &d, Options{validation: 0.3})
	require.OK(t, err)
	at := spec.MeasuredSize() + spec.ContextSize()
	for i := range d.S.Rows {
		was, is := plain.Training.X.Row(i), set.Training.X.Row(i)
		if !slices.Equal(was[:at+1], is[:at+1]) {
			t.Fatalf("row %d: state, context and flag are %v, want %v", i, is[:at+1], was[:at+1])
		}
		for j, w := range was[at+1:] {
			want := float32(0)
			if i%2 == 1 {
				want = float32(1 + math.Log10(float64(w)+0.01))
			}
			if got := is[at+1+j]; math.Abs(float64(got-want)) > 1e-6 {
				t.Errorf("row %d: w_%d = %v is read as %v, want %v", i, j+1, w, got, want)
			}
		}
		for j := range set.Training.U.Cols {
			want := (float64(d.Target.Row(i)[j]) - float64(plain.NormU.Mean[j])) / spec.Training.ActionTolerance[j]
			if got := float64(set.Training.U.Row(i)[j]); math.Abs(got-want) > 1e-5*(1+math.Abs(want)) {
				t.Errorf("row %d, entry %d of the target is %v, want %v", i, j, got, want)
			}
		}
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
