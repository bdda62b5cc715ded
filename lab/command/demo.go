package command

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/bench"
	"github.com/gpc-engine/gpc/cli"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/internal/bundled"
	"github.com/gpc-engine/gpc/internal/version"
	"github.com/gpc-engine/gpc/lab/report"
	"github.com/gpc-engine/gpc/train"
)

// demoSeed draws the demonstration's scenes; no map was chosen by them.
const demoSeed = 2026

// demonstration is what `gpc-lab demo` prints.
type demonstration struct {
	Backend     string                          `json:"backend"`     // that computed, in words
	Refinements map[string]*batchnav.Refinement `json:"refinements"` // by case
	Evaluations []*closedloop.Result            `json:"evaluations"`
	Steps       []bench.Result                  `json:"steps"`
	Trained     *cli.Trained                    `json:"trained"`            // of the map trained from nothing
	TrainedEval *closedloop.Result              `json:"trained_evaluation"` // of it
	Files       []string                        `json:"files"`              // written
}

// Demo shows everything: decisions, searches, closed loops, a training, a report.
func Demo(a *cli.App) *cobra.Command {
	var out string
	var files map[string]string
	var candidates, episodes, scenarios, epochs int
	cmd := &cobra.Command{
		Use:     "demo [--out DIR]",
		Example: "  gpc-lab demo --out out/demo",
		Short:   "Show everything: decide, search, drive every case, train a small map, and draw a report",
		Args:    cli.ExactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			for name := range files {
				if _, err := a.Find(name); err != nil {
					return gpc.BadInput(fmt.Errorf("--model: %w", err))
				}
			}
			if err := cli.MakeFolder("--out", out); err != nil {
				return err
			}
			d := &demo{App: a, screen: a.Stdout, cmd: cmd, out: out, files: files, episodes: episodes, records: report.New(gpc.Host(), reported(a, nil)), result: demonstration{Refinements: map[string]*batchnav.Refinement{}}}
			if a.JSON() {
				d.screen = a.Stderr
				return d.run(candidates, scenarios, epochs)
			}
			details, err := os.Create(filepath.Join(out, "details.txt"))
			if err != nil {
				return err
			}
			defer func() { a.Stdout = d.screen }()
			a.Stdout = details
			return errors.Join(d.run(candidates, scenarios, epochs), details.Close())
		},
	}
	f := cmd.Flags()
	f.StringVar(&out, "out", "out/demo", "folder for traces, pictures and report.html")
	f.StringToStringVar(&files, "model", nil, "CASE=FILE: model of a case in place of the bundled one")
	f.IntVar(&candidates, "candidates", 4096, "candidates of one refinement")
	f.IntVar(&episodes, "episodes", 20, "largest number of closed-loop episodes of each case; long cases drive two, cases with many robots one")
	f.IntVar(&scenarios, "scenarios", 120, "scenarios of the map trained from nothing")
	f.IntVar(&epochs, "epochs", 30, "epochs of that map's manifold training")
	cli.Bound(cmd, "scenarios", 2, 100_000)
	cli.Bound(cmd, "episodes", 1, 100_000)
	cli.Bound(cmd, "epochs", 1, 1_000_000)
	return cmd
}

type demo struct {
	*cli.App
	cmd      *cobra.Command
	out      string
	files    map[string]string // models by case, in place of the bundled ones
	episodes int
	screen   io.Writer // where the summary goes; all else goes to a file
	records  *report.Records
	result   demonstration
}

// row is how the summary shows a case.
const row = "%-20s %-11s %-10s %-10s %s\n"

// show adds a line to the summary.
func (d *demo) show(format string, args ...any) {
	d.Pause()
	fmt.Fprintf(d.screen, format, args...)
}

