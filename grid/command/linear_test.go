package command

import (
	"encoding/csv"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/internal/testing/require"
)

// The linear power flow of case9 balances without losses, and its tables of factors give its flows.
func TestLinearPowerFlow(t *testing.T) {
	folder := t.TempDir()
	ptdf, lodf, solved := filepath.Join(folder, "ptdf.csv"), filepath.Join(folder, "lodf.csv"), filepath.Join(folder, "solved.m")
	code, out, log := run("pf", "dc", "case9", "--json", "--ptdf", ptdf, "--lodf", lodf, "--out", solved)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, log)
	}
	var r struct {
		Bus    []struct{ Vm, Va float64 }
		Gen    []struct{ Pg, Qg float64 }
		Branch []struct {
			Pf float64 `json:"pf_mw"`
		}
	}
	require.OK(t, json.Unmarshal([]byte(out), &r))
	// MATPOWER's rundcpf: 67 MW from unit 1, 28.97 MW through branch 2, 9.796° at bus 2.
	if math.Abs(r.Gen[0].Pg-67) > 1e-9 || math.Abs(r.Branch[1].Pf-28.9673) > 1e-4 || math.Abs(r.Bus[1].Va-9.7960) > 1e-4 || r.Bus[1].Vm != 1 {
		t.Errorf("%+v", r)
	}
	rows := require.Get(csv.NewReader(require.Get(os.Open(ptdf))(t)).ReadAll())(t)
	flow := 0.0
	for bus, p := range map[int]float64{2: 163, 3: 85, 5: -90, 7: -100, 9: -125} {
		flow += p * require.Get(strconv.ParseFloat(rows[2][2+bus], 64))(t)
	}
	if strings.Join(rows[0], ",") != "branch,from,to,1,2,3,4,5,6,7,8,9" || math.Abs(flow-r.Branch[1].Pf) > 1e-9 {
		t.Errorf("factors %v give %v MW", rows[2], flow)
	}
	rows = require.Get(csv.NewReader(require.Get(os.Open(lodf))(t)).ReadAll())(t)
	if len(rows) != 10 || rows[1][3] != "-1" || rows[1][4] != "" || rows[2][4] != "-1" {
		t.Errorf("outage factors %v", rows[:3])
	}
	if code, _, log := run("pf", "dc", solved, "--ptdf", solved); code != 2 || !strings.Contains(log, "--ptdf") {
		t.Errorf("a table over the case: exit code %d, %s", code, log)
	}
}

// A linear optimum has prices and binding limits, and says when there is none.
func TestLinearOptimum(t *testing.T) {
	var r optimalFlowOutput
	code, out, log := run("opf", "dc", "case30", "--json")
	require.OK(t, json.Unmarshal([]byte(out), &r))
	if code != 0 || math.Abs(*r.Objective-565.2059663999) > 1e-6 || math.Abs(r.Bus[0].Price-3.69) > 0.1 || len(r.Binding) != 0 {
		t.Errorf("exit code %d, %s: %v, binding %+v", code, log, r, r.Binding)
	}
	code, out, _ = run("opf", "dc", "case39", "--json")
	if require.OK(t, json.Unmarshal([]byte(out), &r)); code != 0 || len(r.Binding) == 0 {
		t.Errorf("exit code %d, binding %+v", code, r.Binding)
	}
	if code, out, _ = run("opf", "dc", "case30", "--scale", "3"); code != 1 || !strings.Contains(out, "contradict one another") {
		t.Errorf("exit code %d: %s", code, out)
	}
	// Loads whose squares overflow have no optimum, and those that overflow no power flow.
	if code, out, log = run("opf", "dc", "case30", "--scale", "1e300"); code != 1 || !strings.Contains(out, "do not meet the conditions") {
		t.Errorf("exit code %d: %s, %s", code, out, log)
	}
	if code, _, log = run("pf", "dc", "case30", "--scale", "1e308"); code != 2 || !strings.Contains(log, "no finite power takes up the balance") {
		t.Errorf("exit code %d: %s", code, log)
	}
}
