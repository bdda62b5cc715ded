package plan

import (
	"encoding/json"
	"math"
	"os"
	"reflect"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/paper/multiagent/view"
	"github.com/gpc-engine/gpc/paper/multiagent/world"
)

// example is the observation of an example file.
func example(t testing.TB, name string) (s, c []float64) {
	t.Helper()
	text, err := os.ReadFile("../../../examples/multiagent/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var o struct{ S, C []float64 }
	if err := json.Unmarshal(text, &o); err != nil {
		t.Fatal(err)
	}
	return o.S, o.C
}

// executed is what a joint plan costs step by step in the problem, and its smallest
// margin.
func executed(y *world.System, s, c, plan, w []float64) (cost, margin float64) {
	s, c = slices.Clone(s), slices.Clone(c)
	J, m := make([]float64, 3), make([]float64, world.MarginKinds)
	margin = math.Inf(1)
	for k := 0; k < len(plan); k += world.MaxRobots * world.ActionSize {
		u := plan[k : k+world.MaxRobots*world.ActionSize]
		y.Objectives(s, u, c, J)
		y.Margins(s, c, u, m)
		cost += w[0]*J[0] + w[1]*J[1] + w[2]*J[2]
		margin = min(margin, slices.Min(m))
		y.Step(s, c, u, s, c)
	}
	return cost, margin
}

// What a decision chose is feasible, costs what executing it costs, begins with the
// decided action, and was chosen among as many candidates as its sources count.
func TestChosenIsWhatThePlantSays(t *testing.T) {
	for name, moving := range map[string]bool{"static": false, "moving": true} {
		y := system(t, moving)
		s, c := example(t, name)
		for _, pref := range []domain.Preference{{Adaptive: true}, {W: []float64{0.5, 0.2, 0.3}}} {
			p := guidedPlanner(t, y, proposer(t, view.New(y), 1), nil)
			if got := p.chose(); !reflect.DeepEqual(got, domain.Chosen{}) {
				t.Fatalf("before any decision %+v was chosen", got)
			}
			u := make([]float64, world.MaxRobots*world.ActionSize)
			d, err := p.Decide(s, c, pref, u)
			if err != nil || !d.Solved() {
				t.Fatalf("%s: decided %+v, error %v", name, d, err)
			}
			got := p.chose()
			w := world.Thirds
			if pref.W != nil {
				w = pref.W
			}
			cost, margin := executed(y, s, c, got.Plan, w)
			if got.Cost != cost || got.Margin != margin || !got.Feasible || margin < 0 || got.LookAhead != world.LookAhead || !slices.Equal(got.Plan[:len(u)], u) {
				t.Errorf("%s: chose cost %v, margin %v, feasible %v over %d steps; executed it is %v and %v", name, got.Cost, got.Margin, got.Feasible, got.LookAhead, cost, margin)
			}
			candidates, feasible := 0, 0
			for _, o := range got.Sources {
				candidates += o.Candidates
				feasible += o.Feasible
				if o.Feasible > o.Candidates || o.Feasible > 0 && !(o.BestCost <= o.MeanCost) {
					t.Errorf("%s: source %+v", name, o)
				}
			}
			if got.Candidates != candidates || got.FeasibleCount != feasible || candidates != 384 || feasible == 0 || len(got.Sources) < 4 {
				t.Errorf("%s: %d candidates, %d feasible, of sources %+v", name, got.Candidates, got.FeasibleCount, got.Sources)
			}
			if math.IsNaN(got.Baseline) {
				t.Errorf("%s: baseline %v", name, got.Baseline)
			}
		}
	}
}

// The baseline is what the first decoded plan of every robot costs together.
func TestBaselineIsTheDecodedPlan(t *testing.T) {
	y := system(t, true)
	s, c := example(t, "moving")
	m := &scripted{write: func(question, row int, plan []float32) {
		for k := range plan {
			plan[k] = 0.3
			if row > 0 || question%2 == 1 {
				plan[k] = 0.7
			}
		}
	}}
	u := make([]float64, world.MaxRobots*world.ActionSize)
	p := guidedPlanner(t, y, m, nil)
	if _, err := p.Decide(s, c, adaptive, u); err != nil {
		t.Fatal(err)
	}
	joint := make([]float64, world.LookAhead*len(u))
	for k := range joint {
		if k%len(u) < p.scene.Robots*world.ActionSize {
			joint[k] = float64(float32(0.3))
		}
	}
	want, margin := executed(y, s, c, joint, world.Thirds)
	if got := p.chose(); got.Baseline != want || got.BaselineFeasible != (margin >= 0) || !got.Consistent {
		t.Errorf("the baseline costs %v, feasible %v; executed it costs %v with the margin %v", got.Baseline, got.BaselineFeasible, want, margin)
	}
	blind := planner(t, y, 384)
	if _, err := blind.Decide(s, c, adaptive, u); err != nil {
		t.Fatal(err)
	}
	if got := blind.chose(); !math.IsNaN(got.Baseline) || got.BaselineFeasible {
		t.Errorf("without a map the baseline is %v, feasible %v", got.Baseline, got.BaselineFeasible)
	}
}

// Once it has decided, a planner on the CPU decides without allocating.
func TestDecisionsAllocateNothing(t *testing.T) {
	y := system(t, true)
	for name, p := range map[string]*Planner{
		"without a map": planner(t, y, 384),
		"with a map":    guidedPlanner(t, y, proposer(t, view.New(y), 1), func(*Options) {}),
	} {
		s, c := example(t, "moving")
		u := make([]float64, world.MaxRobots*world.ActionSize)
		decide := func() {
			if _, err := p.Decide(s, c, adaptive, u); err != nil {
				t.Fatal(err)
			}
		}
		decide()
		for range 5 {
			y.Step(s, c, u, s, c)
			n := math.Inf(1) // of several runs: the runtime allocates too, now and then
			for range 3 {
				n = min(n, testing.AllocsPerRun(1, decide))
			}
			if n != 0 {
				t.Errorf("%s: a decision allocates %v times", name, n)
			}
		}
	}
}
