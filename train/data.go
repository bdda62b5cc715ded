package train

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/offline"
	"github.com/gpc-engine/gpc/tensor"
)

// Data is a Pareto dataset as columns, one row per sample (domain.Sample says
// what each is); physical units. Run only reads them, and they must not change
// while it runs.
type Data struct {
	*offline.Columns
	// Hash names the dataset in the model's provenance; empty: its content hash.
	Hash string
}

// FromDataset loads a dataset from disk, or several shards of one (see
// offline.OpenShards); they must be of the given problem.
func FromDataset(spec *domain.Spec, shards ...*offline.Dataset) (Data, error) {
	if len(shards) == 0 {
		return Data{}, errors.New("train: no dataset")
	}
	for _, ds := range shards {
		if err := ds.Check(spec); err != nil {
			return Data{}, err
		}
	}
	columns, hash, err := offline.LoadShards(shards)
	if err != nil {
		return Data{}, err
	}
	return Data{Columns: columns, Hash: hash}, nil
}

// selected are the rows that the problem's map is to learn, all for a problem that
// is not domain.Selective.
func (d *Data) selected(p domain.Problem) Data {
	chooser, ok := p.(domain.Selective)
	if !ok {
		return *d
	}
	s, c := make([]float64, d.S.Cols), make([]float64, d.C.Cols)
	var rows []int
	for i := range d.S.Rows {
		tensor.Widen(s, d.S.Row(i))
		tensor.Widen(c, d.C.Row(i))
		if chooser.Selects(s, c) {
			rows = append(rows, i)
		}
	}
	return Data{Columns: d.Columns.Select(rows), Hash: d.Hash}
}

// FromSamples copies samples into columns.
func FromSamples(spec *domain.Spec, samples []domain.Sample) (Data, error) {
	n, m := len(samples), spec.ObjectiveSize()
	d := Data{Columns: &offline.Columns{
		S: tensor.New(n, spec.MeasuredSize()), C: tensor.New(n, spec.ContextSize()),
		Preference: tensor.New(n, spec.PreferenceSize()), U: tensor.New(n, spec.PlanSize()),
		Target: tensor.New(n, spec.PlanSize()), Sigma: tensor.New(n, m), J: tensor.New(n, m),
		Margins: tensor.New(n, len(spec.Margins)), KKT: make([]float32, n),
		Scenario: make([]int32, n), Trajectory: make([]int64, n), Step: make([]int32, n), Perturbed: make([]bool, n),
	}}
	slot := make([]float64, spec.PreferenceSize())
	for i := range samples {
		s := &samples[i]
		if !s.Preference.Adaptive && len(s.Preference.W) != m {
			return Data{}, fmt.Errorf("train: sample %d has a preference of %d weights, %s has %d objectives", i, len(s.Preference.W), spec.Name, m)
		}
		s.Preference.Slot(slot)
		for _, c := range []struct {
			name string
			dst  tensor.Matrix
			src  []float64
		}{
			{"s", d.S, s.S}, {"c", d.C, s.C}, {"preference", d.Preference, slot}, {"u", d.U, s.U},
			{"target", d.Target, s.Target}, {"sigma", d.Sigma, s.Sigma}, {"J", d.J, s.J}, {"margins", d.Margins, s.Margins},
		} {
			if len(c.src) != c.dst.Cols {
				return Data{}, fmt.Errorf("train: sample %d has %d values of %s, %s has %d", i, len(c.src), c.name, spec.Name, c.dst.Cols)
			}
			tensor.Narrow(c.dst.Row(i), c.src)
		}
		d.Scenario[i], d.Trajectory[i] = int32(s.Scenario), s.Trajectory
		d.Step[i], d.Perturbed[i], d.KKT[i] = int32(s.Step), s.Perturbed, float32(s.KKT)
	}
	return d, nil
}

// column is one matrix that training reads, with its name, for messages and hashes.
type column struct {
	name   string
	matrix tensor.Matrix
	cols   int // as the Spec has it
}

func (d *Data) columns(spec *domain.Spec) []column {
	m := spec.ObjectiveSize()
	return []column{
		{"s", d.S, spec.MeasuredSize()}, {"c", d.C, spec.ContextSize()}, {"preference", d.Preference, spec.PreferenceSize()},
		{"u", d.U, spec.PlanSize()}, {"target", d.Target, spec.PlanSize()}, {"sigma", d.Sigma, m}, {"J", d.J, m},
	}
}

// Validate checks every shape against the problem and that every value is
// finite; the error names column and row.
func (d *Data) Validate(spec *domain.Spec) error {
	n := 0
	if d.Columns != nil {
		n = d.S.Rows
	}
	if n == 0 {
		return fmt.Errorf("train: the dataset of %s is empty", spec.Name)
	}
	if n > math.MaxInt32 {
		return fmt.Errorf("train: the dataset has %d rows, at most %d fit", n, math.MaxInt32)
	}
	for _, c := range d.columns(spec) {
		if err := tensor.Check("train", "column "+c.name, c.matrix, n, c.cols); err != nil {
			return err
		}
		for i := range n {
			for j, v := range c.matrix.Row(i) {
				if v-v != 0 {
					return fmt.Errorf("train: column %s has the value %v at row %d, component %d; want a finite number", c.name, v, i, j)
				}
			}
		}
	}
	if len(d.Scenario) != n || len(d.Trajectory) != n || len(d.Step) != n || len(d.Perturbed) != n {
		return fmt.Errorf("train: %d samples, but %d scenarios, %d trajectories, %d steps, %d perturbed flags",
			n, len(d.Scenario), len(d.Trajectory), len(d.Step), len(d.Perturbed))
	}
	return nil
}

// contentHash is the SHA-256 of everything training reads from the data.
func (d *Data) contentHash(spec *domain.Spec) string {
	h := sha256.New()
	buf := make([]byte, 0, 1<<16)
	flush := func() {
		h.Write(buf)
		buf = buf[:0]
	}
	for _, c := range d.columns(spec) {
		for i := range c.matrix.Rows {
			for _, v := range c.matrix.Row(i) {
				buf = binary.LittleEndian.AppendUint32(buf, math.Float32bits(v))
			}
			if len(buf) > 1<<15 {
				flush()
			}
		}
		flush()
	}
	for i := range d.S.Rows {
		buf = binary.LittleEndian.AppendUint32(buf, uint32(d.Scenario[i]))
		buf = binary.LittleEndian.AppendUint64(buf, uint64(d.Trajectory[i]))
		buf = binary.LittleEndian.AppendUint32(buf, uint32(d.Step[i]))
		flag := byte(0)
		if d.Perturbed[i] {
			flag = 1
		}
		buf = append(buf, flag)
		if len(buf) > 1<<15 {
			flush()
		}
	}
	flush()
	return hex.EncodeToString(h.Sum(nil))
}
