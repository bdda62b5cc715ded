package train

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpc-engine/gpc/dataset"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/tensor"
)

func TestSplitIsByScenarioAndSuccessorsAreTrue(t *testing.T) {
	opt, err := toyOptions(cpu(t), 50).resolve()
	if err != nil {
		t.Fatal(err)
	}
	opt.validation = 0.2
	d := &opt.Data
	s, err := newTrainingSet(opt.Problem.Spec(), d, opt)
	if err != nil {
		t.Fatal(err)
	}
	side := map[int32]string{}
	for name, rows := range map[string][]int32{"train": s.Train, "validation": s.Validation} {
		for _, r := range rows {
			if was := side[d.Scenario[r]]; was != "" && was != name {
				t.Fatalf("scenario %d is in both halves", d.Scenario[r])
			}
			side[d.Scenario[r]] = name
		}
	}
	if n := len(s.Train) + len(s.Validation); n != d.Rows() || len(s.Validation) != d.Rows()/5 {
		t.Errorf("%d + %d rows of %d", len(s.Train), len(s.Validation), d.Rows())
	}
	pairs := 0
	for i, n := range s.Training.Next {
		if n < 0 {
			if !d.Perturbed[i] && d.Step[i] < 4 {
				t.Errorf("row %d, step %d, has no successor", i, d.Step[i])
			}
			continue
		}
		pairs++
		if d.Trajectory[i] != d.Trajectory[n] || d.Step[n] != d.Step[i]+1 || d.Perturbed[i] != d.Perturbed[n] {
			t.Errorf("row %d (trajectory %d, step %d) has the successor %d (trajectory %d, step %d)", i, d.Trajectory[i], d.Step[i], n, d.Trajectory[n], d.Step[n])
		}
		if !(s.Training.RiskWeight[i] > 0) {
			t.Errorf("row %d moves and has risk weight %v", i, s.Training.RiskWeight[i])
		}
	}
	if pairs != 50*2*4 || len(s.Pairs)+len(s.ValidationPairs) != pairs {
		t.Errorf("%d pairs, %d and %d listed", pairs, len(s.Pairs), len(s.ValidationPairs))
	}
}

func TestNormalisation(t *testing.T) {
	s := toySet(t, toyOptions(cpu(t), 50))
	x := s.Training.X
	for j := range x.Cols {
		mean, square := 0.0, 0.0
		for i := range x.Rows {
			v := float64(x.Row(i)[j])
			mean += v / float64(x.Rows)
			square += v * v / float64(x.Rows)
		}
		switch {
		case j < 3: // a, b, p
			if math.Abs(mean) > 1e-4 || math.Abs(square-1) > 1e-3 {
				t.Errorf("column %d has mean %v, mean square %v", j, mean, square)
			}
		case j == 3: // the constant context, 7 everywhere
			if square != 0 || s.NormX.Scale[j] != 7 {
				t.Errorf("constant column: mean square %v, scale %v, want 0 and 7", square, s.NormX.Scale[j])
			}
		default: // the preference slot stays as it is
			if s.NormX.Mean[j] != 0 || s.NormX.Scale[j] != 1 {
				t.Errorf("slot column %d has mean %v, scale %v", j, s.NormX.Mean[j], s.NormX.Scale[j])
			}
		}
	}
}

// What an entry of the context may be is its range over the data with room: least of all where it never changes, most
// where it changes along a trajectory.
func TestContextRange(t *testing.T) {
	d := Data{Columns: &dataset.Columns{
		C:          tensor.Matrix{Rows: 4, Cols: 3, Stride: 3, Data: []float32{0, 0, 7, 0, 0.5, 7, 10, 0, 7, 10, 1, 7}},
		Trajectory: []int64{0, 0, 1, 1},
	}}
	want := [][2]float64{{-1.005, 11.005}, {-0.5004, 1.5004}, {6.993, 7.007}}
	for k, r := range contextRange(&d, []float32{5, 0.4, 7}) {
		for i, v := range r {
			if math.Abs(v-want[k][i]) > 1e-9 {
				t.Errorf("entry %d: %v, want %v", k, r, want[k])
			}
		}
	}
}

