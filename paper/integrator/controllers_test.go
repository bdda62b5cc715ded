package integrator

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gpc-engine/gpc/domain"
)

// run is one closed-loop episode of a method.
type run struct {
	cost, oracle float64
	failed, safe bool
}

func (r *run) regret() float64 { return (r.cost - r.oracle) / r.oracle }

func runEpisode(t testing.TB, ep domain.Episode, ctl domain.Controller, pref domain.Preference) run {
	t.Helper()
	r := run{safe: true}
	var err error
	if r.oracle, _, err = ep.Oracle(); err != nil {
		t.Fatal(err)
	}
	if err := ctl.Reset(ep); err != nil {
		t.Fatal(err)
	}
	s, c, u := make([]float64, 4), make([]float64, contextSize), make([]float64, 2)
	for !ep.Done() {
		ep.Observe(s, c)
		d, err := ctl.Decide(s, c, pref, u)
		if err != nil {
			t.Fatal(err)
		}
		if !d.Solved() {
			r.failed = true
			return r
		}
		out, err := ep.Apply(u)
		if err != nil {
			t.Fatal(err)
		}
		r.safe = r.safe && out.Margin >= -1e-6
		r.cost += out.Cost
	}
	return r
}

// No method costs less than the oracle on an episode it completes, none that
// completes breaks a margin, and the oracle's own cost is what the plant bills.
func TestRegretIsNeverNegative(t *testing.T) {
	for _, y := range systems(t) {
		plant := &Plant{system: y, oracle: newOracleOf(y, 40, 7)}
		for _, pref := range []domain.Preference{{Adaptive: true}, {W: []float64{0.35, 0.65}}} {
			completed := map[string]int{}
			for _, m := range methods(y) {
				name := m.Name
				ctl, err := m.New(domain.Means{})
				if err != nil {
					t.Fatal(err)
				}
				for i := range 4 {
					ep, err := plant.Episode(2, i, domain.EpisodeOptions{Preference: pref})
					if err != nil {
						t.Fatal(err)
					}
					r := runEpisode(t, ep, ctl, pref)
					if r.failed {
						continue
					}
					completed[name]++
					if !r.safe {
						t.Errorf("%s %s, episode %d: a margin is broken", y.spec.Name, name, i)
					}
					if !(r.regret() >= -tolRegret) {
						t.Errorf("%s %s, episode %d: regret %g", y.spec.Name, name, i, r.regret())
					}
					if name == "oracle" && !(math.Abs(r.regret()) < 1e-9) {
						t.Errorf("%s: the oracle's plan costs %v in the plant, %v in the solve", y.spec.Name, r.cost, r.oracle)
					}
				}
			}
			for _, name := range []string{"oracle", "nmpc"} {
				if completed[name] != 4 {
					t.Errorf("%s %s completed %d of 4", y.spec.Name, name, completed[name])
				}
			}
		}
	}
}

// agreement says how often two independently seeded oracles find the same optimum.
type agreement struct {
	unsolved   int     // scenes not certified by one or both
	differ     int     // scenes whose costs are apart by more than one part in a million
	worst      float64 // largest relative difference in cost
	largestKKT float64 // of any of the optima
}

// oracleAgreement solves test scenes with oracles whose libraries of size scenarios
// have other seeds. adaptive chooses the kind of preference; a fixed one is drawn
// for each scene.
func oracleAgreement(y *System, adaptive bool, scenes, size int) (out agreement) {
	oracles := [2]*Oracle{newOracleOf(y, size, 1), newOracleOf(y, size, 2)}
	rng := rand.New(rand.NewPCG(1^testStream, 2))
	for range scenes {
		var v [scenarioSize]float64
		for j, axis := range testRange() {
			v[j] = axis.Lo + (axis.Hi-axis.Lo)*rng.Float64()
		}
		pref := domain.Preference{Adaptive: adaptive}
		if !adaptive {
			w := rng.Float64()
			pref.W = []float64{w, 1 - w}
		}
		scene := y.scene(v[:])
		var problem horizonProblem
		y.sceneProblem(&problem, &scene, pref)
		a, err1 := oracles[0].best(context.Background(), &problem)
		b, err2 := oracles[1].best(context.Background(), &problem)
		if err1 != nil || err2 != nil {
			out.unsolved++
			continue
		}
		apart := math.Abs(a.cost-b.cost) / min(a.cost, b.cost)
		if apart > 1e-6 {
			out.differ++
		}
		out.worst = max(out.worst, apart)
		out.largestKKT = max(out.largestKKT, a.kkt, b.kkt)
	}
	return out
}

// Two small libraries of different seeds agree on a few scenes; the full size
// is BenchmarkOracleAgreement.
func TestOraclesAgree(t *testing.T) {
	for _, y := range systems(t) {
		if a := oracleAgreement(y, true, 20, 60); a.unsolved != 0 || a.differ != 0 || !(a.largestKKT <= CertifiedKKT) {
			t.Errorf("%s: %+v", y.spec.Name, a)
		}
	}
}

func TestEpisodeOptionsAreChecked(t *testing.T) {
	y := systems(t)[0]
	plant := &Plant{system: y, oracle: newOracle(y)}
	for _, opt := range []domain.EpisodeOptions{
		{Regime: "storm"}, {Noise: -1}, {Noise: math.NaN()},
		{Preference: domain.Preference{W: []float64{0.5, 0.6}}},
		{Preference: domain.Preference{W: []float64{1}}},
	} {
		if _, err := plant.Episode(1, 0, opt); err == nil {
			t.Errorf("%+v was accepted", opt)
		}
	}
}

func TestValidateNamesTheParameter(t *testing.T) {
	for _, spoil := range []func(*Params){
		func(p *Params) { p.Dt = 0 },
		func(p *Params) { p.RMax = math.NaN() },
		func(p *Params) { p.QGoal[1] = math.Inf(1) },
		func(p *Params) { p.BetaU = -1 },
		func(p *Params) { p.Lead = 1.5 },
		func(p *Params) { p.Ellipse.B = 0.01 },
	} {
		p := Default(false)
		spoil(&p)
		if _, err := NewSystem("spoilt", p); err == nil {
			t.Errorf("%+v was accepted", p)
		}
	}
}
