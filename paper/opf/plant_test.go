package opf

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/grid/networktest"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

var adaptive = domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}

func TestLoadPathsStayInTheirRegime(t *testing.T) {
	n := networktest.Load(t, "case30")
	for _, text := range []string{RegimePaper, RegimeEnvelope, RegimeSwing, "envelope:0.86:1.1", "swing:0.9:0.95:0.02"} {
		regime, err := parseRegime(text)
		if err != nil || regime.String() != text && strings.Count(text, ":") != 2 {
			t.Fatalf("%q: %+v, %v", text, regime, err)
		}
		span, busSpread := [2]float64{regime.lo, regime.hi}, regime.spread
		lowest, highest := math.Inf(1), math.Inf(-1)
		for seed := range uint64(20) {
			p, q := loadPaths(rand.New(rand.NewPCG(seed, 1)), n, regime, Steps+1)
			for step := range p {
				total, nominal := 0.0, 0.0
				for i, v := range n.Pd {
					if v == 0 {
						if p[step][i] != 0 {
							t.Fatalf("bus %d has no load in the file and %v here", n.BusID[i], p[step][i])
						}
						continue
					}
					total, nominal = total+p[step][i], nominal+v
					// The bus's own path and five standard deviations of noise.
					if f := p[step][i] / v; f < span[0]*(1-busSpread)*(1-5*busNoise) || f > span[1]*(1+busSpread)*(1+5*busNoise) {
						t.Fatalf("%s: factor %v of bus %d", regime, f, n.BusID[i])
					}
				}
				lowest, highest = math.Min(lowest, total/nominal), math.Max(highest, total/nominal)
			}
			if len(p) != Steps+1 || len(q) != Steps+1 {
				t.Fatalf("%d and %d rows", len(p), len(q))
			}
		}
		if middle := (span[0] + span[1]) / 2; lowest > middle-0.4*(span[1]-span[0]) || highest < middle+0.4*(span[1]-span[0]) {
			t.Errorf("%s: level from %v to %v, the regime is %v", regime, lowest, highest, span)
		}
	}
	for _, text := range []string{"calm", "envelope:0.8", "envelope:1:0.8", "envelope:0:1", "envelope:0.8:1:1", "envelope:0.8:1:0.1:2", "envelope:a:1", "envelope:0.8:NaN", "envelope:0.8:1e300"} {
		if r, err := parseRegime(text); err == nil {
			t.Errorf("regime %q was accepted: %+v", text, r)
		}
	}
}

// The merit order covers the demand within the windows at one marginal cost.
func TestMeritOrderIsEconomic(t *testing.T) {
	for _, name := range []string{"case9", "case30", "case118"} {
		y := newTestSystem(t, name, Options{})
		rng := rand.New(rand.NewPCG(7, 7))
		for range 20 {
			_, c, _ := randomPoint(rng, y, 0.6+0.4*rng.Float64())
			previous := c[y.layout.previous:]
			low, high := 0.0, 0.0
			for g := range y.layout.gens {
				lo, hi := y.window(g, previous[g])
				low, high = low+lo, high+hi
			}
			demand := low + rng.Float64()*(high-low)
			p := make([]float64, y.layout.gens)
			y.merit(demand, previous, p)
			sum, cheapest, dearest := 0.0, math.Inf(1), math.Inf(-1)
			for g, v := range p {
				sum += v
				lo, hi := y.window(g, previous[g])
				if v < lo || v > hi {
					t.Fatalf("%s: unit %d at %v outside [%v, %v]", name, g, v, lo, hi)
				}
				_, marginal, _ := y.Network.Cost[g].At(v)
				marginal += flatSlope * (v - lo)
				if v > lo+1e-9 {
					dearest = math.Max(dearest, marginal)
				}
				if v < hi-1e-9 {
					cheapest = math.Min(cheapest, marginal)
				}
			}
			if math.Abs(sum-demand) > 1e-7*(1+demand) {
				t.Fatalf("%s: the units give %v, the demand is %v", name, sum, demand)
			}
			if dearest > cheapest+1e-6*(1+math.Abs(cheapest)) {
				t.Fatalf("%s: a unit runs at %v $/h per pu while another has room at %v", name, dearest, cheapest)
			}
		}
	}
}

func TestEpisodeOptionsAreChecked(t *testing.T) {
	plant := Thirty().Plant
	for name, opt := range map[string]domain.EpisodeOptions{
		"regime":     {Regime: "storm"},
		"hidden":     {Regime: RegimePaper + hiddenSuffix},
		"noise":      {Noise: math.NaN()},
		"preference": {Preference: domain.Preference{W: []float64{1, 1, 1}}},
	} {
		if _, err := plant.Episode(1, 0, opt); err == nil {
			t.Errorf("%s: %+v was accepted", name, opt)
		}
	}
}

