package train

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/simd/parallel"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// trainingSet is a dataset made ready for a backend: normalised, with successors, risk
// weights and the split.
type trainingSet struct {
	Training                   backend.TrainingSet
	NormX, NormO, NormS, NormU model.Normalizer
	PreferenceFloor            float64 // of the slot in X
	// Train and Validation are row numbers, ascending; no scenario is in both.
	Train, Validation []int32
	// Pairs are the rows of Train that have a successor (also in Train, since a
	// trajectory belongs to one scenario); ValidationPairs likewise.
	Pairs, ValidationPairs []int32
}

// constantColumn is the spread, relative to the largest magnitude, below which a column counts as constant: float32
// cannot tell it from rounding.
const constantColumn = 1e-6

// statisticsColumns is the number of float32 columns that share a cache line.
const statisticsColumns = 16

// statistics returns mean and standard deviation of every column, accumulated in float64. A constant column gets the
// scale |mean|, or 1 for a column of zeros: a deviation that training never saw keeps its relative size. All cores
// share the columns; each is summed in the order of its rows.
func statistics(m tensor.Matrix) model.Normalizer {
	n := model.Normalizer{Mean: make([]float32, m.Cols), Scale: make([]float32, m.Cols)}
	parallel.Each(runtime.GOMAXPROCS(0), (m.Cols+statisticsColumns-1)/statisticsColumns, func(_, chunk int) {
		from := chunk * statisticsColumns
		to := min(from+statisticsColumns, m.Cols)
		var sum, largest, square [statisticsColumns]float64
		for i := range m.Rows {
			for j, v := range m.Row(i)[from:to] {
				sum[j] += float64(v)
				largest[j] = math.Max(largest[j], math.Abs(float64(v)))
			}
		}
		for j := range sum {
			sum[j] /= float64(m.Rows)
		}
		for i := range m.Rows {
			for j, v := range m.Row(i)[from:to] {
				d := float64(v) - sum[j]
				square[j] += d * d
			}
		}
		for j := range to - from {
			scale := math.Sqrt(square[j] / float64(m.Rows))
			if scale <= constantColumn*largest[j] {
				if scale = math.Abs(sum[j]); scale == 0 {
					scale = 1
				}
			}
			n.Mean[from+j], n.Scale[from+j] = float32(sum[j]), float32(scale)
		}
	})
	return n
}

// fade gives all steps of a plan one scale for each component of the action: the root mean square over the steps. A
// factor grows from 1 at the first step to 1 + f at the last.
func fade(n *model.Normalizer, action int, f float64) {
	steps := n.Size() / action
	for j := range action {
		sum := 0.0
		for h := range steps {
			v := float64(n.Scale[h*action+j])
			sum += v * v
		}
		shared := math.Sqrt(sum / float64(steps))
		for h := range steps {
			n.Scale[h*action+j] = float32(shared * (1 + f*float64(h)/math.Max(float64(steps-1), 1)))
		}
	}
}

// identity leaves columns unchanged: the preference slot, a flag and a point of the simplex, is already of order one.
func identity(size int) model.Normalizer {
	return model.Normalizer{Mean: make([]float32, size), Scale: slices.Repeat([]float32{1}, size)}
}

func concatenate(parts ...model.Normalizer) model.Normalizer {
	var n model.Normalizer
	for _, p := range parts {
		n.Mean, n.Scale = append(n.Mean, p.Mean...), append(n.Scale, p.Scale...)
	}
	return n
}

// normalise writes the columns of parts side by side, normalised, as one dense
// matrix.
func normalise(norm model.Normalizer, parts ...tensor.Matrix) tensor.Matrix {
	out := tensor.New(parts[0].Rows, norm.Size())
	parallel.Split(runtime.GOMAXPROCS(0), out.Rows, func(_, from, to int) {
		for i := from; i < to; i++ {
			row, offset := out.Row(i), 0
			for _, p := range parts {
				offset += copy(row[offset:], p.Row(i))
			}
			norm.Apply(row, row)
		}
	})
	return out
}

// newTrainingSet normalises the data by its own mean and standard deviation, or by an
// initial map's, splits it by scenario and links successors. Risk weights are eq. traj_weight's numerator,
// α_u‖Δu*‖ + α_p‖Δp‖, with u* and the context in normalised units so that the
// coefficients are free of the problem's units.
func newTrainingSet(spec *domain.Spec, d *Data, opt Options) (*trainingSet, error) {
	if err := d.Validate(spec); err != nil {
		return nil, err
	}
	s := &trainingSet{NormS: statistics(d.S), NormU: statistics(d.Target)}
	if f := spec.Training.Fade; f > 0 {
		fade(&s.NormU, spec.ActionSize(), f)
	}
	if tolerance := spec.Training.ActionTolerance; tolerance != nil {
		tensor.Narrow(s.NormU.Scale, tolerance)
	}
	context := statistics(d.C)
	s.PreferenceFloor = spec.Training.PreferenceFloor
	s.NormX = concatenate(s.NormS, context, identity(d.Preference.Cols))
	s.NormO = concatenate(s.NormS, statistics(d.Sigma), statistics(d.J))
	if m := opt.Initial; m != nil {
		s.NormX, s.NormO = m.NormX, m.NormO
		s.NormS, s.NormU = m.NormS, m.NormU
		s.PreferenceFloor = m.Calibration.PreferenceFloor
	}
	s.Training = backend.TrainingSet{
		X: normalise(s.NormX, d.S, d.C, slots(d.Preference, s.PreferenceFloor)),
		O: normalise(s.NormO, d.S, d.Sigma, d.J),
		S: normalise(s.NormS, d.S),
		U: normalise(s.NormU, d.Target),
	}
	if err := s.split(d, opt); err != nil {
		return nil, err
	}
	if err := s.link(d); err != nil {
		return nil, err
	}
	s.risk(d, statistics(d.U))
	return s, nil
}

