package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/bench"
	"github.com/gpc-engine/gpc/closedloop"
	cpufallback "github.com/gpc-engine/gpc/cpu_fallback"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/internal/version"
	"github.com/gpc-engine/gpc/offline"
	"github.com/gpc-engine/gpc/report"
	"github.com/gpc-engine/gpc/train"
)

// demoSeed draws the demonstration's scenes; no map was chosen by them.
const demoSeed = 2026

// demonstration is what `gpc demo` prints.
type demonstration struct {
	Backend     string                          `json:"backend"`
	Refinements map[string]*batchnav.Refinement `json:"refinements"`
	Evaluations []*closedloop.Result            `json:"evaluations"`
	Steps       []bench.Result                  `json:"steps"`
	Trained     *trained                        `json:"trained"`
	TrainedEval *closedloop.Result              `json:"trained_evaluation"`
	Files       []string                        `json:"files"`
}

func (a *App) demoCommand() *cobra.Command {
	var out string
	var files map[string]string
	var candidates, episodes, scenarios, epochs int
	cmd := &cobra.Command{
		Use:   "demo --out DIR",
		Short: "Decide, refine 4096 candidates for every case with a bundled model, train one from nothing, draw it all",
		Args:  ExactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if out == "" {
				return BadInputf("--out is required: the folder for traces and pictures")
			}
			if candidates < 1 || candidates > batchnav.MaxCandidates || episodes < 1 || scenarios < 2 || epochs < 1 {
				return BadInputf("--candidates %d, --episodes %d, --scenarios %d, --epochs %d: want at least 1, 1, 2 and 1", candidates, episodes, scenarios, epochs)
			}
			for name := range files {
				if _, err := a.find(name); err != nil {
					return BadInputf("--model: %w", err)
				}
			}
			if err := os.MkdirAll(out, 0o755); err != nil {
				return err
			}
			d := &demo{App: a, cmd: cmd, out: out, files: files, episodes: episodes, records: &report.Records{Device: device()}, result: demonstration{Refinements: map[string]*batchnav.Refinement{}}}
			return d.run(candidates, scenarios, epochs)
		},
	}
	f := cmd.Flags()
	f.StringVar(&out, "out", "", "folder for traces and pictures")
	f.StringToStringVar(&files, "model", nil, "CASE=FILE: model of a case in place of the bundled one")
	f.IntVar(&candidates, "candidates", 4096, "candidates of one refinement")
	f.IntVar(&episodes, "episodes", 20, "closed-loop episodes of each case")
	f.IntVar(&scenarios, "scenarios", 120, "scenarios of the map trained from nothing")
	f.IntVar(&epochs, "epochs", 30, "its manifold epochs")
	return cmd
}

type demo struct {
	*App
	cmd      *cobra.Command
	out      string
	files    map[string]string // models by case, in place of the bundled ones
	episodes int
	records  *report.Records
	result   demonstration
}

// file is the model of a case that was given, "" for the bundled one.
func (d *demo) file(c domain.Case) string { return d.files[c.Problem.Spec().Name] }

// say prints a line of the running account, on stderr where stdout is JSON.
func (d *demo) say(format string, args ...any) {
	w := d.Stdout
	if d.json {
		w = d.Stderr
	}
	fmt.Fprintf(w, format+"\n", args...)
}

func (d *demo) run(candidates, scenarios, epochs int) error {
	start := time.Now()
	e, reason, err := engine.Open(engine.Options{Backend: d.backend, Threads: d.threads, TF32: d.tf32, Notice: d.notice})
	if err != nil {
		return BadInput(err)
	}
	defer e.Close()
	about := e.Describe()
	d.result.Backend = fmt.Sprintf("%s (%s, %d threads): %s", about.Name, about.ISA, about.Threads, reason)
	d.say("backend %s", d.result.Backend)
	var with []domain.Case
	for _, c := range d.Cases {
		file := d.file(c)
		_, err := d.loadModel(c, file)
		if err != nil && file != "" {
			return err
		}
		if err == nil {
			with = append(with, c)
		}
	}
	if len(with) == 0 {
		return BadInputf("no case of this program has a bundled model")
	}
	for _, c := range with {
		if c.Learned != nil {
			continue // its own method refines, in closedLoop
		}
		if err := d.refine(e, c, candidates); err != nil {
			return err
		}
	}
	for _, c := range with {
		methods, episodes := []string{"gpc", "direct"}, d.episodes
		if c.Learned != nil {
			methods, episodes = []string{"gpc"}, 1
		}
		if err := d.closedLoop(c, methods, episodes); err != nil {
			return err
		}
	}
	if err := d.cost(e, with); err != nil {
		return err
	}
	if err := d.fromNothing(e, with[0], scenarios, epochs); err != nil {
		return err
	}
	if d.result.Files, err = d.records.Write(d.out); err != nil {
		return err
	}
	d.say("\n%d pictures and tables in %s (open report.html), %.0f s in all", len(d.result.Files), d.out, time.Since(start).Seconds())
	if d.json {
		return d.Print(d.result, nil)
	}
	return nil
}