func TestOrderIsAPermutationOfItsEpoch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.SliceOfNDistinct(rapid.Int32Range(0, 1e6), 2, 60, rapid.ID[int32]).Draw(t, "rows")
		seed := rapid.Uint64().Draw(t, "seed")
		a, b := make([]int32, len(rows)), make([]int32, len(rows))
		shuffled(a, rows, seed, streamManifoldOrder, 3)
		shuffled(b, rows, seed, streamManifoldOrder, 3)
		if !slices.Equal(a, b) {
			t.Fatal("one epoch, two orders")
		}
		slices.Sort(b)
		sorted := slices.Sorted(slices.Values(rows))
		if !slices.Equal(b, sorted) {
			t.Fatal("not a permutation")
		}
	})
}

// Half of an epoch goes to the rows that the map gets wrong, in proportion to
// their error; the other half stays spread over all rows.
func TestEmphasisDrawsByError(t *testing.T) {
	rows := make([]int32, 1000)
	errs := make([]float32, len(rows))
	for i := range rows {
		rows[i] = int32(3 * i)
	}
	errs[10], errs[500] = 3, 1
	e := &emphasis{share: 0.5, error: errs}
	count := func(order []int32) map[int32]int {
		n := map[int32]int{}
		for _, r := range order {
			n[r]++
		}
		return n
	}
	order, again := make([]int32, len(rows)), make([]int32, len(rows))
	e.order(order, rows, 1, streamManifoldOrder, 4)
	e.order(again, rows, 1, streamManifoldOrder, 4)
	if !slices.Equal(order, again) {
		t.Error("the same epoch twice in different order")
	}
	n := count(order)
	if a, b := n[30], n[1500]; a < 330 || a > 420 || a+b < 500 || a+b > 502 {
		t.Errorf("rows with errors 3 and 1 drawn %d and %d times of 1000, want about 375 and 125", a, b)
	}
	if others := len(n); others < 480 {
		t.Errorf("%d distinct rows, want about half of 1000", others)
	}
	e.error = nil
	e.order(order, rows, 1, streamManifoldOrder, 0)
	if n := count(order); len(n) != len(rows) {
		t.Errorf("before any measurement %d distinct rows of %d", len(n), len(rows))
	}
}

// A map's calibration is of the scenarios that it was not trained on.
func TestCalibrationIsOfHeldOutRows(t *testing.T) {
	opt := toyOptions(cpu(t), 60)
	opt.ManifoldEpochs, opt.RolloutEpochs, opt.validation = 30, -1, 0.3
	m := trained(t, opt).Model
	opt, err := opt.resolve()
	if err != nil {
		t.Fatal(err)
	}
	s, err := newTrainingSet(opt.Problem.Spec(), &opt.Data, opt)
	if err != nil {
		t.Fatal(err)
	}
	of := func(rows []int32) decoding {
		nets := backend.Networks{EncoderX: m.EncoderX, EncoderO: m.EncoderO, DecoderU: m.DecoderU, DecoderS: m.DecoderS}
		d, err := evaluate(opt.Backend, opt.Problem, &opt.Data, s, nets, rows)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	held, own, c := of(s.Validation), of(s.Train), m.Calibration
	if c.TauGeom != held.tauGeom || c.DeltaDec != held.deltaMax || c.DeltaDecP99 != held.deltaP99 {
		t.Errorf("calibrated to τ_geom %v, δ_dec %v, %v; held-out rows have %v, %v, %v", c.TauGeom, c.DeltaDec, c.DeltaDecP99, held.tauGeom, held.deltaMax, held.deltaP99)
	}
	if held.tauGeom == own.tauGeom || held.deltaMax == own.deltaMax {
		t.Error("rows trained on and held out cannot be told apart")
	}
}
