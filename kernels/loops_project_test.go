package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/testing/backendtest"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/kernels/shim"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/paper/opf"
)

// leftToHost is a backend whose loops project nothing.
type leftToHost struct{ *Backend }

func (b leftToHost) NewLoops(cfg backend.LoopsConfig) (backend.Loops, error) {
	l, err := b.Backend.NewLoops(cfg)
	return unprojected{l}, err
}

type unprojected struct{ backend.Loops }

func (l unprojected) Decide(in backend.LoopsInput, out backend.LoopsOutput) error {
	in.State, out.Action, out.Margins = nil, nil, nil
	return l.Loops.Decide(in, out)
}

// counted is a problem that counts the actions which the host's threads project.
type counted struct {
	domain.Problem
	functions func() domain.DeviceCode
	projected atomic.Int64
}

func (p *counted) Abilities() *domain.ProblemAbilities {
	return &domain.ProblemAbilities{Device: p.functions}
}

func (p *counted) Project(s, c, u []float64) bool {
	p.projected.Add(1)
	return p.Problem.Project(s, c, u)
}

// navigated is a map with observations of loops that decide together.
type navigated struct {
	problem domain.Problem
	m       *model.Model
	opt     batchnav.Options
	s, c    [][]float64
}

// decide makes one decision in the loops of these numbers, and counts what the host
// projected.
func (n *navigated) decide(t testing.TB, b backend.Backend, which []int) (out []batchnav.Decision, projected int) {
	t.Helper()
	p := &counted{Problem: n.problem, functions: domain.AbilitiesOfProblem(n.problem).Device}
	batch := require.Get(batchnav.NewBatch(b, n.m, p, n.opt, len(n.s)))(t)
	if !batch.OnDevice() {
		t.Fatalf("%s is not navigated on the device", p.Spec().Name)
	}
	obs, out := make([]batchnav.Observation, len(which)), make([]batchnav.Decision, len(which))
	for i, w := range which {
		obs[i] = batchnav.Observation{S: n.s[w], C: n.c[w], Preference: domain.Preference{Adaptive: true}}
	}
	require.OK(t, batch.DecideSome(which, obs, out))
	return out, int(p.projected.Load())
}