// slots are preferences, a flag and w, as E_x reads them.
func slots(preference tensor.Matrix, floor float64) tensor.Matrix {
	out := tensor.New(preference.Rows, preference.Cols)
	w, slot := make([]float64, preference.Cols-1), make([]float64, preference.Cols)
	for i := range out.Rows {
		row := preference.Row(i)
		tensor.Widen(w, row[1:])
		domain.Preference{Adaptive: row[0] == 0, W: w}.Slot(slot, floor)
		tensor.Narrow(out.Row(i), slot)
	}
	return out
}

// split draws whole scenarios into validation, each by its own number, until at
// least one and at most all but one are taken.
func (s *trainingSet) split(d *Data, opt Options) error {
	scenarios := slices.Clone(d.Scenario)
	slices.Sort(scenarios)
	scenarios = slices.Compact(scenarios)
	if len(scenarios) < 2 {
		return fmt.Errorf("train: the dataset has %d scenario(s); want at least 2: some scenarios are held out for validation", len(scenarios))
	}
	rng := rand.New(rand.NewPCG(opt.Seed, streamSplit))
	rng.Shuffle(len(scenarios), func(i, j int) { scenarios[i], scenarios[j] = scenarios[j], scenarios[i] })
	count := int(math.Round(opt.validation * float64(len(scenarios))))
	isHeldOut := make(map[int32]bool)
	for _, sc := range scenarios[:min(max(count, 1), len(scenarios)-1)] {
		isHeldOut[sc] = true
	}
	for i, sc := range d.Scenario {
		if isHeldOut[sc] {
			s.Validation = append(s.Validation, int32(i))
		} else {
			s.Train = append(s.Train, int32(i))
		}
	}
	return nil
}

// link finds each sample's successor: the same trajectory, the next step.
func (s *trainingSet) link(d *Data) error {
	order := ascending(d.S.Rows)
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(d.Trajectory[a], d.Trajectory[b]), cmp.Compare(d.Step[a], d.Step[b]))
	})
	next := slices.Repeat([]int32{-1}, d.S.Rows)
	for k := 1; k < len(order); k++ {
		a, b := order[k-1], order[k]
		if d.Trajectory[a] != d.Trajectory[b] {
			continue
		}
		if d.Scenario[a] != d.Scenario[b] {
			return fmt.Errorf("train: trajectory %d is in scenario %d (row %d) and in scenario %d (row %d); a trajectory belongs to one", d.Trajectory[a], d.Scenario[a], a, d.Scenario[b], b)
		}
		switch d.Step[b] - d.Step[a] {
		case 0:
			return fmt.Errorf("train: rows %d and %d are both step %d of trajectory %d", a, b, d.Step[a], d.Trajectory[a])
		case 1:
			next[a] = b
		}
	}
	s.Training.Next = next
	pairs := func(rows []int32) []int32 {
		var p []int32
		for _, r := range rows {
			if next[r] >= 0 {
				p = append(p, r)
			}
		}
		return p
	}
	s.Pairs, s.ValidationPairs = pairs(s.Train), pairs(s.Validation)
	return nil
}

// risk is the numerator of eq. traj_weight with α_u = α_p = 1.
func (s *trainingSet) risk(d *Data, action model.Normalizer) {
	n, ns, nc := d.S.Rows, d.S.Cols, d.C.Cols
	s.Training.RiskWeight = make([]float32, n)
	for i := range n {
		j := s.Training.Next[i]
		if j < 0 {
			continue
		}
		du, dp := 0.0, 0.0
		a, b := d.U.Row(i), d.U.Row(int(j))
		for k := range a {
			v := float64(b[k]-a[k]) / float64(action.Scale[k])
			du += v * v
		}
		p, q := s.Training.X.Row(i)[ns:ns+nc], s.Training.X.Row(int(j))[ns:ns+nc]
		for k := range p {
			v := float64(q[k] - p[k])
			dp += v * v
		}
		s.Training.RiskWeight[i] = float32(math.Sqrt(du) + math.Sqrt(dp))
	}
}
