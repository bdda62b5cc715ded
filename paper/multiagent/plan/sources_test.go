package plan

import (
	"flag"
	"fmt"
	"math"
	"testing"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/cpu_fallback"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/paper/multiagent/rollout"
	"github.com/gpc-engine/gpc/paper/multiagent/view"
	"github.com/gpc-engine/gpc/paper/multiagent/world"
)

var (
	mapFile = flag.String("map", "", "map of BenchmarkSources")
	scenes  = flag.Int("scenes", 16, "scenes of BenchmarkSources")
)

// BenchmarkSources prints what a search could still gain on the plans that the planner of
// the benchmark has just committed to: by 1024 more candidates of each source, and of all
// of them in turn. Scores are sums over the robots of a scene, at every twentieth of 90
// decisions of scenes of the test stream, seed 991.
func BenchmarkSources(b *testing.B) {
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
	const more = 1024
	y, err := world.NewSystem(m.Case, world.Default(true), true)
	if err != nil {
		b.Fatal(err)
	}
	proposer, err := batchnav.NewProposer(engine, m, view.New(y), batchnav.Options{}, Budget)
	if err != nil {
		b.Fatal(err)
	}
	p, err := New(y, Guided(true, Budget), domain.Means{Proposer: proposer})
	if err != nil {
		b.Fatal(err)
	}
	s := p.search
	offer := func(i, count int) error {
		p.guidance.forget()
		p.addQuestions(i, adaptive, count)
		return proposer.Propose(p.options.Propose, p.questions, p.answers[:len(p.questions)])
	}
	sources := []struct {
		name string
		add  func(i int) error
	}{
		{"descent", func(int) error { s.Descend(more / rollout.Lanes); return nil }},
		{"perturbations", func(int) error { s.Perturb(more / rollout.Lanes); return nil }},
		{"primitives", func(int) error { s.Seed(1, more/rollout.Lanes); return nil }},
		{"latents", func(i int) error {
			if err := offer(i, more); err != nil {
				return err
			}
			p.latents(i, 0, more)
			s.flush()
			return nil
		}},
	}
	gains, total, count := make([]float64, len(sources)+1), 0.0, 0
	for index := range *scenes {
		drawn, err := y.Draw(world.Test, 991, uint64(index))
		if err != nil {
			b.Fatal(err)
		}
		e, step := start(y, drawn), 0
		drive(b, e, p, 90, func(u []float64, _ domain.Decision) {
			if step++; step%20 != 6 {
				return
			}
			count++
			for i := range p.scene.Robots {
				score := p.options.Score(&p.scene, i, world.Thirds)
				score.Buffer = p.buffer()
				var look view.Outlook
				p.joint.Outlook(i, &look)
				for k := range gains {
					s.Begin(&look, i, score, &p.joint.Robots[i].Plan)
					s.commit()
					s.flush()
					_, before, safe := s.Best()
					if safe < s.steps {
						break
					}
					for n, source := range sources {
						if k == n || k == len(sources) {
							if err := source.add(i); err != nil {
								b.Fatal(err)
							}
						}
					}
					_, after, _ := s.Best()
					gains[k] += before - after
					if k == 0 {
						total += before
					}
				}
			}
			p.guidance.forget()
		})
	}
	scale := 100 / math.Max(total, 1)
	for k, source := range sources {
		fmt.Printf("%-20s %.4f %%\n", source.name, gains[k]*scale)
	}
	fmt.Printf("%-20s %.4f %% of %.1f, %d decisions\n", "all in turn", gains[len(sources)]*scale, total/float64(count), count)
}
