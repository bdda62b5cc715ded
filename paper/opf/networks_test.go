package opf

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/grid/matpower/cases"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// Units that cannot produce have a ramp above zero, and the exact chain goes through a
// trajectory of a network that has such units; the header of a trace holds the ramps.
func TestUnitsWithoutPowerHaveARamp(t *testing.T) {
	c := require.Get(FromText("rated", "synchronous condensers", require.Get(cases.Text("pglib_opf_case118_ieee"))(t), Options{}))(t)
	y := c.Problem.(*System)
	condensers := 0
	for g, p := range y.Network.PMax {
		if y.Ramp[g] != max(RampShare*p, RampFloor) {
			t.Errorf("unit %d with P_max %v: ramp %v", g, p, y.Ramp[g])
		}
		if p == 0 {
			condensers++
		}
	}
	if condensers != 35 {
		t.Errorf("%d units without power, the file has 35", condensers)
	}
	ep := require.Get(c.Plant.Episode(991, 0, domain.EpisodeOptions{Regime: "envelope:0.8:0.9", Preference: domain.Preference{Adaptive: true}}))(t)
	scene := ep.Scene().(Scene)
	if len(scene.Excluded) != 0 || scene.Regime != "envelope:0.8:0.9:0.08" {
		t.Errorf("regime %q, left out before it %+v", scene.Regime, scene.Excluded)
	}
	if got := c.Plant.Params().(Params).Ramp; len(got) != y.Network.Gens() || got[0] != y.Ramp[0] {
		t.Errorf("the params have the ramps %v", got)
	}
}

// A unit whose power the file fixes is a valid part of a problem, and a dispatch keeps it.
func TestAFixedUnit(t *testing.T) {
	text := append(bytes.Clone(require.Get(cases.Text("case30"))(t)), "\nmpc.gen(2, 9) = 20;\nmpc.gen(2, 10) = 20;\n"...)
	c := require.Get(FromText("fixed", "a dispatch", text, Options{}))(t)
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	y := c.Problem.(*System)
	ep := require.Get(c.Plant.Episode(991, 0, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}))(t)
	s, ctx, u := make([]float64, 2*y.layout.buses), make([]float64, y.layout.context), make([]float64, 2*y.layout.gens)
	for range 10 {
		ep.Observe(s, ctx)
		y.Base(s, ctx, u)
		u[1] += 0.1
		if ok := y.Project(s, ctx, u); !ok || math.Abs(u[1]-0.2) > 1e-12 {
			t.Fatalf("projected: %v, the fixed unit gives %v", ok, u[1])
		}
		require.Get(ep.Apply(u))(t)
	}
}

// A network whose reference has no unit is dispatched with another slack, and the case
// says which.
func TestAReferenceWithoutUnit(t *testing.T) {
	text := require.Get(cases.Text("case14"))(t)
	text = append(bytes.Clone(text), "\nmpc.gen(1, 8) = 0;\nmpc.gen(:, 9) = 200;\n"...)
	c := require.Get(FromText("moved", "a dispatch", text, Options{}))(t)
	y := c.Problem.(*System)
	if id := y.Network.BusID[y.Network.Slack]; id != 2 || !strings.HasPrefix(y.Spec().Description, "a dispatch; bus 1, the reference of the file, has no generator in service: bus 2 is") {
		t.Errorf("slack at bus %d: %q", id, y.Spec().Description)
	}
	ep := require.Get(c.Plant.Episode(991, 0, domain.EpisodeOptions{Regime: "envelope:0.6:0.7", Preference: domain.Preference{Adaptive: true}}))(t)
	s, ctx, u := make([]float64, 2*y.layout.buses), make([]float64, y.layout.context), make([]float64, 2*y.layout.gens)
	for range 20 {
		ep.Observe(s, ctx)
		y.Fallback(s, ctx, u)
		if out := require.Get(ep.Apply(u))(t); !y.spec.Keeps(out.Margin) {
			t.Fatalf("margin %v", out.Margin)
		}
	}
}

