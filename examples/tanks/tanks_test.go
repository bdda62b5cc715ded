package tanks

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/cli"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/domain/domaintest"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/ocp"
)

func TestContract(t *testing.T) {
	for _, build := range []func() (domain.Case, error){Case, CaseByHand} {
		c, err := build()
		if err != nil {
			t.Fatal(err)
		}
		t.Run(c.Problem.Spec().Name, func(t *testing.T) { domaintest.Run(t, c) })
	}
}

// rows hides GradientBlock and GradientBatch.
type rows struct{ domain.Problem }

// The graph in blocks, the graph row by row and the formulas by hand are one
// problem, and have one solution.
func TestGraphAndHandSolveToTheSameTrajectory(t *testing.T) {
	graph, err := New()
	if err != nil {
		t.Fatal(err)
	}
	var want *ocp.Trajectory
	for _, way := range []struct {
		name    string
		problem domain.Problem
	}{{"by hand", NewByHand()}, {"graph in blocks", graph}, {"graph row by row", rows{graph}}} {
		solver, err := ocp.New(way.problem, axes, initial, ocp.Options{Tolerance: 1e-8})
		if err != nil {
			t.Fatal(err)
		}
		got, err := solver.Minimise([]float64{0.4, 0.5}, []float64{0.8, 0.01, 0}, 4, domain.Preference{Adaptive: true}, domain.WeightedSum, 1)
		if err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = got
		}
		if got.Iterations != want.Iterations || !(math.Abs(got.Cost-want.Cost) < 1e-10) {
			t.Errorf("%s: cost %v in %d iterations, by hand %v in %d", way.name, got.Cost, got.Iterations, want.Cost, want.Iterations)
		}
		for step, u := range got.U {
			for i := range u {
				if !(math.Abs(u[i]-want.U[step][i]) < 1e-6) {
					t.Errorf("%s: step %d, pump %d is %v, by hand %v", way.name, step, i+1, u[i], want.U[step][i])
				}
			}
		}
	}
}

// run executes one command line over the tanks and decodes its JSON.
func run(t *testing.T, c domain.Case, into any, args ...string) {
	t.Helper()
	var out, log bytes.Buffer
	app := &cli.App{Catalogue: gpc.Catalogue{Cases: []domain.Case{c}}, Stdout: &out, Stderr: &log}
	if code := app.Run(context.Background(), append(args, "--json")); code != 0 {
		t.Fatalf("%v: exit code %d: %s", args, code, log.String())
	}
	if into == nil {
		return
	}
	if err := json.Unmarshal(out.Bytes(), into); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
}