// The chain's set-points keep every limit on the plant and cost what it says; no
// cheaper dispatch of the first step is found beside it.
func TestOracleIsConfirmedByThePlant(t *testing.T) {
	for _, c := range []domain.Case{Thirty(), ThirtyUncertain()} {
		ep, err := c.Plant.Episode(5, 0, domain.EpisodeOptions{Regime: RegimeSwing, Preference: domain.Preference{Adaptive: true}})
		if err != nil {
			t.Fatal(err)
		}
		want, plan, err := ep.Oracle()
		if err != nil {
			t.Fatal(err)
		}
		cost, ramp := 0.0, 0
		for _, u := range plan {
			out, err := ep.Apply(u)
			if err != nil {
				t.Fatal(err)
			}
			if out.Margin < -1e-6 {
				t.Fatalf("the oracle breaks a limit by %v", -out.Margin)
			}
			y := c.Problem.(*System)
			for g := range y.layout.gens {
				if out.Named[y.layout.marginRamp+g] < 1e-5 {
					ramp++
					break
				}
			}
			cost += out.Cost
		}
		if !ep.Done() || math.Abs(cost-want) > 1e-6*want {
			t.Errorf("the plant counts %v, the oracle says %v", cost, want)
		}
		if ramp == 0 {
			t.Error("the ramp binds in no step of a swing")
		}
	}
}

// A step dispatches for the loads of the next row: the state observed before it
// is the power flow of the old set-points under them.
func TestStateIsBeforeTheDispatch(t *testing.T) {
	c := Thirty()
	y := c.Problem.(*System)
	ep, err := c.Plant.Episode(5, 1, adaptive)
	if err != nil {
		t.Fatal(err)
	}
	scene := ep.Scene().(Scene)
	s, ctx, next, cNext := make([]float64, 60), make([]float64, y.layout.context), make([]float64, 60), make([]float64, y.layout.context)
	ep.Observe(s, ctx)
	for k, i := range y.layout.loadP {
		if got, want := ctx[k], scene.Pd[1][i]/y.Network.BaseMVA; got != want {
			t.Fatalf("context has the load %v at bus %d, row 1 has %v", got, y.Network.BusID[i], want)
		}
	}
	before := append(append([]float64(nil), scene.Pg0...), scene.Vg0...)
	y.Step(s, ctx, before, next, cNext)
	for i := range s {
		if math.Abs(s[i]-next[i]) > 1e-8 {
			t.Fatalf("state %d is %v, the old set-points give %v", i, s[i], next[i])
		}
	}
}

