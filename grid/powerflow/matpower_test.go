package powerflow_test

import (
	"math"
	"testing"

	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/networktest"
	"github.com/gpc-engine/gpc/grid/powerflow"
)

// TestAsMATPOWER compares with MATPOWER 8's runpf (pf.tol 1e-10) on the same
// files: losses, the sums of voltage magnitudes, of angles, of reactive
// generation and of |S| into the from ends. With reactive limits enforced, the
// cases in which MATPOWER does not also switch the reference bus.
func TestAsMATPOWER(t *testing.T) {
	for _, want := range []struct {
		name                     string
		enforce                  bool
		loss, vm, deg, qg, flows float64 // MW, pu, degrees, MVAr, MVA
	}{
		{"case9", false, 4.641021474, 9.198078479926, 10.465720878, 22.839874781, 661.415370870},
		{"case14", false, 13.393272358, 14.678627332858, -168.826582441, 82.437543873, 693.255583317},
		{"case30", false, 2.443803137, 29.458299216128, -67.830077740, 100.414805657, 434.695778758},
		{"case_ieee30", false, 17.556947909, 30.887949015936, -417.810477559, 133.929800755, 1023.965274005},
		{"case39", false, 43.641125761, 40.023982241909, -290.298945316, 1274.938963019, 13937.162685979},
		{"case118", false, 132.862871889, 116.317509640899, 2400.709038457, 795.683977104, 10383.747605697},
		{"case9", true, 4.641021474, 9.198078479926, 10.465720878, 22.839874781, 661.415370870},
		{"case30", true, 2.443803137, 29.458299216128, -67.830077740, 100.414805657, 434.695778758},
		{"case39", true, 43.627518819, 40.025844554127, -290.310886237, 1274.668496027, 13936.412278572},
		{"case118", true, 132.480749304, 116.333016489592, 2401.389200220, 793.917762940, 10372.042975730},
	} {
		n := networktest.Load(t, want.name)
		s := solver(t, n)
		sol := s.NewSolution()
		if err := s.Solve(powerflow.Input{}, powerflow.Options{Tolerance: 1e-10, EnforceQ: want.enforce}, sol); err != nil || !sol.Converged() {
			t.Errorf("%s: %v, %s", want.name, err, s.Reason(sol))
			continue
		}
		f := network.NewFlows(n.Branches())
		s.BranchFlows(sol, f)
		var loss, vm, deg, qg, flows float64
		for k := range f.Pf {
			// Charging is lossless and the case's lines have no other shunt, so that
			// losses are what goes in at both ends.
			loss += (f.Pf[k] + f.Pt[k]) * n.BaseMVA
			flows += math.Hypot(f.Pf[k], f.Qf[k]) * n.BaseMVA
		}
		for b := range sol.Vm {
			vm += sol.Vm[b]
			deg += sol.Va[b] * 180 / math.Pi
		}
		for _, q := range sol.Qg {
			qg += q * n.BaseMVA
		}
		for _, c := range []struct {
			what      string
			got, want float64
		}{{"losses, MW", loss, want.loss}, {"Σ|V|, pu", vm, want.vm}, {"Σθ, degrees", deg, want.deg}, {"ΣQg, MVAr", qg, want.qg}, {"Σ|Sf|, MVA", flows, want.flows}} {
			if !(math.Abs(c.got-c.want) <= 2e-8*math.Max(1, math.Abs(c.want))) {
				t.Errorf("%s, limits %v: %s %.9f, MATPOWER %.9f", want.name, want.enforce, c.what, c.got, c.want)
			}
		}
	}
}