// refine makes one real decision of a case by refining many candidates.
func (d *demo) refine(e engine.Engine, c domain.Case, candidates int) error {
	spec := c.Problem.Spec()
	m, err := d.loadModel(c, d.file(c))
	if err != nil {
		return err
	}
	pref := domain.Preference{Adaptive: true}
	ep, err := c.Plant.Episode(demoSeed, 0, domain.EpisodeOptions{Preference: pref})
	if err != nil {
		return err
	}
	obs := batchnav.Observation{S: make([]float64, spec.MeasuredSize()), C: make([]float64, spec.ContextSize()), Preference: pref}
	ep.Observe(obs.S, obs.C)
	r, err := batchnav.NewRefiner(e, m, c.Problem, batchnav.Options{}, candidates)
	if err != nil {
		return err
	}
	opt := batchnav.RefineOptions{Candidates: candidates, FlowSteps: 1, Seed: demoSeed, Threads: cpuThreads(d.threads)}
	// The first call allocates; the second is what a control period sees.
	var best *batchnav.Refinement
	for range 2 {
		if best, err = r.Refine(d.cmd.Context(), obs, opt); err != nil {
			return err
		}
	}
	d.result.Refinements[spec.Name] = best
	if d.json {
		return nil
	}
	d.say("\n── one decision of %s, control period %g ms", spec.Name, 1e3*spec.StepSeconds)
	return renderRefinement(d.Stdout, spec, best)
}

// closedLoop runs episodes under the true dynamics with every decision traced,
// and has the trace re-simulated.
func (d *demo) closedLoop(c domain.Case, methods []string, episodes int) error {
	name := c.Problem.Spec().Name
	for _, method := range methods {
		trace := filepath.Join(d.out, name+"-"+method+".jsonl")
		result, err := d.evaluate(d.cmd, c, closedloop.Options{Method: method, Episodes: episodes, Seed: demoSeed, TracePath: trace, Preference: domain.Preference{Adaptive: true}}, d.file(c))
		if err != nil {
			return err
		}
		v, err := closedloop.Verify(trace, func(string) (*domain.Case, error) { return &c, nil })
		if err != nil {
			return err
		}
		if !v.OK {
			return fmt.Errorf("%s: the re-simulation differs in %d values, first: %s", trace, len(v.Mismatches), v.Mismatches[0])
		}
		d.result.Evaluations = append(d.result.Evaluations, result)
		d.records.Evaluations = append(d.records.Evaluations, *result)
		if method == "gpc" {
			if err := d.records.AddTrace(trace); err != nil {
				return err
			}
		}
	}
	if d.json {
		return nil
	}
	d.say("\n── %d unseen episodes of %s under the true dynamics, every trace re-simulated", episodes, name)
	return renderEvaluation(d.Stdout, d.result.Evaluations[len(d.result.Evaluations)-len(methods):])
}

// cost measures one latent step beside the machine's ceiling.
func (d *demo) cost(e engine.Engine, cases []domain.Case) error {
	b, ok := e.(*cpufallback.Backend)
	var ceiling bench.Ceiling
	if ok {
		ceiling = b.PeakFMA
	}
	for _, c := range cases[:1] {
		results, err := bench.Run(d.cmd.Context(), e, ceiling, bench.Options{
			Ops: []string{"localize", "step"}, Case: c.Problem.Spec().Name, Cases: d.Cases, Codes: []int{20_000},
			Batches: []int{1, 4096}, Budget: bench.Budget{Time: 500 * time.Millisecond, MinCalls: 3}, Seed: demoSeed,
		})
		if err != nil {
			return err
		}
		d.result.Steps = append(d.result.Steps, results...)
	}
	d.records.Benchmarks = append(d.records.Benchmarks, report.Benchmark{Device: device(), Commit: version.Build(), Command: commandLine(), Results: d.result.Steps})
	if d.json {
		return nil
	}
	d.say("\n── what a step costs here, and how far that is from the limit of this machine")
	return Table(d.Stdout, bench.Rows(d.result.Steps))
}

// fromNothing solves a small dataset, trains a map on it and evaluates it.
func (d *demo) fromNothing(e engine.Engine, c domain.Case, scenarios, epochs int) error {
	name := c.Problem.Spec().Name
	d.say("\n── %s again from nothing, at reduced size", name)
	data := filepath.Join(d.out, "data")
	if err := os.RemoveAll(data); err != nil {
		return err
	}
	start := time.Now()
	counters, err := offline.Generate(d.cmd.Context(), c, offline.Options{
		Scenarios: scenarios, Adaptive: true, Seed: demoSeed + 1, OutDir: data, Threads: d.threads, Program: version.Build(), Command: commandLine(),
	}, func(p offline.Progress) {})
	if err != nil {
		return err
	}
	d.say("%d Pareto samples of %d scenarios in %.1f s", counters.Samples, counters.Retained, time.Since(start).Seconds())
	set, err := offline.Open(data)
	if err != nil {
		return err
	}
	columns, err := train.FromDataset(c.Problem.Spec(), set)
	if err != nil {
		return err
	}
	file := filepath.Join(d.out, name+".safetensors")
	opt := train.Options{Backend: e, Problem: c.Problem, Data: columns, Seed: demoSeed, Command: commandLine(), Version: version.Version + " " + version.Build(), ManifoldEpochs: epochs, RolloutEpochs: max(1, epochs/5), Batch: 256, Checkpoint: file + ".checkpoint"}
	opt.Manifold.Locality = -1 // the default
	stderr := d.Stderr
	d.Stderr = io.Discard // a line per epoch is too much here
	d.result.Trained, err = d.train(d.cmd, opt, file, "")
	d.Stderr = stderr
	if err != nil {
		return err
	}
	t := d.result.Trained
	d.say("trained %d epochs in %.1f s (%.0f samples/s): τ_geom %.2e, δ_dec p99 %.2e", t.Epochs, t.WallSeconds, t.SamplesPerSec, t.Val.TauGeom, t.Val.DeltaDecP99)
	d.result.TrainedEval, err = d.evaluate(d.cmd, c, closedloop.Options{Method: "gpc", Episodes: d.episodes, Seed: demoSeed, Preference: domain.Preference{Adaptive: true}}, file)
	if err != nil {
		return err
	}
	if d.json {
		return nil
	}
	return renderEvaluation(d.Stdout, []*closedloop.Result{d.result.TrainedEval})
}
