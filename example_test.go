package gpc_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/examples/tanks"
	"github.com/gpc-engine/gpc/paper"
	"github.com/gpc-engine/gpc/train"
)

// open is what every example begins with: a case of the paper and an engine.
func open(name string) (*gpc.Case, *gpc.Engine) {
	cases := paper.Cases()
	c, err := cases.Find(name)
	if err != nil {
		log.Fatal(err)
	}
	e, err := gpc.OpenEngine(engine.Options{Backend: "cpu"})
	if err != nil {
		log.Fatal(err)
	}
	return c, e
}

// observe is the first observation of test episode number index.
func observe(c *gpc.Case, index int) batchnav.Observation {
	spec := c.Spec()
	o := batchnav.Observation{
		S: make([]float64, spec.MeasuredSize()), C: make([]float64, spec.ContextSize()), Preference: domain.Preference{Adaptive: true},
	}
	ep, err := c.Definition().Plant.Episode(1, index, domain.EpisodeOptions{Preference: o.Preference})
	if err != nil {
		log.Fatal(err)
	}
	ep.Observe(o.S, o.C)
	return o
}

// One closed loop: an observation in, a safe action with its record out.
func ExampleCase_Loop() {
	c, e := open("integrator-convex")
	defer e.Close()
	loop, err := c.Loop(e, gpc.Setup{})
	if err != nil {
		log.Fatal(err)
	}
	o := observe(c, 0)
	d, err := loop.Decide(o.S, o.C, o.Preference)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(d.U), "accelerations, every limit kept:", c.Spec().Keeps(d.Margin), "· guards that acted:", d.Fallback)
	// Output: 2 accelerations, every limit kept: true · guards that acted: none
}