// dispatches are decisions on every network inside that has lines or voltages to keep, few on
// the large ones.
func dispatches(t *testing.T, run func(t *testing.T, y *System, at []Decision)) {
	for _, network := range []struct {
		name, regime  string
		steps, chains int
	}{
		{"case9", "envelope:0.8:1", 6, 1}, {"case14", "envelope:0.8:1", 6, 1}, {"case30", "envelope", 6, 2}, {"case_ieee30", "envelope:0.8:1", 6, 1},
		{"case39", "envelope:0.9:1", 6, 1}, {"pglib_opf_case57_ieee", "envelope:0.8:1", 6, 1}, {"case118", "envelope:0.7:1", 4, 1},
		{"pglib_opf_case118_ieee", "envelope:0.75:0.98", 4, 1}, {"pglib_opf_case300_ieee", "envelope:0.92:1", 3, 1},
	} {
		t.Run(network.name, func(t *testing.T) {
			c := require.Get(FromText(network.name, network.name, require.Get(cases.Text(network.name))(t), Options{}))(t)
			y := c.Problem.(*System)
			run(t, y, require.Get(y.Decisions(t.Context(), network.regime, 991, network.steps, network.chains))(t))
		})
	}
}

// Wherever a chain of exact optima goes, the projection follows: from the merit order, from
// the last dispatch and from the optimum with errors of a map's size. What was projected
// before changes no bit of it.
func TestProjectionClosesWhereTheOptimumIs(t *testing.T) {
	dispatches(t, func(t *testing.T, y *System, all []Decision) {
		first := make([][]float64, 0, 3*len(all))
		for i, at := range all {
			for kind, u := range at.From {
				u = slices.Clone(u)
				if !y.Project(at.S, at.C, u) {
					t.Errorf("decision %d, dispatch %d: not within the limits", i, kind)
				}
				first = append(first, u)
			}
		}
		for k := len(first) - 1; k >= 0; k-- {
			at := all[k/3]
			u := slices.Clone(at.From[k%3])
			if y.Project(at.S, at.C, u); !slices.Equal(u, first[k]) {
				t.Errorf("decision %d, dispatch %d: %v after others, %v before", k/3, k%3, u, first[k])
			}
		}
	})
}

// The program of a round, its rows made as they are needed and its constraints held in
// blocks, has the answer of a dense active set that has every limit within reach as a row,
// also where it begins with what held before; in a round that keeps the linearisation of the
// one before, of those rows.
func TestRoundsSolveTheirPrograms(t *testing.T) {
	dispatches(t, func(t *testing.T, y *System, all []Decision) {
		w, other := newWorkspace(y), newWorkspace(y)
		p := w.projection
		rounds, kept, near, recalled, worst := 0, 0, 0, 0, 0.0
		for i, at := range all {
			for kind, u := range at.From {
				u = slices.Clone(u)
				y.clip(at.C, u)
				last := 0.0
				p.linearised = false
				for round := range projectionRounds {
					if !w.dispatch(at.S, at.C, u) {
						t.Fatalf("decision %d, dispatch %d: no power flow", i, kind)
					}
					low := w.smallest()
					if low >= -p.tolerance {
						break
					}
					keep := low >= max(p.frozen*last, -frozenMost)
					if !keep {
						other.dispatch(at.S, at.C, u)
						other.allRows(at.C)
					} else {
						kept++
					}
					if w.correct(at.C, u, keep); !keep {
						near += len(p.limits)
					}
					for k := range p.limits {
						if l := &p.limits[k]; l.binding && !keep {
							recalled++
							if l.row < 0 {
								t.Errorf("decision %d, dispatch %d, round %d: limit %d held before and is no row", i, kind, round, k)
							}
						}
					}
					y.clip(at.C, u)
					last = low
					bound := make([]float64, len(p.limits))
					for k := range bound {
						bound[k] = p.limits[k].bound
					}
					want := denseChange(y.metric(), elasticity, p.program.lo, p.program.hi, other.projection.program.rows, bound)
					rounds++
					for j, v := range want {
						off := math.Abs(p.program.x[j] - v)
						if worst = max(worst, off); !(off <= 1e-8) {
							t.Fatalf("decision %d, dispatch %d, round %d: control %d changes by %v, the dense active set has %v", i, kind, round, j, p.program.x[j], v)
						}
					}
				}
			}
		}
		t.Logf("%d programs for %d dispatches, %d with a linearisation kept, the others of %.0f limits near; %d limits held before another; off by at most %.1e",
			rounds, 3*len(all), kept, float64(near)/float64(max(1, rounds-kept)), recalled, worst)
		if small := len(p.control) <= mostModes+1; small && recalled > 0 || !small && strings.Contains(t.Name(), "pglib_opf_case300") && recalled == 0 {
			t.Errorf("%d limits that held were where the next program began", recalled)
		}
	})
}
