package dataset

import (
	"reflect"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

func TestDatasetHoldsWhatWasSolved(t *testing.T) {
	dir := t.TempDir()
	counters, solver := generate(t, options(dir))
	d, c := load(t, dir)
	if counters.Scenarios != 23 || counters.Retained+counters.Discarded != 23 || counters.Discarded == 0 || counters.NotConverged == 0 {
		t.Errorf("counters are %+v", counters)
	}
	if counters.Solves != solver.solves.Load() || counters.Samples != int64(c.Rows()) || counters.Samples != 4*(counters.Solves-counters.Infeasible-counters.NotConverged) {
		t.Errorf("counters are %+v, the solver was called %d times and %d rows were read", counters, solver.solves.Load(), c.Rows())
	}
	if counters.SolvesPerSecond <= 0 || counters.WallSeconds <= 0 {
		t.Errorf("counters are %+v", counters)
	}
	// Solve everything again without the disk and compare.
	points, err := LatinHypercube(solver.Parameters(), 23, 5)
	if err != nil {
		t.Fatal(err)
	}
	row := 0
	for scenario, p := range points {
		prefs := []domain.Preference{{Adaptive: true}}
		for _, w := range (Weights{Count: 2}).Of(scenario, 2, 5) {
			prefs = append(prefs, domain.Preference{W: w})
		}
		for k, pref := range prefs {
			number := scenario*3 + k
			want, err := solver.Solve(scenario, p, pref, domain.WeightedSum, derive(5, streamSolve, uint64(number)))
			if err != nil {
				continue
			}
			for i, s := range want {
				s.Scenario, s.Preference = scenario, pref
				s.Trajectory = int64(number)*maxLocal + int64(i/3)
				want, err := ColumnsOf(d.Header.Layout, []domain.Sample{s})
				if got := c.Select([]int{row}); err != nil || !reflect.DeepEqual(got, want) {
					t.Fatalf("row %d is %+v, want %+v, %v", row, got, want, err)
				}
				row++
			}
		}
	}
	if row != c.Rows() {
		t.Errorf("%d rows, want %d", c.Rows(), row)
	}
	short := domain.Sample{Preference: domain.Preference{Adaptive: true}}
	if _, err := ColumnsOf(d.Header.Layout, []domain.Sample{short}); err == nil || !strings.Contains(err.Error(), "sample 0 has 0 values of S, want 2") {
		t.Errorf("a sample without a state: %v", err)
	}
}

// changed is the toy with another Spec.
type changed struct {
	toy
	spec *domain.Spec
}

func (c changed) Spec() *domain.Spec { return c.spec }

// A dataset of another problem says which part of the Spec differs.
func TestADatasetOfAnotherProblemIsRefused(t *testing.T) {
	source := t.TempDir()
	generate(t, options(source))
	d := require.Get(Open(source))(t)
	for want, change := range map[string]func(*domain.Spec){
		"s_1 is v [m/s], want v [km/h]":        func(s *domain.Spec) { s.Measured[1].Unit = "km/h" },
		"margins has 1 components, want 0":     func(s *domain.Spec) { s.Margins = nil },
		d.Header.Provenance.ProblemSHA256:      func(s *domain.Spec) { s.Action[0].Hi = 2 },
		`is a dataset of case "toy", want "b"`: func(s *domain.Spec) { s.Name = "b" },
	} {
		other := changed{spec: toy{}.Spec()}
		change(other.spec)
		if err := d.Check(other); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Check: %v, want %q", err, want)
		}
	}
}
