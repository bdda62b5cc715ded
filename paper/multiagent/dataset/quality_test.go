package dataset

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"text/tabwriter"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/paper/multiagent/plan"
	"github.com/gpc-engine/gpc/paper/multiagent/view"
	"github.com/gpc-engine/gpc/paper/multiagent/world"
)

// Flags of BenchmarkMap, which measures what a map's plans are worth before any
// search: go test -run xxx -bench Map -benchtime 1x ./paper/multiagent/dataset -map FILE
var (
	mapFile  = flag.String("map", "", "model file that BenchmarkMap measures")
	mapViews = flag.Int("views", 300, "scenarios of held-out views that BenchmarkMap takes")
)

// held is a robot's view in a scene of the validation stream with the optimum that
// the solver found there under (1/3, 1/3, 1/3), where the map learns.
type held struct {
	x       *work // its state: scene, obstacles, everyone's plans
	i       int
	optimum float64
}

// hold solves held-out scenarios and visits every robot whose optimum costs more
// than that of one that is at rest at its goal. The work is the visitor's until
// it returns.
func hold(r *Solver, scenarios int, visit func(h *held)) error {
	rng := rand.New(rand.NewPCG(1, 2))
	for range scenarios {
		at := make([]float64, 5)
		for k, a := range r.Parameters() {
			at[k] = a.Lo + rng.Float64()*(a.Hi-a.Lo)
		}
		x, err := r.take()
		if err != nil {
			return err
		}
		if err := r.drive(x, at); err != nil {
			return err
		}
		x.search.Rand = rand.New(rand.NewPCG(1, 3))
		h := x.joint.Scene
		for i := range h.Robots {
			r.begin(x, i, world.Thirds)
			cost, safe := worth(x.search, &x.joint.Robots[i].Plan)
			away := math.Hypot(h.State[i][0]-h.Goal[i][0], h.State[i][1]-h.Goal[i][1])
			if safe == world.LookAhead && cost > scoreScale && away >= view.LearnedDistance {
				visit(&held{x, i, cost})
			}
		}
		r.pool.Put(x)
	}
	return nil
}

// decoder is a map's E_x and D_u.
type decoder struct {
	m                  *model.Model
	encoderX, decoderU *ref.MLP
}

func (d *decoder) encode(s, c []float64, pref domain.Preference) []float64 {
	x := make([]float32, len(s)+len(c)+4)
	slot := make([]float64, 4)
	pref.Slot(slot, d.m.Calibration.PreferenceFloor)
	for k, v := range slices.Concat(s, c, slot) {
		x[k] = float32(v)
	}
	d.m.NormX.Apply(x, x)
	wide := make([]float64, len(x))
	for k, v := range x {
		wide[k] = float64(v)
	}
	return d.encoderX.Forward(wide)
}

func (d *decoder) plan(z, base []float64) (p plan.Plan) {
	for k, v := range d.decoderU.Forward(z) {
		p[k/2][k%2] = float32(base[k]) + float32(v)*d.m.NormU.Scale[k] + d.m.NormU.Mean[k]
	}
	return p
}

// quality is what a set of plans is worth over held-out views.
type quality struct {
	views, feasible int
	ratios          []float64 // cost over the optimum's, of the best feasible plan
}

func (q *quality) add(h *held) {
	q.views++
	if _, cost, safe := h.x.search.Best(); safe == world.LookAhead {
		q.feasible++
		q.ratios = append(q.ratios, cost/h.optimum)
	}
}

func (q *quality) row() string {
	slices.Sort(q.ratios)
	at := func(share float64) float64 {
		if len(q.ratios) == 0 {
			return math.NaN()
		}
		return q.ratios[int(share*float64(len(q.ratios)-1))]
	}
	return fmt.Sprintf("%.1f %%\t%.4f\t%.4f", 100*float64(q.feasible)/float64(q.views), at(0.5), at(0.9))
}

// latents are 32 of a view: its own code and those of other preferences, and of the
// mirrored view, which decode to mirrored plans, then scaled noise around the first.
func (d *decoder) latents(v *view.View, s, c []float64, rng *rand.Rand) (z [][]float64, mirrored []bool) {
	prefs := []domain.Preference{{W: world.Thirds}, {Adaptive: true}, {W: []float64{0.5, 0.4, 0.1}}, {W: []float64{0.4, 0.1, 0.5}},
		{W: []float64{0.2, 0.7, 0.1}}, {W: []float64{0.7, 0.2, 0.1}}}
	s2, c2 := slices.Clone(s), slices.Clone(c)
	view.Flip(s2, c2)
	for _, p := range prefs {
		z = append(z, d.encode(s, c, p), d.encode(s2, c2, p))
		mirrored = append(mirrored, false, true)
	}
	spread := d.m.Calibration.LatentSpread / math.Sqrt(float64(len(z[0])))
	for n := 0; len(z) < 32; n++ {
		scale := []float64{0.05, 0.15, 0.4, 0.8}[n%4] * spread
		noisy := slices.Clone(z[n%2])
		for k := range noisy {
			noisy[k] += scale * rng.NormFloat64()
		}
		z, mirrored = append(z, noisy), append(mirrored, n%2 == 1)
	}
	return z, mirrored
}