// brief is a number of three digits, or of more without an exponent: a line of the summary has 80 columns.
func brief(v float64) string {
	if v >= 1000 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// summarise adds a case to the summary: the episodes of its map, and its search of one decision.
func (d *demo) summarise(name string, r *closedloop.Result, search *batchnav.Refinement) {
	extra, single, found := "–", "–", brief(search.Latency.Total/1e3)+" ms"
	if !math.IsNaN(float64(r.Regret.Mean)) {
		extra = fmt.Sprintf("%.3g %%", math.Round(1e3*float64(r.Regret.Mean))/1e3+0)
	}
	if running := r.Latency.Running; running != nil {
		single = brief(float64(running.P50)) + " µs"
	}
	least, proposed := math.Inf(1), math.NaN()
	for _, s := range search.Sources {
		if least = math.Min(least, s.BestCost); s.Source == domain.SourceLocalized {
			proposed = s.BestCost
		}
	}
	if saves := 100 * (proposed - least) / proposed; saves >= 0 {
		found += fmt.Sprintf(", saves %.2g %%", saves)
	}
	if search.Candidates <= 2 {
		found = "–" // the map's method decides without a search
	}
	d.show(row, name, fmt.Sprintf("%d of %d", r.Episodes-len(r.Unsafe), r.Episodes), extra, single, found)
}

// say prints a line of the running account, on stderr where stdout is JSON.
func (d *demo) say(format string, args ...any) {
	w := d.Stdout
	if d.JSON() {
		w = d.Stderr
	}
	fmt.Fprintf(w, format+"\n", args...)
}

func (d *demo) run(candidates, scenarios, epochs int) error {
	start := time.Now()
	e, err := gpc.OpenEngine(d.Engine())
	if err != nil {
		return err
	}
	defer e.Close()
	d.result.Backend = e.About().String()
	var with []mapped
	for _, c := range d.All() {
		file := d.files[c.Name()]
		if file == "" && (!c.Bundled() || c.Definition().Group == bundled.Systems) {
			continue
		}
		method := c.DefaultMethod()
		if len(c.Spec().Switches) > 0 {
			method = "" // the one that the map was made for: a map of chances is no plan
		}
		s, err := c.Setup(method, file)
		if err != nil {
			return err
		}
		with = append(with, mapped{c, s})
	}
	if len(with) == 0 {
		return cli.BadInputf("no case of this program has a bundled map")
	}
	d.show("%s\n\nCases with switched inputs and the paper's, in episodes that no map was made of,\nunder the true dynamics. Every trace is simulated again. Extra cost: above the\noptimum of that episode, of robots above the paper's optimiser. Search: the best of\nup to %d plans for one decision.\n\n",
		cli.BackendLine(e.About(), engine.ProbeCUDA().Driver != ""), candidates)
	d.show(row, "case", "limits kept", "extra cost", "a decision", "search")
	for _, m := range with {
		if err := d.refine(e, m, candidates); err != nil {
			return err
		}
	}
	for _, m := range with {
		methods, episodes := []string{m.setup.Method, "direct"}, min(d.episodes, max(2, mostDecisions/m.steps()))
		if m.Definition().Learned != nil {
			methods, episodes = methods[:1], 1 // whole scenes of many robots
		} else {
			for _, rival := range m.Methods() {
				if rival.Brief && rival.Needs == 0 && rival.Group == domain.GroupBaseline {
					methods = append(methods, rival.Name)
				}
			}
		}
		if err := d.closedLoop(m, methods, episodes); err != nil {
			return err
		}
	}
	if err := d.cost(e, with[0].Case); err != nil {
		return err
	}
	if err := d.trainSmallMap(e, with[0].Case, scenarios, epochs); err != nil {
		return err
	}
	if d.result.Files, err = d.records.Write(d.cmd.Context(), d.out); err != nil {
		return err
	}
	t, trained := d.result.Trained, d.result.TrainedEval
	d.show("\nA map of %s from nothing, at reduced size: %d epochs in %.1f s;\nlimits kept in %d of %d episodes, %.3g %% extra cost. In all %.0f s.\nDetails and tables: %s; pictures: %s\n",
		with[0].Name(), t.Epochs, t.WallSeconds, trained.Episodes-len(trained.Unsafe), trained.Episodes, float64(trained.Regret.Mean), time.Since(start).Seconds(),
		filepath.Join(d.out, "details.txt"), filepath.Join(d.out, "report.html"))
	if d.JSON() {
		return d.Print(d.result, nil)
	}
	return nil
}

// mapped is a case with its map.
type mapped struct {
	*gpc.Case
	setup gpc.Setup
}

// mostDecisions is about how many a method makes in the demonstration, in two episodes at least: a
// day of dispatches has as many as twelve runs of an integrator.
const mostDecisions = 600

// steps are the decisions of an episode.
func (m mapped) steps() int { return max(1, m.Spec().Steps) }

// refine makes one real decision of a case by refining many candidates.
func (d *demo) refine(e *gpc.Engine, m mapped, candidates int) error {
	spec := m.Spec()
	pref := domain.Preference{Adaptive: true}
	ep, err := m.Definition().Plant.Episode(demoSeed, 0, domain.EpisodeOptions{Preference: pref, Context: d.cmd.Context()})
	if err != nil {
		return err
	}
	obs := batchnav.Observation{S: make([]float64, spec.MeasuredSize()), C: make([]float64, spec.ContextSize()), Preference: pref}
	ep.Observe(obs.S, obs.C)
	r, err := m.Refiner(e, m.setup, candidates)
	if err != nil {
		return err
	}
	opt := batchnav.RefineOptions{Candidates: candidates, FlowSteps: 1, Seed: demoSeed, Threads: d.CPUThreads()}
	// The first call allocates; the second is what a control period sees.
	var best *batchnav.Refinement
	for range 2 {
		if best, err = r.Refine(d.cmd.Context(), obs, opt); err != nil {
			return err
		}
	}
	d.result.Refinements[spec.Name] = best
	if d.JSON() {
		return nil
	}
	d.say("\n── one decision of %s, control period %g ms", spec.Name, 1e3*spec.StepSeconds)
	return d.Print(nil, func(w io.Writer) { cli.RenderRefinement(w, spec, best) })
}

// evaluate runs a method of a case on the demonstration's scenes.
func (d *demo) evaluate(m mapped, method, trace string, episodes int) (*closedloop.Result, error) {
	m.setup.Method = method
	return m.Evaluate(d.cmd.Context(), m.setup, d.Engine(), closedloop.Options{
		Episodes: episodes, Seed: demoSeed, TracePath: trace, Preference: domain.Preference{Adaptive: true}, Progress: d.Progress(m.Name() + " " + method),
	})
}

// closedLoop runs episodes under the true dynamics with every decision traced,
// and has the trace re-simulated.
func (d *demo) closedLoop(m mapped, methods []string, episodes int) error {
	name := m.Name()
	for _, method := range methods {
		trace := filepath.Join(d.out, name+"-"+method+".jsonl")
		if err := os.Remove(trace); err != nil && !errors.Is(err, fs.ErrNotExist) { // of an earlier demonstration
			return err
		}
		result, err := d.evaluate(m, method, trace, episodes)
		if err != nil {
			return err
		}
		v, err := d.Verify(d.cmd.Context(), trace, nil, closedloop.VerifyOptions{})
		if err != nil {
			return err
		}
		if !v.OK {
			return fmt.Errorf("%s: the re-simulation differs in %d values, first: %s", trace, len(v.Mismatches), v.Mismatches[0])
		}
		d.result.Evaluations = append(d.result.Evaluations, result)
		report.Put(d.records, *result)
		if method == m.setup.Method {
			d.summarise(name, result, d.result.Refinements[m.Spec().Name])
			if err := d.records.AddTrace(d.cmd.Context(), trace); err != nil {
				return err
			}
		}
		if method != m.setup.Method && method != "direct" { // what is left is of the map
			if err := os.Remove(trace); err != nil {
				return err
			}
		}
	}
	if d.JSON() {
		return nil
	}
	what := fmt.Sprintf("%d unseen episodes of %s", episodes, name)
	if episodes == 1 {
		what = "an unseen episode of " + name
	}
	if len(methods) > 2 {
		what += ", with the map and without one"
	}
	d.say("\n── %s, under the true dynamics; every trace is re-simulated", what)
	return d.Print(nil, func(w io.Writer) {
		cli.RenderEvaluation(w, d.result.Evaluations[len(d.result.Evaluations)-len(methods):])
	})
}

// cost measures one latent step beside the machine's ceiling.
func (d *demo) cost(e *gpc.Engine, c *gpc.Case) (err error) {
	if d.result.Steps, err = e.Bench(d.cmd.Context(), nil, bench.Options{
		Ops: []string{"localize", "step"}, Case: c.Name(), Cases: []domain.Case{*c.Definition()}, Codes: []int{20_000},
		Batches: []int{1, 4096}, Budget: bench.Budget{Time: 500 * time.Millisecond, MinCalls: 3}, Seed: demoSeed,
	}); err != nil {
		return err
	}
	report.Put(d.records, bench.Record{Device: e.Device(), Commit: version.Build(), Command: d.CommandLine(), Results: d.result.Steps})
	if d.JSON() {
		return nil
	}
	d.say("\n── what a step costs here, and how far that is from the limit of this machine")
	return d.Print(nil, func(w io.Writer) { cli.Table(w, bench.Rows(d.result.Steps)) })
}

// trainSmallMap solves a small dataset, trains a map on it and evaluates it.
func (d *demo) trainSmallMap(e *gpc.Engine, c *gpc.Case, scenarios, epochs int) error {
	d.say("\n── %s again from nothing, at reduced size", c.Name())
	data := filepath.Join(d.out, "data")
	if err := os.RemoveAll(data); err != nil {
		return err
	}
	start := time.Now()
	set := c.DatasetDefaults()
	set.Scenarios, set.Weights.Count, set.Seed, set.OutDir, set.Threads, set.Command = scenarios, 0, demoSeed+1, data, d.Threads(), d.CommandLine()
	counters, err := c.Dataset(d.cmd.Context(), "", engine.Options{}, set, nil)
	if err != nil {
		return err
	}
	d.say("%d Pareto samples of %d scenarios in %.1f s", counters.Samples, counters.Retained, time.Since(start).Seconds())
	file := filepath.Join(d.out, c.Name()+".safetensors")
	opt := train.Options{
		Seed: demoSeed, Command: d.CommandLine(), ManifoldEpochs: epochs, RolloutEpochs: max(1, epochs/5), Batch: 256, Checkpoint: file + ".checkpoint",
	}
	stderr := d.Stderr
	d.Stderr = io.Discard // a line per epoch is too much here
	d.result.Trained, err = d.Train(d.cmd, c, e, []string{data}, opt, file, "")
	d.Stderr = stderr
	if err != nil {
		return err
	}
	if err := os.Remove(opt.Checkpoint); err != nil && !errors.Is(err, fs.ErrNotExist) { // nothing goes on from it
		return err
	}
	t := d.result.Trained
	d.say("trained %d epochs in %.1f s (%.0f samples/s): τ_geom %.2e, δ_dec p99 %.2e", t.Epochs, t.WallSeconds, t.SamplesPerSec, t.Val.TauGeom, t.Val.DeltaDecP99)
	m, err := c.Model(file)
	if err != nil {
		return err
	}
	if d.result.TrainedEval, err = d.evaluate(mapped{c, gpc.Setup{Model: m}}, c.DefaultMethod(), "", d.episodes); err != nil {
		return err
	}
	if d.JSON() {
		return nil
	}
	return d.Print(nil, func(w io.Writer) { cli.RenderEvaluation(w, []*closedloop.Result{d.result.TrainedEval}) })
}
