package plan

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/cpu_fallback"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/domains/multiagent/rollout"
	"github.com/gpc-engine/gpc/domains/multiagent/view"
	"github.com/gpc-engine/gpc/domains/multiagent/world"
	"github.com/gpc-engine/gpc/model"
)

// moved is what one way of moving latents did to the plans that they decode to.
type moved struct {
	name     string
	steps    int
	proposer *batchnav.Proposer
	all      []float64 // of each scene: mean relative change of a plan's cost
	best     []float64 // the same of the cheapest plan that is safe, where there is one before and after
	lower    int       // plans that cost less than before
	safe     int       // plans that are safe for all steps
	taken    time.Duration
}

// BenchmarkPlanEnergy prints by how much latent steps lower what plans cost, in the score
// that the planner chooses by: of 64 proposals to each robot that is on its way, with steps
// along the energy of first actions and of whole plans, against the same proposals that do not
// flow. At every twentieth of 90 decisions of the first -scenes scenes of the test stream of seeds
// 991, 992 and 993, which the planner drives with 384 candidates; ± is 1.96 standard
// errors over the scenes.
func BenchmarkPlanEnergy(b *testing.B) {
	if *mapFile == "" {
		b.Skip("no -map")
	}
	m, err := model.ReadFile(*mapFile)
	if err != nil {
		b.Fatal(err)
	}
	engine, err := cpufallback.New(cpufallback.Options{Threads: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer engine.Close()
	moving := m.Case == "multiagent-moving"
	y, err := world.NewSystem(m.Case, world.Default(moving), moving)
	if err != nil {
		b.Fatal(err)
	}
	v := view.New(y)
	const count = 64
	propose := func(nav domain.Navigation) *batchnav.Proposer {
		p, err := batchnav.NewProposer(engine, m, v, batchnav.Options{Navigation: &nav}, count)
		if err != nil {
			b.Fatal(err)
		}
		return p
	}
	ways := []*moved{{name: "none", proposer: propose(v.Spec().Navigation)}}
	for _, plans := range []bool{false, true} {
		nav := v.Spec().Navigation
		nav.PlanEnergy = plans
		add := func(steps int) {
			ways = append(ways, &moved{name: fmt.Sprintf("plans %v, ε %g, Δt %g, steps %d", plans, nav.Epsilon, nav.LatentStep, steps), steps: steps, proposer: propose(nav)})
		}
		add(1)
		nav.Epsilon = 1
		for _, nav.LatentStep = range []float64{0.1, 0.3, 0.6, 1} {
			for _, steps := range []int{1, 3, 10, 30} {
				add(steps)
			}
		}
	}
	p, err := New(y, Guided(moving, 384), domain.Means{Proposer: ways[0].proposer})
	if err != nil {
		b.Fatal(err)
	}
	plans := 0
	for scene := range 3 * *scenes {
		drawn, err := y.Draw(world.Test, 991+uint64(scene%3), uint64(scene/3))
		if err != nil {
			b.Fatal(err)
		}
		e, step := start(y, drawn), 0
		sums, counts := make([][2]float64, len(ways)), make([][2]int, len(ways))
		drive(b, e, p, 90, func([]float64, bool) {
			if step++; step%20 != 6 {
				return
			}
			for i := range p.scene.Robots {
				if s := &p.scene; math.Hypot(s.State[i][0]-s.Goal[i][0], s.State[i][1]-s.Goal[i][1]) < view.LearnedDistance {
					continue
				}
				plans += count
				var before []float64
				for k, w := range ways {
					costs, safe := w.propose(b, p, i, count)
					w.safe += safe
					if k == 0 {
						before = costs
					}
					for n, cost := range costs[:count] {
						sums[k][0] += cost/before[n] - 1
						counts[k][0]++
						if cost < before[n] {
							w.lower++
						}
					}
					if cost := costs[count] / before[count]; cost < math.Inf(1) && cost > 0 {
						sums[k][1] += cost - 1
						counts[k][1]++
					}
				}
			}
			p.guidance.forget()
			p.proposer = ways[0].proposer
		})
		for k, w := range ways {
			if counts[k][1] > 0 {
				w.all = append(w.all, 100*sums[k][0]/float64(counts[k][0]))
				w.best = append(w.best, 100*sums[k][1]/float64(counts[k][1]))
			}
		}
	}
	for _, w := range ways {
		fmt.Printf("%-40s all %s %%, cheapest safe %s %%, lower %.3f, safe %.3f, %d plans, %d scenes, time × %.1f\n", w.name, interval(w.all), interval(w.best),
			float64(w.lower)/float64(plans), float64(w.safe)/float64(plans), plans, len(w.all), float64(w.taken)/float64(ways[0].taken))
	}
}

// propose returns the scores of count proposals to robot i under (1/3, 1/3, 1/3), then the
// least of those that are safe, and how many are.
func (w *moved) propose(b *testing.B, p *Planner, i, count int) (costs []float64, safe int) {
	p.guidance.forget()
	p.proposer, p.seen[i] = w.proposer, nowhere
	p.inquire(i, domain.Preference{W: world.Thirds}, count)
	p.questions = p.questions[:1]
	p.questions[0].Count = count
	o := p.options.Propose
	o.FlowSteps = w.steps
	begin := time.Now()
	if err := w.proposer.Propose(o, p.questions, p.answers[:1]); err != nil {
		b.Fatal(err)
	}
	w.taken += time.Since(begin)
	s, look := p.search, p.joint.Outlook(i)
	s.Begin(&look, i, p.options.Score(&p.scene, i, world.Thirds), &p.joint.Robots[i].Plan)
	for n := range count {
		s.decoded(p.answers[0].Plans.Row(n), [world.ActionSize]float32{1, 1}, s.next(origin{domain.SourceNoise, noLatent}))
	}
	s.flush()
	costs = make([]float64, count+1)
	costs[count] = math.Inf(1)
	for n := range count {
		r, l := &s.Results[n/rollout.Lanes], n%rollout.Lanes
		if costs[n] = float64(r.Cost[l]); int(r.Safe[l]) == s.steps {
			safe++
			costs[count] = math.Min(costs[count], costs[n])
		}
	}
	return costs, safe
}

func interval(x []float64) string {
	mean, square, n := 0.0, 0.0, float64(len(x))
	for _, v := range x {
		mean += v / n
	}
	for _, v := range x {
		square += (v - mean) * (v - mean)
	}
	return fmt.Sprintf("%+.2f ± %.2f", mean, 1.96*math.Sqrt(square/(n-1)/n))
}