// A map is trained on rounds together: solved, at the states that an earlier map visits,
// and distilled from it, each of a seed of its own; it says which.
func TestRoundsOfAMap(t *testing.T) {
	c, err := CaseByHand()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	train := func(into any, out string, data ...string) {
		run(t, c, into, "train", "tanks-by-hand", "--data", strings.Join(data, ","), "--out", out, "--epochs", "2", "--rollout-epochs", "1", "--latent", "3", "--hidden", "16")
	}
	var first, visited, distilled struct{ Samples int }
	run(t, c, &first, "dataset", "tanks-by-hand", "--scenarios", "4", "--weights", "0", "--seed", "1", "--out", at("first"))
	train(nil, at("first.safetensors"), at("first"))
	round := []string{"dataset", "tanks-by-hand", "--weights", "0", "--policy", at("first.safetensors"), "--scenarios"}
	run(t, c, &visited, append(round, "3", "--seed", "2", "--out", at("visited"))...)
	run(t, c, &distilled, append(round, "3", "--seed", "3", "--distil", "direct", "--out", at("distilled"))...)
	// 30 steps and up to 10 perturbed samples of each scenario; at each visited state two.
	if visited.Samples < 3*(30+2*28) || distilled.Samples < 3*25 {
		t.Errorf("%d samples with visited states, %d distilled", visited.Samples, distilled.Samples)
	}
	var trained struct {
		Samples int
		Rounds  []model.Round
	}
	train(&trained, at("all.safetensors"), at("first"), at("visited"), at("distilled"))
	m, err := model.ReadFile(at("all.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	r := m.Provenance.Rounds
	if !slices.Equal(r, trained.Rounds) || len(r) != 3 || trained.Samples != first.Samples+visited.Samples+distilled.Samples {
		t.Fatalf("%d samples of rounds %+v, printed %+v", trained.Samples, r, trained.Rounds)
	}
	for i, want := range []struct {
		seed      uint64
		samples   int
		policy    string
		distilled bool
	}{{1, first.Samples, "", false}, {2, visited.Samples, "direct", false}, {3, distilled.Samples, "direct", true}} {
		if r[i].Seed != want.seed || r[i].Samples != want.samples || r[i].Distilled != want.distilled || r[i].Policy.Method != want.policy || (want.policy != "") != (len(r[i].Policy.ModelSHA256) == 64) {
			t.Errorf("round %d is recorded as %+v, want %+v", i, r[i], want)
		}
	}
	var eval struct {
		Regret struct {
			N int `json:"n"`
		}
		Failed int
	}
	for _, method := range []string{"nmpc", "mpc-3", "hold"} {
		run(t, c, &eval, "eval", "tanks-by-hand", "--method", method, "--episodes", "2", "--seed", "5")
		if eval.Regret.N != 2 || eval.Failed != 0 {
			t.Errorf("%s: %+v", method, eval)
		}
	}
}

func TestFromDatasetToClosedLoopWithTheSameCommands(t *testing.T) {
	c, err := Case()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	data, model, trace := filepath.Join(dir, "data"), filepath.Join(dir, "tanks.safetensors"), filepath.Join(dir, "trace.jsonl")
	// 60 of the default 400 scenarios, one fixed preference instead of two, half
	// the epochs.
	run(t, c, nil, "dataset", "tanks", "--scenarios", "60", "--weights", "1", "--out", data)
	run(t, c, nil, "train", "tanks", "--data", data, "--out", model, "--epochs", "60", "--rollout-epochs", "5")
	var eval struct {
		Safe       float64 `json:"safe"`
		Feasible   float64 `json:"feasible"`
		Violations int     `json:"violations"`
		RegretPct  float64 `json:"regret_pct"`
		RegretMin  float64 `json:"regret_min_pct"`
		RegretN    int     `json:"regret_n"`
	}
	run(t, c, &eval, "eval", "tanks", "--method", "navigator", "--episodes", "20", "--seed", "5", "--model", model, "--trace", trace)
	t.Logf("regret %.3f %%, least %.3f %%", eval.RegretPct, eval.RegretMin)
	if eval.Safe != 1 || eval.Feasible != 1 || eval.Violations != 0 || eval.RegretN != 20 {
		t.Errorf("%v of the episodes safe, %v of the decisions feasible, %d violations, %d compared, want all 20", eval.Safe, eval.Feasible, eval.Violations, eval.RegretN)
	}
	// The bound is for this small data and short training. Regret below the
	// optimum's own tolerance would be a weak oracle.
	if !(eval.RegretPct <= 3) || !(eval.RegretMin >= -1e-3) {
		t.Errorf("regret %v %%, least %v %%", eval.RegretPct, eval.RegretMin)
	}
	run(t, c, nil, "verify", trace)
	var refined struct {
		Feasible      bool    `json:"feasible"`
		Cost          float64 `json:"cost"`
		LocalizedCost float64 `json:"localized_cost"`
	}
	run(t, c, &refined, "refine", "tanks", "--state", "state.json", "--candidates", "256", "--model", model)
	if !refined.Feasible || !(refined.Cost <= refined.LocalizedCost+1e-9) {
		t.Errorf("refinement: %+v", refined)
	}
	var bench struct {
		Results []struct {
			Case, Size string
			P50        float64 `json:"p50_us"`
		} `json:"results"`
	}
	run(t, c, &bench, "bench", "step", "--case", "tanks", "--batch", "16", "--time", "20ms")
	if len(bench.Results) != 1 || bench.Results[0].Case != "tanks" || !strings.Contains(bench.Results[0].Size, "own objectives") || !(bench.Results[0].P50 > 0) {
		t.Errorf("bench step: %+v", bench.Results)
	}
}
