package train

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"strconv"

	"github.com/gpc-engine/gpc/dataset"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/simd/parallel"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// Data is a Pareto dataset as columns in physical units, one row per sample (domain.Sample). It comes from disk
// (FromDataset) or memory (dataset.ColumnsOf). Run only reads the columns; they must not change while it runs.
type Data struct {
	*dataset.Columns
	// Hash names the dataset in the model's provenance; empty: its content hash.
	Hash string
	// Rounds are the datasets of the rows, recorded in the model.
	Rounds []model.Round
}

// FromDataset loads a dataset from disk, several shards of one, or several rounds (see
// dataset.Load); they must be of the given problem.
func FromDataset(p domain.Problem, datasets ...*dataset.Dataset) (Data, error) {
	for _, ds := range datasets {
		if err := ds.Check(p); err != nil {
			return Data{}, err
		}
	}
	columns, rounds, hash, err := dataset.Load(datasets...)
	if err != nil {
		return Data{}, err
	}
	return Data{Columns: columns, Hash: hash, Rounds: rounds}, nil
}

// selectRows keeps the rows that the problem's map learns: all without Selects.
func (d *Data) selectRows(p domain.Problem) Data {
	selects := domain.AbilitiesOfProblem(p).Selects
	if selects == nil {
		return *d
	}
	s, c := make([]float64, d.S.Cols), make([]float64, d.C.Cols)
	var rows []int
	for i := range d.S.Rows {
		tensor.Widen(s, d.S.Row(i))
		tensor.Widen(c, d.C.Row(i))
		if selects(s, c) {
			rows = append(rows, i)
		}
	}
	return Data{Columns: d.Columns.Select(rows), Hash: d.Hash, Rounds: d.Rounds}
}

// column is one matrix of the training data, with its name for messages and hashes.
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

// hashedRows is the size of a block of contentHash.
const hashedRows = 4096

// contentHash is the SHA-256 of the training data: the hash of the hashes of blocks of hashedRows rows, which are
// computed in parallel.
func (d *Data) contentHash(spec *domain.Spec) string {
	columns := d.columns(spec)
	sums := make([][sha256.Size]byte, (d.S.Rows+hashedRows-1)/hashedRows)
	parallel.Each(runtime.GOMAXPROCS(0), len(sums), func(_, chunk int) {
		var text []byte
		for i := chunk * hashedRows; i < min((chunk+1)*hashedRows, d.S.Rows); i++ {
			for _, c := range columns {
				for _, v := range c.matrix.Row(i) {
					text = binary.LittleEndian.AppendUint32(text, math.Float32bits(v))
				}
			}
			text = binary.LittleEndian.AppendUint32(text, uint32(d.Scenario[i]))
			text = binary.LittleEndian.AppendUint64(text, uint64(d.Trajectory[i]))
			text = binary.LittleEndian.AppendUint32(text, uint32(d.Step[i]))
			text = strconv.AppendBool(text, d.Perturbed[i])
		}
		sums[chunk] = sha256.Sum256(text)
	})
	total := sha256.New()
	for _, s := range sums {
		total.Write(s[:])
	}
	return durable.Sum([sha256.Size]byte(total.Sum(nil)))
}