// BenchmarkMap prints, over held-out views, how often sets of candidates hold a
// plan that keeps every margin for all L steps, and what the best costs relative to
// the white-box optimum: median and 90th percentile.
func BenchmarkMap(b *testing.B) {
	if *mapFile == "" {
		b.Skip("-map names no model file")
	}
	m, err := model.ReadFile(*mapFile)
	if err != nil {
		b.Fatal(err)
	}
	moving := m.Case == "multiagent-moving"
	y, err := world.NewSystem(m.Case, world.Default(moving), moving)
	if err != nil {
		b.Fatal(err)
	}
	v := view.New(y)
	d := &decoder{m, ref.Widen(m.EncoderX), ref.Widen(m.DecoderU)}
	r := NewSolver(v)
	r.stream = world.Validation
	rng := rand.New(rand.NewPCG(4, 5))
	seen, context := make([]float64, v.Spec().MeasuredSize()), make([]float64, v.Spec().ContextSize())
	base := make([]float64, v.Spec().PlanSize())
	names := []string{
		"base plan", "decoded plan", "16 latents", "32 latents", "16 primitives", "96 primitives",
		"16 latents, 16 × 10 descent", "16 primitives, 16 × 10 descent", "96 primitives, 16 × 40 descent",
	}
	for b.Loop() {
		rows := make([]quality, len(names))
		residual, without := 0.0, 0.0
		err := hold(r, *mapViews, func(h *held) {
			s, i := h.x.search, h.i
			committed := h.x.joint.Robots[i].Plan
			// The optimum itself is no candidate: the committed plan is to brake.
			h.x.joint.Robots[i].Plan = plan.Plan{}
			r.begin(h.x, i, world.Thirds)
			v.Observe(&h.x.look, i, seen, context)
			v.Base(seen, context, base)
			z, mirrored := d.latents(v, seen, context, rng)
			decode := func(n int) plan.Plan {
				if !mirrored[n] {
					return d.plan(z[n], base)
				}
				turned := slices.Clone(base)
				view.FlipPlan(turned)
				p := d.plan(z[n], turned)
				for k := range p {
					p[k][1] = -p[k][1]
				}
				return p
			}
			latents := func(count int) {
				s.Clear()
				for n := range count {
					p := decode(n)
					s.Put(&p, n)
				}
				s.ScoreWithin(count)
			}
			primitives := func(blocks int) {
				s.Clear()
				s.Seed(0, blocks)
			}
			descend := func(steps int) {
				s.Spread()
				s.Slide(&spreadRates, steps, math.Pow(spreadEnd, 1/float64(steps)))
			}
			var plain plan.Plan
			for k := range plain {
				plain[k] = [2]float32{float32(base[2*k]), float32(base[2*k+1])}
			}
			s.Clear()
			worth(s, &plain)
			rows[0].add(h)
			latents(1)
			rows[1].add(h)
			decoded, _, _ := s.Best()
			for k := range committed {
				a, w := float64(decoded[k][0]-committed[k][0]), float64(decoded[k][1]-committed[k][1])
				residual += (a*a + w*w) / world.LookAhead
				a, w = float64(plain[k][0]-committed[k][0]), float64(plain[k][1]-committed[k][1])
				without += (a*a + w*w) / world.LookAhead
			}
			for n, run := range []struct {
				collect        func(int)
				count, descent int
			}{{latents, 16, 0}, {latents, 32, 0}, {primitives, 1, 0}, {primitives, 6, 0}, {latents, 16, 10}, {primitives, 1, 10}, {primitives, 6, 40}} {
				run.collect(run.count)
				if run.descent > 0 {
					descend(run.descent)
				}
				rows[2+n].add(h)
			}
			h.x.joint.Robots[i].Plan = committed
		})
		if err != nil {
			b.Fatal(err)
		}
		w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
		fmt.Fprintf(w, "%s, n_z %d, %d held-out views of %d scenes; mean square of decoded − optimal %.4f, of base − optimal %.4f\n", y.Spec().Name, m.Latent(), rows[0].views, *mapViews, residual/float64(rows[0].views), without/float64(rows[0].views))
		fmt.Fprintln(w, "candidates\tfeasible\tcost/optimum, median\t90 %")
		for k, n := range names {
			fmt.Fprintf(w, "%s\t%s\n", n, rows[k].row())
		}
		w.Flush()
		b.ReportMetric(100*float64(rows[1].feasible)/float64(rows[1].views), "%decoded")
		b.ReportMetric(100*float64(rows[3].feasible)/float64(rows[3].views), "%of32")
	}
}
