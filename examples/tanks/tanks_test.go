package tanks

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/gpc-engine/gpc/cli"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backendtest"
)

func TestContract(t *testing.T) {
	c, err := Case()
	if err != nil {
		t.Fatal(err)
	}
	backendtest.RunDomain(t, c)
}

// run executes one command line over the tanks and decodes its JSON.
func run(t *testing.T, c domain.Case, into any, args ...string) {
	t.Helper()
	var out, log bytes.Buffer
	app := &cli.App{Cases: []domain.Case{c}, Stdout: &out, Stderr: &log}
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

func TestFromDatasetToClosedLoopWithTheSameCommands(t *testing.T) {
	c, err := Case()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	data, model, trace := filepath.Join(dir, "data"), filepath.Join(dir, "tanks.safetensors"), filepath.Join(dir, "trace.jsonl")
	run(t, c, nil, "dataset", "tanks", "--scenarios", "60", "--weights", "1", "--out", data)
	run(t, c, nil, "train", "tanks", "--data", data, "--out", model, "--epochs", "12", "--rollout-epochs", "3")
	var eval struct {
		Safe      float64 `json:"safe"`
		RegretPct float64 `json:"regret_pct"`
		RegretMin float64 `json:"regret_min_pct"`
		RegretN   int     `json:"regret_n"`
	}
	run(t, c, &eval, "eval", "tanks", "--method", "gpc", "--episodes", "10", "--seed", "5", "--model", model, "--trace", trace)
	t.Logf("regret %.3f %%, safe %v", eval.RegretPct, eval.Safe)
	if eval.Safe != 1 || eval.RegretN != 10 {
		t.Errorf("%v of the episodes safe, %d compared, want all 10", eval.Safe, eval.RegretN)
	}
	// The bound is for this small data and short training; negative regret would
	// be a weak oracle.
	if eval.RegretPct > 5 || eval.RegretMin < -1e-4 {
		t.Errorf("regret %v %%, least %v %%", eval.RegretPct, eval.RegretMin)
	}
	run(t, c, nil, "verify", trace)
	var refined struct {
		Feasible      bool    `json:"feasible"`
		Cost          float64 `json:"cost"`
		LocalizedCost float64 `json:"localized_cost"`
	}
	run(t, c, &refined, "refine", "tanks", "--state", "state.json", "--candidates", "256", "--model", model)
	if !refined.Feasible || refined.Cost > refined.LocalizedCost+1e-9 {
		t.Errorf("refinement: %+v", refined)
	}
	run(t, c, nil, "bench", "step", "--case", "tanks", "--batch", "16", "--time", "20ms")
}