func upTo(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// untrained makes an untrained map of a network, which decodes set-points about the merit
// order and is executed whatever it says of itself.
func untrained(problem domain.Problem, s, c [][]float64) navigated {
	spec := problem.Spec()
	m := testdomain.Untrained(rand.New(rand.NewPCG(5, 6)), spec, 6, 10, 24)
	m.NormU, m.Calibration.TauGeom = testdomain.Scaled(spec.PlanSize(), 0.02), 0
	return navigated{problem, m, batchnav.Options{Direct: true, NoFallback: true, ResidualLimit: math.Inf(1)}, s, c}
}

// dispatched are loops of a network by its bundled map, or without one by one that is not
// trained; some see loads that no power flow carries, or what is not a number.
func dispatched(t testing.TB, c domain.Case, loops int, bundled string) navigated {
	t.Helper()
	d, lost := drawRows(c, loops)
	for i := range min(3, len(lost.s)) {
		d.s[loops-1-i], d.c[loops-1-i] = lost.s[i], lost.c[i]
	}
	d.c[4] = slices.Clone(d.c[4])
	d.c[4][1] = math.Inf(1)
	n := untrained(c.Problem, d.s, d.c)
	if bundled != "" {
		n.m, n.opt = bundledModel(t, bundled, 100), batchnav.Options{}
	}
	return n
}

// TestLoopsAreProjectedOnDevice holds decisions whose actions and margins the device makes
// to those of the problem's own methods, about the same decoded plans, in batches that do
// not fill blocks. What breaks a limit there, and only that, is the host's: to the bit what
// it was.
func TestLoopsAreProjectedOnDevice(t *testing.T) {
	b := onAny(t)
	var all []navigated
	for _, name := range []string{"integrator-convex", "integrator-nonconvex"} {
		d := integratorRows(t, name == "integrator-nonconvex", 150)
		d.s[3] = []float64{math.NaN(), 0, 0, 0}
		m := bundledModel(t, name, 60)
		m.Case = d.problem.Spec().Name
		all = append(all, navigated{d.problem, m, batchnav.Options{ResidualLimit: math.Inf(1)}, d.s, d.c})
	}
	for _, v := range []struct {
		c       domain.Case
		loops   int
		bundled string
	}{
		{opf.Thirty(), 45, "opf30"}, {opf.ThirtyUncertain(), 33, "opf30-uncertain"}, {opf.Thirty(), 37, ""}, {dispatchOf(t, "case39"), 33, ""},
		{dispatchOf(t, "case118"), 33, ""}, {dispatchOf(t, "pglib_opf_case57_ieee"), 33, ""}, {dispatchOf(t, "pglib_opf_case118_ieee"), 33, ""},
	} {
		if brief() && v.bundled == "" {
			continue
		}
		all = append(all, dispatched(t, v.c, v.loops, v.bundled))
	}
	for _, c := range viewCases {
		d := robotViews(t, c, 35)
		n := untrained(d.problem, d.s, d.c)
		n.m.NormU = testdomain.Scaled(d.problem.Spec().PlanSize(), 1)
		all = append(all, n)
	}
	for _, n := range all {
		name, every := n.problem.Spec().Name, upTo(len(n.s))
		got, projected := n.decide(t, b, every)
		want, onHost := n.decide(t, leftToHost{b}, every)
		lost, moved, worst := 0, 0, 0.0
		for i := range want {
			g, w := got[i], want[i]
			if !slices.Equal(g.Decoded, w.Decoded) || g.Fallback != w.Fallback || g.Consistent != w.Consistent || g.OffMap != w.OffMap {
				t.Errorf("%s, loop %d: plan %v, fallback %v, want %v, %v", name, i, g.Decoded, g.Fallback, w.Decoded, w.Fallback)
			}
			bad := w.Fallback&(domain.FallbackMargin|domain.FallbackObservation) != 0
			if w.Fallback&domain.FallbackMargin != 0 {
				lost++
			}
			if w.Correction > 1e-6 {
				moved++
			}
			for _, v := range []struct {
				what      string
				got, want []float64
			}{{"action", g.U, w.U}, {"margins", g.Margins, w.Margins}, {"correction and margin", []float64{g.Correction, g.Margin}, []float64{w.Correction, w.Margin}}} {
				if bad && !slices.Equal(bits(v.got), bits(v.want)) {
					t.Errorf("%s, loop %d, whose decision is the host's: %s %v, want %v", name, i, v.what, v.got, v.want)
				}
				if bad {
					continue
				}
				if err := backendtest.Near(v.got, v.want, 1e-9); err != nil {
					t.Errorf("%s, loop %d, %s: %v", name, i, v.what, err)
				}
				for j, x := range v.want {
					worst = max(worst, math.Abs(v.got[j]-x))
				}
			}
		}
		if projected != lost || onHost < len(want)-2 {
			t.Errorf("%s: the host projects %d actions, and %d where all are its own; %d of %d decisions break a limit", name, projected, onHost, lost, len(want))
		}
		if moved < len(want)/5 || lost > len(want)/2 {
			t.Errorf("%s: of %d actions %d were projected and %d are lost; the rows are badly chosen", name, len(want), moved, lost)
		}
		t.Logf("%s, %d loops: %d moved, %d the host's, off by at most %.1e", name, len(want), moved, lost, worst)
	}
}

// TestFewLoopsAreTheHosts has few of many loops decide together: to the bit as if the
// device projected nothing, while 32 are projected there.
func TestFewLoopsAreTheHosts(t *testing.T) {
	b := onAny(t)
	n := dispatched(t, opf.Thirty(), 40, "opf30")
	for _, count := range []int{1, 31, 32} {
		which := upTo(40)[40-count:]
		got, projected := n.decide(t, b, which)
		want, onHost := n.decide(t, leftToHost{b}, which)
		if few := count < 32; few != (projected == onHost) {
			t.Errorf("of %d loops the host projects %d, of its own %d", count, projected, onHost)
			continue
		} else if !few {
			continue
		}
		for i := range want {
			if g, w := fmt.Sprintf("%+v", timeless(got[i])), fmt.Sprintf("%+v", timeless(want[i])); g != w {
				t.Errorf("%d loops, loop %d: %s\nwant %s", count, which[i], g, w)
			}
		}
	}
}

func timeless(d batchnav.Decision) batchnav.Decision {
	d.Times = domain.Times{}
	return d
}

// TestProjectedLoopsInAnyOrder orders warps and lanes otherwise: the same bits.
func TestProjectedLoopsInAnyOrder(t *testing.T) {
	for _, n := range []navigated{dispatched(t, opf.Thirty(), 35, "opf30"), dispatched(t, dispatchOf(t, "case39"), 33, "")} {
		every := upTo(len(n.s))
		want, _ := n.decide(t, onAny(t), every)
		library, b := metered(t, Options{})
		shim.SetOrder(library, 7)
		got, projected := n.decide(t, b, every)
		if projected > len(every)/2 {
			t.Errorf("the host projects %d of %d", projected, len(every))
		}
		for i := range want {
			if g, w := fmt.Sprintf("%+v", timeless(got[i])), fmt.Sprintf("%+v", timeless(want[i])); g != w {
				t.Fatalf("loop %d: %s\nwant %s", i, g, w)
			}
		}
	}
}

// TestProjectionIsPartOfTheGraph counts what a projected decision asks of the driver: one
// launch more, within the one graph.
func TestProjectionIsPartOfTheGraph(t *testing.T) {
	library, b := metered(t, Options{})
	cfg := loopsConfig(t, 17)
	cfg.Projects = true
	l := require.Get(b.NewLoops(cfg))(t)
	in, out := loopsCall(cfg)
	counts := func() (graphs, kernels, copies int) {
		return library.Calls("cuGraphLaunch"), library.Calls("kernel"), library.Calls("cuMemcpyHtoD_v2") + library.Calls("cuMemcpyDtoH_v2")
	}
	var kernels [2]int
	for k := range kernels {
		if k == 1 {
			askForActions(cfg, &in, &out)
		}
		require.OK(t, l.Decide(in, out)) // captures
		graphs, launches, copies := counts()
		require.OK(t, l.Decide(in, out))
		g, n, c := counts()
		if kernels[k] = n - launches; g-graphs != 1 || c != copies {
			t.Errorf("projected %v: a decision is %d graphs and %d copies beside", k == 1, g-graphs, c-copies)
		}
	}
	if kernels[1] != kernels[0]+1 {
		t.Errorf("a projected decision is %d launches, another %d", kernels[1], kernels[0])
	}
	projected := 0
	for _, f := range out.Flags {
		if f&backend.LoopProjected != 0 {
			projected++
		}
	}
	if projected == 0 || slices.Max(out.Margins) == 0 {
		t.Errorf("%d actions of 17 are projected, with margins %v", projected, out.Margins)
	}
}

// askForActions asks for projected actions too.
func askForActions(cfg backend.LoopsConfig, in *backend.LoopsInput, out *backend.LoopsOutput) {
	spec, rows := cfg.Step.Problem.Spec(), cfg.Step.MaxBatch
	in.State = nil
	for i := range rows {
		in.State = append(in.State, wide32(in.S.Row(i))...)
	}
	out.Action, out.Margins = make([]float64, rows*spec.ActionSize()), make([]float64, rows*len(spec.Margins))
}