func TestReplayRefusesWhatIsMalformed(t *testing.T) {
	c := Thirty()
	params, err := json.Marshal(c.Plant.Params())
	if err != nil {
		t.Fatal(err)
	}
	ep, err := c.Plant.Episode(5, 0, adaptive)
	if err != nil {
		t.Fatal(err)
	}
	scene, err := json.Marshal(ep.Scene())
	if err != nil {
		t.Fatal(err)
	}
	edit := func(raw []byte, f func(map[string]any)) []byte {
		var m map[string]any
		if err := json.Unmarshal(raw, &m); err != nil {
			t.Fatal(err)
		}
		f(m)
		out, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for name, bad := range map[string][2][]byte{
		"case":   {edit(params, func(m map[string]any) { m["case_m"] = "function mpc = other" }), scene},
		"ramp":   {edit(params, func(m map[string]any) { m["ramp_pu"] = []float64{9, 9, 9, 9, 9, 9} }), scene},
		"tol_pu": {edit(params, func(m map[string]any) { m["tol_pu"] = 1 }), scene},
		"rows":   {params, edit(scene, func(m map[string]any) { m["pd_mw"] = m["pd_mw"].([]any)[1:] })},
		"units":  {params, edit(scene, func(m map[string]any) { m["pg0_pu"] = []float64{1} })},
		"factor": {params, edit(scene, func(m map[string]any) { m["branch_factor"].([]any)[3] = 0 })},
		"w":      {params, edit(scene, func(m map[string]any) { m["w"] = []float64{2, 0, 0} })},
		"json":   {params, []byte("{")},
	} {
		if _, err := c.Plant.Replay(bad[0], bad[1]); err == nil {
			t.Errorf("%s: accepted", name)
		} else if !strings.HasPrefix(err.Error(), "trace ") && !strings.Contains(err.Error(), "opf") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := c.Plant.Replay(params, scene); err != nil {
		t.Errorf("what was not edited: %v", err)
	}
}

func TestFileNames(t *testing.T) {
	c, err := FromFile("opf:case9.m")
	if err != nil {
		t.Fatal(err)
	}
	if s := c.Problem.Spec(); s.Name != "opf:case9.m" || s.ActionSize() != 6 || s.MeasuredSize() != 18 {
		t.Errorf("%s has %d actions and %d measured values", s.Name, s.ActionSize(), s.MeasuredSize())
	}
	for _, bad := range []string{"opf:nowhere.m", "opf:dir/case30.m", "case30.m"} {
		if _, err := FromFile(bad); err == nil {
			t.Errorf("%s was accepted", bad)
		}
	}
}

// A test trajectory shares no random numbers with what the same seed draws elsewhere.
func TestTestTrajectoriesHaveAStreamOfTheirOwn(t *testing.T) {
	c := Thirty()
	n := networktest.Load(t, "case30")
	const seed = 3
	for _, index := range []int{0, 1} {
		ep, err := c.Plant.Episode(seed, index, domain.EpisodeOptions{Regime: RegimePaper, Preference: domain.Preference{Adaptive: true}, Noise: 0.01})
		if err != nil {
			t.Fatal(err)
		}
		scene := ep.Scene().(Scene)
		if len(scene.Excluded) > 0 {
			t.Fatalf("trajectory %d was drawn again", index)
		}
		paper, err := parseRegime(RegimePaper)
		if err != nil {
			t.Fatal(err)
		}
		p, _ := loadPaths(rand.New(rand.NewPCG(seed, uint64(index)<<20)), n, paper, Steps+1)
		for i, v := range p[0] {
			if v != 0 && math.Abs(scene.Pd[0][i]-v*n.BaseMVA) < 1e-12 {
				t.Errorf("trajectory %d: the load of bus %d is the seed's own stream's", index, n.BusID[i])
			}
		}
		s, x, truth := make([]float64, 60), make([]float64, 46), make([]float64, 60)
		ep.Observe(s, x)
		ep.State(truth)
		if e := 0.01 * rand.New(rand.NewPCG(seed, ^uint64(index))).NormFloat64(); math.Abs(s[0]-truth[0]-e) < 1e-12 {
			t.Errorf("trajectory %d: its noise is the seed's own stream's", index)
		}
	}
}

// TestPreparedScenesAreThoseDrawnAlone: to the bit, redraws and oracle included, and Episode
// finds them drawn.
func TestPreparedScenesAreThoseDrawnAlone(t *testing.T) {
	const seed = 991
	indices := []int{0, 1, 2, 3, 4}
	opt := domain.EpisodeOptions{Regime: "envelope:0.8:1.01"}
	c := ThirtyUncertain()
	alone, together := c.Plant.(*Plant), newPlant(c.Problem.(*System), "")
	require.OK(t, together.Prepare(t.Context(), seed, indices, opt))
	redrawn := 0
	for _, i := range indices {
		a, b := require.Get(alone.Episode(seed, i, opt))(t).(*episode), require.Get(together.Episode(seed, i, opt))(t).(*episode)
		if !reflect.DeepEqual(a.scene, b.scene) || !reflect.DeepEqual(a.chain, b.chain) {
			t.Errorf("scene %d is another one where it is drawn with others", i)
		}
		if d := together.trajectory(drawKey{seed, i, require.Get(parseRegime(opt.Regime))(t), "[]"}); d.chain != b.chain {
			t.Errorf("scene %d was drawn again", i)
		}
		redrawn += b.Excluded()
	}
	if redrawn == 0 {
		t.Error("no trajectory was left out: the test is of none that ends early")
	}
}

// TestOldScenesMakeRoom: the latest that were drawn are kept.
func TestOldScenesMakeRoom(t *testing.T) {
	c := Thirty()
	l := c.Plant.(*Plant)
	first := l.trajectory(drawKey{index: 0})
	for i := range keptTrajectories - 1 {
		l.trajectory(drawKey{index: i + 1})
	}
	if l.trajectory(drawKey{index: 0}) != first {
		t.Error("a scene was dropped while there was room")
	}
	second := l.trajectory(drawKey{index: 1})
	l.trajectory(drawKey{index: keptTrajectories})
	if l.trajectory(drawKey{index: 1}) != second || len(l.trajectories) != keptTrajectories {
		t.Error("a newer scene made room, or there are too many")
	}
	if l.trajectory(drawKey{index: 0}) == first {
		t.Error("the oldest scene is still there")
	}
}