// A search of 64 roll-outs is made when the action has been sent, so that the next observation is
// answered in microseconds.
func ExampleCase_Loop_ahead() {
	c, e := open("integrator-convex")
	defer e.Close()
	loop, err := c.Loop(e, gpc.Setup{Method: "refine-64-ahead"})
	if err != nil {
		log.Fatal(err)
	}
	o := observe(c, 0)
	decisions := 0
	for range 5 {
		d, err := loop.Decide(o.S, o.C, o.Preference)
		if err != nil {
			log.Fatal(err)
		}
		if c.Spec().Keeps(d.Margin) {
			decisions++
		}
		c.Definition().Problem.Step(slices.Clone(o.S), slices.Clone(o.C), d.U, o.S, o.C) // the plant
		if err := loop.Prepare(); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(decisions, "decisions within every limit")
	// Output: 5 decisions within every limit
}

// Thousands of loops decide in one call of the engine.
func ExampleCase_Loops() {
	c, e := open("opf30")
	defer e.Close()
	const loops = 1000
	batch, err := c.Loops(e, gpc.Setup{Method: "direct"}, loops)
	if err != nil {
		log.Fatal(err)
	}
	observations, decisions := make([]batchnav.Observation, loops), make([]batchnav.Decision, loops)
	first := observe(c, 0)
	for i := range observations {
		observations[i] = first
	}
	if err := batch.Decide(observations, decisions); err != nil {
		log.Fatal(err)
	}
	feasible := 0
	for i := range decisions {
		if c.Spec().Keeps(decisions[i].Margin) {
			feasible++
		}
	}
	fmt.Println(feasible, "of", loops, "dispatches feasible")
	// Output: 1000 of 1000 dispatches feasible
}

// A user's preference steers the same map from one decision to the next.
func ExampleCase_Loop_preference() {
	c, e := open("opf30")
	defer e.Close()
	loop, err := c.Loop(e, gpc.Setup{Method: "direct"})
	if err != nil {
		log.Fatal(err)
	}
	o := observe(c, 0)
	var cost []float64
	for _, economic := range []float64{0.2, 0.9} {
		w := []float64{(1 - economic) / 2, (1 - economic) / 2, economic}
		d, err := loop.Decide(o.S, o.C, domain.Preference{W: w})
		if err != nil {
			log.Fatal(err)
		}
		J := make([]float64, 3)
		c.Definition().Problem.Objectives(o.S, d.U, o.C, J)
		cost = append(cost, J[2])
	}
	fmt.Println("a larger weight on cost costs less:", cost[1] < cost[0])
	// Output: a larger weight on cost costs less: true
}

// Many candidates of one observation, rolled out under the true dynamics.
func ExampleCase_Refiner() {
	c, e := open("integrator-nonconvex")
	defer e.Close()
	const candidates = 512
	r, err := c.Refiner(e, gpc.Setup{}, candidates)
	if err != nil {
		log.Fatal(err)
	}
	best, err := r.Refine(context.Background(), observe(c, 0), batchnav.RefineOptions{Candidates: candidates, FlowSteps: 1, Seed: 1})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("feasible:", best.Feasible, "· no worse than one latent step:", best.Cost <= best.LocalizedCost)
	// Output: feasible: true · no worse than one latent step: true
}

// A method in closed loop on unseen episodes, with a trace that is then re-simulated.
func ExampleCase_Evaluate() {
	cases := paper.Cases()
	c, err := cases.Find("opf30")
	if err != nil {
		log.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "gpc")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	trace := filepath.Join(dir, "trace.jsonl")
	r, err := c.Evaluate(context.Background(), gpc.Setup{Method: "direct"}, engine.Options{Backend: "cpu"}, closedloop.Options{
		Episodes: 1, Seed: 3, TracePath: trace, Preference: domain.Preference{Adaptive: true},
	})
	if err != nil {
		log.Fatal(err)
	}
	v, err := cases.Verify(context.Background(), trace, &gpc.Again{Engine: engine.Options{Backend: "cpu"}}, closedloop.VerifyOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("safe:", r.Safe, "· decisions:", r.Decisions, "· confirmed:", v.OK)
	// Output: safe: 1 · decisions: 300 · confirmed: true
}

// A case of one's own, from equations to a map: dataset and training.
func ExampleCase_Train() {
	def, err := tanks.CaseByHand()
	if err != nil {
		log.Fatal(err)
	}
	c, err := gpc.NewCase(def)
	if err != nil {
		log.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "gpc")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	data := c.DatasetDefaults()
	data.OutDir, data.Scenarios, data.Seed = dir, 8, 1
	counters, err := c.Dataset(context.Background(), "", engine.Options{}, data, nil)
	if err != nil {
		log.Fatal(err)
	}
	e, err := gpc.OpenEngine(engine.Options{Backend: "cpu"})
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close()
	r, err := c.Train(context.Background(), e, []string{dir}, train.Options{Seed: 1, ManifoldEpochs: 2, RolloutEpochs: -1}, nil)
	if err != nil {
		log.Fatal(err)
	}
	loop, err := c.Loop(e, gpc.Setup{Model: r.Model})
	fmt.Println("samples:", counters.Samples > 0, "· epochs:", len(r.History), "· a loop on the new map:", loop != nil, err)
	// Output: samples: true · epochs: 2 · a loop on the new map: true <nil>
}

// One map under a sweep of preferences, beside the exact front.
func ExampleCase_Steer() {
	cases := paper.Cases()
	c, err := cases.Find("opf30")
	if err != nil {
		log.Fatal(err)
	}
	out, err := c.Steer(context.Background(), gpc.Setup{Method: "direct"}, engine.Options{Backend: "cpu"}, 1, closedloop.SteerOptions{Episodes: 1, Seed: 1})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(out.Front), "points, of the exact front's hypervolume more than half:", out.HypervolumeRatio > 0.5)
	// Output: 3 points, of the exact front's hypervolume more than half: true
}

// A map as C99, for a program or a processor without Go.
func ExampleCase_Export() {
	cases := paper.Cases()
	c, err := cases.Find("integrator-convex")
	if err != nil {
		log.Fatal(err)
	}
	m, err := c.Model("")
	if err != nil {
		log.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "gpc-example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	out, err := c.Export(context.Background(), m, gpc.ExportOptions{Dir: filepath.Join(dir, "c"), MapOnly: true, Half: true, Records: 8, Seed: 1})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(out.ConstantBytes, "bytes of constants,", out.ScratchBytes, "of static memory; Base is", out.Base)
	// Output: 289992 bytes of constants, 2560 of static memory; Base is copied
}
