package dataset

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// toy is a problem of 2 measured, 1 context, 1 action and 2 objective
// components; the dataset only asks for its Spec.
type toy struct{ domain.Problem }

func (toy) Spec() *domain.Spec {
	return &domain.Spec{
		Name:       "toy",
		Measured:   []domain.Variable{{Name: "x", Unit: "m"}, {Name: "v", Unit: "m/s"}},
		Context:    []domain.Variable{{Name: "t", Unit: "s"}},
		Action:     []domain.Variable{{Name: "a", Unit: "m/s²", Lo: -1, Hi: 1}},
		Objectives: []domain.Variable{{Name: "near", Unit: "m²"}, {Name: "effort", Unit: "m²/s⁴"}},
		Margins:    []domain.Variable{{Name: "wall", Unit: "m"}},
		Plan:       2, Steps: 3,
	}
}

// toySolver has the front (w₁², w₀²) and no feasible point at p[0] < 0.
type toySolver struct {
	solves, prepared atomic.Int64
	failAt           float64 // p[0] at which Solve fails, 0: nowhere
}

func (*toySolver) Parameters() []domain.Variable {
	return []domain.Variable{{Name: "x0", Unit: "m", Lo: -0.2, Hi: 1}, {Name: "v0", Unit: "m/s", Lo: -1, Hi: 1}}
}

func (s *toySolver) Prepare(_ context.Context, _ uint64, progress func(done, total int)) error {
	s.prepared.Add(1)
	progress(1, 1)
	return nil
}

func (s *toySolver) Solve(scenario int, p []float64, pref domain.Preference, how domain.Scalarization, seed uint64) ([]domain.Sample, error) {
	s.solves.Add(1)
	if p[0] < 0 {
		return nil, domain.ErrInfeasible
	}
	if s.failAt > 0 && p[0] > s.failAt {
		return nil, errors.New("the solver broke")
	}
	if p[1] > 0.6 && !pref.Adaptive {
		return nil, fmt.Errorf("KKT 1e-2: %w", domain.ErrNotConverged)
	}
	w := pref.W
	if pref.Adaptive {
		w = []float64{0.25, 0.75}
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	var out []domain.Sample
	for t := range 3 {
		u := rng.NormFloat64()
		out = append(out, domain.Sample{
			Trajectory: 7, Step: t, S: []float64{p[0], p[1]}, C: []float64{float64(t) / 3}, U: []float64{u, u / 3}, Target: []float64{1, 2},
			Sigma: w, J: []float64{w[1] * w[1], w[0] * w[0]}, Margins: []float64{p[0]}, KKT: 1e-9,
		})
	}
	return append(out, domain.Sample{
		Trajectory: 9, Step: 1, Perturbed: true, S: []float64{0, 0}, C: []float64{0}, U: []float64{0, 0}, Target: []float64{0, 0},
		Sigma: w, J: []float64{0, 0}, Margins: []float64{0},
	}), nil
}

func options(dir string) Options {
	return Options{Scenarios: 23, Adaptive: true, Weights: Weights{Count: 2}, Seed: 5, OutDir: dir, Threads: 2, Chunk: 4, Program: "v1", Command: "gpc dataset toy"}
}

func generate(t testing.TB, opt Options) (Counters, *toySolver) {
	t.Helper()
	solver := &toySolver{}
	counters, err := Generate(context.Background(), domain.Case{Problem: toy{}, Solver: solver}, opt, nil)
	if err != nil {
		t.Fatal(err)
	}
	return counters, solver
}

func load(t testing.TB, dir string) (*Dataset, *Columns) {
	t.Helper()
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Check(toy{}); err != nil {
		t.Fatal(err)
	}
	if err := d.Verify(); err != nil {
		t.Fatal(err)
	}
	c, _, _, err := Load(d)
	if err != nil {
		t.Fatal(err)
	}
	return d, c
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	return require.Get(os.ReadFile(path))(t)
}

// contents are the files of a folder.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, name := range entries(t, dir) {
		files[name] = string(read(t, filepath.Join(dir, name)))
	}
	return files
}

func entries(t testing.TB, dir string) []string {
	t.Helper()
	es, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range es {
		out = append(out, e.Name())
	}
	return out
}

// edited copies a dataset and edits one file of it.
func edited(t *testing.T, source, file string, edit func([]byte) []byte) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(source)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, file)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, edit(b), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// readAll is what everybody does who uses a dataset's samples: training, merging, resuming.
func readAll(t *testing.T, dir string) error {
	t.Helper()
	d, err := Open(dir)
	if err != nil {
		return err
	}
	_, _, _, err = Load(d)
	_, merged := Merge(t.Context(), filepath.Join(t.TempDir(), "merged"), dir)
	if (err == nil) != (merged == nil) {
		t.Errorf("%s: loading says %v, merging %v", dir, err, merged)
	}
	return err
}

// encoded writes samples as part 0.
func encoded(w io.Writer, h Header, c *Columns) error {
	p, err := newPartWriter(w, h, 0)
	if err != nil {
		return err
	}
	if err := p.write(c); err != nil {
		return err
	}
	return p.close()
}
