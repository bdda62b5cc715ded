package plan

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/cpu_fallback"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/paper/multiagent/view"
	"github.com/gpc-engine/gpc/paper/multiagent/world"
	"github.com/gpc-engine/gpc/tensor"
)

// untrained is a map of a view with random weights and small plans around the
// base plan.
func untrained(t testing.TB, v *view.View, hidden, codes int) *model.Model {
	t.Helper()
	rng := rand.New(rand.NewPCG(11, 12))
	spec := v.Spec()
	const nz = 16
	nx, ns, nu := spec.ObservationSize(), spec.MeasuredSize(), spec.PlanSize()
	mlp := func(in, out int) *model.MLP {
		m, err := model.NewMLP(rng, in, hidden, hidden, out)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	unit := func(n int, scale float32) model.Normalizer {
		v := model.Normalizer{Mean: make([]float32, n), Scale: make([]float32, n)}
		for i := range v.Scale {
			v.Scale[i] = scale
		}
		return v
	}
	m := &model.Model{
		Case: spec.Name, EncoderX: mlp(nx, nz), EncoderO: mlp(spec.OracleSize(), nz), DecoderU: mlp(nz, nu), DecoderS: mlp(nz, ns),
		NormX: unit(nx, 1), NormO: unit(spec.OracleSize(), 1), NormS: unit(ns, 1), NormU: unit(nu, 0.3),
		Calibration: model.Calibration{TauGeom: 0.1, ObjectiveIdeal: []float64{0, 0, 0}, ObjectiveNadir: []float64{30, 30, 30}, LatentSpread: 2},
	}
	m.Codes, m.CodesDecoded = tensor.New(codes, nz), tensor.New(codes, ns)
	for i := range m.Codes.Data {
		m.Codes.Data[i] = float32(rng.NormFloat64())
	}
	for i := range m.CodesDecoded.Data {
		m.CodesDecoded.Data[i] = float32(rng.NormFloat64())
	}
	return m
}

func proposer(t testing.TB, v *view.View, threads int) domain.Proposer {
	t.Helper()
	b, err := cpufallback.New(cpufallback.Options{Threads: threads})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	p, err := batchnav.NewProposer(b, untrained(t, v, 32, 64), v, batchnav.Options{}, 256)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// scripted is a proposer whose plans a test writes.
type scripted struct {
	questions []domain.Question
	write     func(question, row int, plan []float32)
	fail      error
}

func (s *scripted) LatentSize() int { return 2 }

func (s *scripted) Propose(_ domain.ProposeOptions, questions []domain.Question, answers []domain.Answer) error {
	s.questions = slices.Clone(questions)
	for i, q := range questions {
		a := &answers[i]
		a.Plans, a.Latents = tensor.New(q.Count, world.LookAhead*world.ActionSize), tensor.New(q.Count, 2)
		a.Sources, a.Consistent = make([]domain.Source, q.Count), true
		a.Sigma, a.Residual = []float64{0.2, 0.3, 0.5}, float64(i)
		for n := range q.Count {
			a.Latents.Row(n)[0] = float32(n)
			s.write(i, n, a.Plans.Row(n))
		}
	}
	return s.fail
}

func guidedPlanner(t testing.TB, y *world.System, m domain.Proposer, set func(*Options)) *Planner {
	t.Helper()
	o := Guided(y.Moving(), 384)
	o.Latent, o.Descent, o.Noise = 0.3, 0.4, 0.1
	if set != nil {
		set(&o)
	}
	p, err := New(y, o, domain.Means{Proposer: m})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Whatever the map proposes, what the planner calls safe keeps every margin; the
// number of the engine's threads changes nothing.
func TestGuidedPlannerIsSafeOnAnyThreads(t *testing.T) {
	for _, moving := range []bool{false, true} {
		y := system(t, moving)
		var runs [2][]float64
		for k := range runs {
			p := guidedPlanner(t, y, proposer(t, view.New(y), 1+k), nil)
			claimed := 0
			_, low := drive(t, scene(t, y, 1), p, 12, func(u []float64, m domain.Decision) {
				runs[k] = append(runs[k], u...)
				if !slices.ContainsFunc(m.Sigma, func(x float64) bool { return x > 0 }) || !(m.Residual > 0) {
					t.Fatalf("the decision has %v and %v", m.Sigma, m.Residual)
				}
				if !m.Solved() {
					return
				}
				claimed++
				if least := committedMargin(p); least < 0.5*p.options.Hard {
					t.Fatalf("a committed plan called safe has the margin %v", least)
				}
			})
			if claimed < 8 || low < 0 {
				t.Errorf("moving %v: %d of 12 decisions safe for the look-ahead, smallest margin %v", moving, claimed, low)
			}
		}
		if !slices.Equal(runs[0], runs[1]) {
			t.Errorf("moving %v: one and two threads differ", moving)
		}
	}
}

// A proposed plan that is the cheapest is adopted and its latent asked about at
// the next decision; one that is not a number never is.
func TestProposedPlansCompete(t *testing.T) {
	y := system(t, true)
	teacher := planner(t, y, 4096)
	e := scene(t, y, 2)
	drive(t, e, teacher, 1, nil)
	best := teacher.joint.Robots
	good := &scripted{write: func(question, row int, plan []float32) {
		for k, u := range best[question/2].Plan {
			plan[2*k], plan[2*k+1] = u[0], u[1]
			if question%2 == 1 {
				plan[2*k+1] = -u[1]
			}
			if row != 5 {
				plan[2*k] = float32(math.NaN())
			}
		}
	}}
	p := guidedPlanner(t, y, good, func(o *Options) {
		o.Candidates, o.Descent, o.Noise, o.Latent = 1024, 0, 0, 0.5
	})
	e = scene(t, y, 2)
	drive(t, e, p, 1, nil)
	if !slices.ContainsFunc(p.committedImage, func(at image) bool { return at != nowhere }) {
		t.Errorf("the best plans were proposed and none was adopted: %v", p.adopted)
	}
	for i := range p.scene.Robots {
		for k, u := range p.joint.Robots[i].Plan {
			if u[0] != u[0] || u[1] != u[1] {
				t.Fatalf("robot %d's plan is not a number at step %d", i, k)
			}
		}
	}
	held := p.committedImage
	drive2 := func() { // one more decision
		s, c, u := make([]float64, world.MaxRobots*world.StateSize), make([]float64, contextSize), make([]float64, world.MaxRobots*world.ActionSize)
		e.Observe(s, c)
		if _, err := p.Decide(s, c, adaptive, u); err != nil {
			t.Fatal(err)
		}
	}
	drive2()
	for n, q := range good.questions {
		i, k := n/2, straight+image(n%2)
		if holds := held[i] == k; holds != (q.Previous != nil) || holds && q.Previous[0] != 5 {
			t.Errorf("robot %d holds a latent of image %d; the question about image %d says %v", i, held[i], k, q.Previous)
		}
	}
}

// The decision's candidates are as many as asked for, and the map's are its share,
// also where neither divides evenly.
func TestBudgetIsKept(t *testing.T) {
	y := system(t, true)
	for _, share := range []float64{0, 0.2, 0.5, 1} {
		for _, candidates := range []int{96, 192, 384, 1000, 4096} {
			latents := 0
			m := &scripted{write: func(int, int, []float32) { latents++ }}
			p := guidedPlanner(t, y, m, func(o *Options) {
				o.Candidates, o.Latent = candidates, share
				o.Descent = math.Min(0.4, 1-share)
				o.Noise = math.Min(0.1, 1-share-o.Descent)
			})
			e := scene(t, y, 0)
			drive(t, e, p, 3, nil)
			latents = 0
			s, c, u := make([]float64, world.MaxRobots*world.StateSize), make([]float64, contextSize), make([]float64, world.MaxRobots*world.ActionSize)
			e.Observe(s, c)
			if _, err := p.Decide(s, c, adaptive, u); err != nil {
				t.Fatal(err)
			}
			want := max(candidates/16, p.scene.Robots) * 16
			if share == 1 {
				want += p.scene.Robots // the committed plans
			}
			if n := p.chose().Candidates; n != want {
				t.Errorf("%d candidates, share %g: %d evaluated, want %d", candidates, share, n, want)
			}
			if off := math.Abs(float64(latents) - share*float64(candidates)); off > 16*float64(p.scene.Robots) && candidates >= 1000 {
				t.Errorf("%d candidates, share %g: %d latents", candidates, share, latents)
			}
		}
	}
}

// Robots that are home are not asked about; nobody is when all are.
func TestSettledRobotsAreNotAskedAbout(t *testing.T) {
	y := system(t, true)
	s := world.Scene{Robots: []world.Robot{
		{R: 0.3, P: [2]float64{5, 5}, Goal: [2]float64{5, 5}},
		{R: 0.3, P: [2]float64{-5, -5}, Goal: [2]float64{0, 0}},
	}}
	m := &scripted{write: func(int, int, []float32) {}}
	p := guidedPlanner(t, y, m, nil)
	e := start(y, s)
	var last domain.Decision
	drive(t, e, p, 3, func(_ []float64, d domain.Decision) { last = d })
	if len(m.questions) != 2 || len(p.offers[0]) > 0 || len(p.offers[1]) == 0 {
		t.Errorf("%d questions, %d and %d proposals to robots 0 and 1; want two, of robot 1", len(m.questions), len(p.offers[0]), len(p.offers[1]))
	}
	if last.Sigma != nil || last.Residual != 1 {
		t.Errorf("the ego was not asked about, and the decision has %v and %v", last.Sigma, last.Residual)
	}
}

// The raw decoder's first action is executed, within its limits, whatever it does.
func TestRawExecutesTheDecodedPlan(t *testing.T) {
	y := system(t, false)
	m := &scripted{write: func(_, _ int, plan []float32) {
		for k := range plan {
			plan[k] = 0.5
		}
	}}
	p := guidedPlanner(t, y, m, func(o *Options) { o.Raw = true })
	e := scene(t, y, 0)
	drive(t, e, p, 2, func(u []float64, _ domain.Decision) {
		if len(m.questions) != p.scene.Robots || m.questions[0].Count != 1 {
			t.Fatalf("%d questions for %d plans, want one plan for each of %d robots", len(m.questions), m.questions[0].Count, p.scene.Robots)
		}
		for i := range p.scene.Robots {
			if u[2*i] != 0.5 || u[2*i+1] != 0.5 {
				t.Fatalf("robot %d does %v, the map says 0.5", i, u[2*i:2*i+2])
			}
		}
	})
	m.write = func(_, _ int, plan []float32) { plan[0] = float32(math.NaN()) }
	drive(t, scene(t, y, 0), p, 1, nil) // the plant refuses what is no number
}

// Without look-ahead the planner sees H steps, and what it decided before does not
// matter.
func TestForgetfulPlannerHoldsNothing(t *testing.T) {
	y := system(t, false)
	m := &scripted{write: func(int, int, []float32) {}}
	forgetful := func() *Planner {
		return guidedPlanner(t, y, m, func(o *Options) { o.LookAhead, o.Forgetful, o.Noise = world.Horizon, true, 0 })
	}
	p, e := forgetful(), scene(t, y, 0)
	drive(t, e, p, 4, nil)
	s, c := make([]float64, world.MaxRobots*world.StateSize), make([]float64, contextSize)
	after, fresh := make([]float64, world.MaxRobots*world.ActionSize), make([]float64, world.MaxRobots*world.ActionSize)
	e.Observe(s, c)
	for _, run := range []struct {
		p *Planner
		u []float64
	}{{p, after}, {forgetful(), fresh}} {
		if _, err := run.p.Decide(s, c, adaptive, run.u); err != nil {
			t.Fatal(err)
		}
	}
	if p.search.Problem.Steps != world.Horizon || !slices.Equal(after, fresh) {
		t.Errorf("%d steps ahead; after four decisions it does %v, at once %v", p.search.Problem.Steps, after, fresh)
	}
}

// Where a robot is certain to be run over, the decision says so and executes the
// plan that is safe longest, the proposals' included.
func TestGuidedPlannerReportsThatNoPlanIsSafe(t *testing.T) {
	y := system(t, true)
	s := world.Scene{Robots: []world.Robot{{R: 0.3, Goal: [2]float64{5, 0}}}}
	for k := range 12 {
		sin, cos := math.Sincos(2 * math.Pi * float64(k) / 12)
		s.Obstacles = append(s.Obstacles, world.Obstacle{C: [2]float64{2.2 * cos, 2.2 * sin}, V: [2]float64{-0.8 * cos, -0.8 * sin}, R: 0.9})
	}
	p := guidedPlanner(t, y, proposer(t, view.New(y), 1), nil)
	unsafe := 0
	drive(t, start(y, s), p, 6, func(_ []float64, d domain.Decision) {
		if !d.Solved() {
			unsafe++
		}
		for _, c := range p.search.best[1:p.search.elites] {
			if c.safe > p.search.best[0].safe {
				t.Fatalf("a plan safe for %d steps was chosen, another is for %d", p.search.best[0].safe, c.safe)
			}
		}
	})
	if unsafe != 6 {
		t.Errorf("%d of 6 decisions report that no plan is safe", unsafe)
	}
}

func TestGuidedPlannerPassesErrorsOn(t *testing.T) {
	y := system(t, true)
	m := &scripted{write: func(int, int, []float32) {}, fail: errors.New("no device")}
	p := guidedPlanner(t, y, m, nil)
	e := scene(t, y, 0)
	s, c, u := make([]float64, world.MaxRobots*world.StateSize), make([]float64, contextSize), make([]float64, world.MaxRobots*world.ActionSize)
	e.Observe(s, c)
	if _, err := p.Decide(s, c, adaptive, u); !errors.Is(err, m.fail) {
		t.Errorf("error %v, want the proposer's", err)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	y := system(t, true)
	for name, set := range map[string]func(*Options){
		"no candidates":  func(o *Options) { o.Candidates = 0 },
		"too far ahead":  func(o *Options) { o.LookAhead = world.LookAhead + 1 },
		"shares above 1": func(o *Options) { o.Latent = 0.9 },
		"NaN":            func(o *Options) { o.Descent = math.NaN() },
	} {
		o := Default(true)
		set(&o)
		if _, err := New(y, o, domain.Means{}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// BenchmarkGuidedDecision is one whole decision with 4096 candidates and a map of
// the trained one's size, in the first thirty steps of a scene, and the part of it
// that the map takes. The engine has as many threads as the machine.
func BenchmarkGuidedDecision(b *testing.B) {
	for _, run := range []struct {
		name string
		set  func(*Options)
	}{
		{"none", func(o *Options) { *o = Default(true) }},
		{"default", func(*Options) {}},
		{"all", func(o *Options) { o.Latent, o.Descent, o.Noise = 1, 0, 0 }},
	} {
		b.Run(run.name, func(b *testing.B) {
			y := system(b, true)
			v := view.New(y)
			engine, err := cpufallback.New(cpufallback.Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer engine.Close()
			m, err := batchnav.NewProposer(engine, untrained(b, v, v.Spec().Training.Hidden, v.Spec().Training.Codes), v, batchnav.Options{}, 4096)
			if err != nil {
				b.Fatal(err)
			}
			o := Guided(true, Budget)
			run.set(&o)
			timed := &timedProposer{Proposer: m}
			p, err := New(y, o, domain.Means{Proposer: timed})
			if err != nil {
				b.Fatal(err)
			}
			e := scene(b, y, 3)
			s, c, u := make([]float64, world.MaxRobots*world.StateSize), make([]float64, contextSize), make([]float64, world.MaxRobots*world.ActionSize)
			var took []float64
			for n := 0; b.Loop(); n++ {
				if n > 0 && n%30 == 0 {
					b.StopTimer()
					e = scene(b, y, 3)
					if err := p.Reset(e); err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
				}
				e.Observe(s, c)
				start := time.Now()
				if _, err := p.Decide(s, c, adaptive, u); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(start).Seconds())
				if _, err := e.Apply(u); err != nil {
					b.Fatal(err)
				}
			}
			slices.Sort(took)
			b.ReportMetric(1e3*took[0], "min-ms")
			b.ReportMetric(1e3*took[len(took)/2], "p50-ms")
			b.ReportMetric(1e3*took[len(took)*99/100], "p99-ms")
			b.ReportMetric(1e3*timed.least.Seconds(), "min-map-ms")
			b.ReportMetric(float64(timed.plans)/float64(max(1, timed.calls)), "latents")
		})
	}
}

// timedProposer measures what a proposer takes.
type timedProposer struct {
	domain.Proposer
	calls, plans int
	least        time.Duration // of a call with plans for every robot
}

func (m *timedProposer) Propose(opt domain.ProposeOptions, questions []domain.Question, answers []domain.Answer) error {
	start := time.Now()
	err := m.Proposer.Propose(opt, questions, answers)
	if d := time.Since(start); len(questions) > 0 && (m.least == 0 || d < m.least) {
		m.least = d
	}
	m.calls++
	for _, q := range questions {
		m.plans += q.Count
	}
	return err
}
