package report

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// pairing is a record of Case 1 in which the second method's regret is a tenth of the
// first's and the exact one has none.
func pairing(file string, samples int, regret float64, change func(p *closedloop.Pairing)) closedloop.Pairing {
	p := closedloop.Pairing{Case: "integrator-convex", Seed: 3, Map: closedloop.PairedMap{File: file, Samples: samples}}
	for i, method := range []string{"direct", "refine-64", "polish", "nmpc"} {
		at := closedloop.Number(regret * []float64{1, 0.1, 0.01, 0}[i])
		p.Pairs = append(p.Pairs, closedloop.Paired{
			Method: method, Episodes: 10, Safe: 10, RegretPct: at, RegretCI95: at / 4, RegretN: 10, DifferencePct: at - closedloop.Number(regret), DifferenceCI95: at / 5, Compared: 10,
			Latency: closedloop.Latency{Quantiles: closedloop.Quantiles{P50: closedloop.Number([]float64{6, 1200, 100, 90}[i]), P99: 2000}},
		})
	}
	if change != nil {
		change(&p)
	}
	return p
}

// Several maps of one method side by side, and methods under fixed weights, are none of a case's methods as it is.
func TestOtherMapsAndWeightsAreApart(t *testing.T) {
	r := New("machine", nil)
	Set(r, []closedloop.Pairing{
		pairing("", 1e6, 0.02, nil), pairing("", 1e6, 3, func(p *closedloop.Pairing) { p.Preference = []float64{1, 0} }),
		pairing("integrator-convex-plain", 9000, 0.5, func(p *closedloop.Pairing) {
			for i := range p.Pairs {
				p.Pairs[i].Method, p.Pairs[i].ModelSHA256 = "direct", strings.Repeat("a", i+1)
			}
		}),
	})
	if all := r.PairingsWhere("integrator-convex", Undisturbed); len(all) != 1 || all[0].Map.Samples != 1e6 || all[0].Preference != nil {
		t.Errorf("%d pairings of methods as they are", len(all))
	}
}

// Pairings in a folder below a device's are the device's: a table and figures for what
// they vary, in its order.
func TestCurvesOfPairings(t *testing.T) {
	root, out := t.TempDir(), t.TempDir()
	device := filepath.Join(root, "machine")
	require.OK(t, os.MkdirAll(filepath.Join(device, "curves"), 0o755))
	require.OK(t, os.WriteFile(filepath.Join(device, "a.json"), require.Get(json.Marshal(closedloop.Result{Case: "integrator-convex", Method: "direct", Episodes: 1}))(t), 0o644))
	for name, p := range map[string]closedloop.Pairing{
		"one": pairing("", 1e6, 0.02, nil), "little": pairing("integrator-convex-95", 9000, 0.5, nil),
		"shift":    pairing("", 1e6, 3, func(p *closedloop.Pairing) { p.Shift = map[string]float64{"ellipse": 1.1} }),
		"shift-up": pairing("", 1e6, 5, func(p *closedloop.Pairing) { p.Shift = map[string]float64{"ellipse": 1.2} }),
		"noise":    pairing("", 1e6, 0.3, func(p *closedloop.Pairing) { p.Noise = 0.02 }),
		"bias":     pairing("", 1e6, 0.4, func(p *closedloop.Pairing) { p.Bias = 0.02 }),
	} {
		require.OK(t, os.WriteFile(filepath.Join(device, "curves", name+".json"), require.Get(json.Marshal(p))(t), 0o644))
	}
	dirs := require.Get(Devices(root))(t)
	if len(dirs) != 1 || dirs[0] != device {
		t.Fatalf("devices are %v", dirs)
	}
	r := require.Get(Load(t.Context(), device, known()))(t)
	require.Get(r.Write(t.Context(), out))(t)
	page := string(require.Get(os.ReadFile(filepath.Join(out, "report.md")))(t))
	at := 0
	for _, want := range []string{
		"integrator-convex: quality against", "| bundled | 1000000 | direct | 10/10 | 0.02000 ± 0.00500 |", "| bundled | 1000000 | refine-64 | 10/10 | 0.00200 ± 0.00050 | – | – | 0.0000 | -0.01800 ± 0.00040 | 10 | 1.2000 / 2.0000 of all |",
		"| integrator-convex-95 | 9000 | direct |", "plant that its map was not made for", "| ellipse × 1.1 | direct | 10/10 | 3.00000", "| ellipse × 1.2 | polish |",
		"with noise and bias", "| 0 | 0.02 | direct |", "| 0.02 | 0 | direct |",
	} {
		next := strings.Index(page[at:], want)
		if next < 0 {
			t.Fatalf("no %q behind the first %d bytes of\n%s", want, at, page)
		}
		at += next
	}
	for _, name := range []string{"quality", "data", "shift-ellipse", "noise", "bias"} {
		for _, ending := range []string{".svg", ".png"} {
			if _, err := os.Stat(filepath.Join(out, "figures", "integrator-convex-"+name+ending)); err != nil {
				t.Error(err)
			}
		}
	}
}
