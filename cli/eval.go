package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/internal/version"
	"github.com/gpc-engine/gpc/model"
)

// methods lists what --method can name for a case. A case that neither solves
// Pareto samples nor sizes a latent has no map to navigate on, only methods of
// its own; neither has one whose map is not about the plant's own problem.
func (a *App) methods(c domain.Case) []string {
	var names []string
	if c.Learned == nil && (c.Solver != nil || c.Problem.Spec().Training.Latent > 0) {
		for _, m := range batchnav.Methods() {
			names = append(names, m.Name)
		}
	}
	for _, m := range c.Methods {
		names = append(names, m.Name)
	}
	return names
}

// factory returns the maker of a method for closedloop.Evaluate, and a function
// that closes the engines it opened.
func (a *App) factory(c domain.Case, name, modelFile string) (make func() (domain.Controller, error), closeAll func(), err error) {
	if !slices.Contains(a.methods(c), name) {
		return nil, nil, badInputf("case %s has no method %q; it has %s", c.Problem.Spec().Name, name, strings.Join(a.methods(c), ", "))
	}
	own, isOwn := c.Method(name)
	if isOwn && own.Needs&domain.NeedsMap == 0 {
		return func() (domain.Controller, error) { return own.New(domain.Means{}) }, func() {}, nil
	}
	m, err := a.loadModel(c, modelFile)
	if err != nil {
		return nil, nil, err
	}
	open, closeAll := a.engines()
	if isOwn {
		return func() (domain.Controller, error) {
			e, err := open()
			if err != nil {
				return nil, err
			}
			p, err := batchnav.NewProposer(e, m, c.MapProblem(), batchnav.Options{}, guidedCapacity)
			if err != nil {
				return nil, badInput(err)
			}
			return own.New(domain.Means{Proposer: p})
		}, closeAll, nil
	}
	options, err := batchnav.OptionsFor(name)
	if err != nil {
		return nil, nil, badInput(err)
	}
	if !options.NoProjection && !options.NoFallback {
		options.Solver = c.Rescue // an ablation executes what it decodes
	}
	return func() (domain.Controller, error) {
		e, err := open()
		if err != nil {
			return nil, err
		}
		n, err := batchnav.NewNavigator(e, m, c.Problem, options)
		if err != nil {
			return nil, badInput(err)
		}
		return n.Controller(), nil
	}, closeAll, nil
}

// guidedCapacity is the candidates that a proposer makes room for at first; it
// grows with what it is asked.
const guidedCapacity = 4096

// engines returns a function that opens one more engine, of one thread unless
// --threads says otherwise, and one that closes them all.
func (a *App) engines() (open func() (engine.Engine, error), closeAll func()) {
	var engines []engine.Engine
	return func() (engine.Engine, error) {
			e, _, err := engine.Open(engine.Options{Backend: a.backend, Threads: max(1, a.threads), TF32: a.tf32, Notice: a.notice})
			if err != nil {
				return nil, badInput(err)
			}
			engines = append(engines, e)
			return e, nil
		}, func() {
			for _, e := range engines {
				e.Close()
			}
		}
}

func (a *App) evalCommand() *cobra.Command {
	var opt closedloop.Options
	var weights []float64
	var modelFile, shard string
	cmd := &cobra.Command{
		Use:   "eval CASE --method NAME --episodes N --trace FILE",
		Short: "Evaluate a method in closed loop on unseen episodes",
		Long: `Runs episodes of the case's plant, scores every decision, and writes a trace that
gpc verify can check without trusting this command. The engine uses one thread
unless --threads says otherwise, so that latencies are of one core; --parallel
runs episodes side by side, which disturbs latencies and nothing else.`,
		Args: exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.find(args[0])
			if err != nil {
				return err
			}
			opt.Seed = a.seed
			if opt.Preference, err = preference(weights, c.Problem.Spec().ObjectiveSize()); err != nil {
				return err
			}
			if opt.Episodes < 1 {
				return badInputf("--episodes %d: want 1 or more", opt.Episodes)
			}
			if !(opt.Noise >= 0) || math.IsInf(opt.Noise, 0) {
				return badInputf("--noise %v: want a finite standard deviation ≥ 0", opt.Noise)
			}
			if opt.Resume && opt.TracePath == "" {
				return badInputf("--resume needs --trace FILE, the run to continue")
			}
			if shard != "" {
				if opt.ShardIndex, opt.ShardCount, err = splitShard(shard); err != nil {
					return err
				}
			}
			result, err := a.evaluate(cmd, c, opt, modelFile)
			if err != nil {
				return err
			}
			return a.print(result, func(w io.Writer) error { return renderEvaluation(w, []*closedloop.Result{result}) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&opt.Method, "method", "gpc", "method: see gpc cases --json")
	f.StringVar(&modelFile, "model", "", "model file (default: the bundled one)")
	f.IntVar(&opt.Episodes, "episodes", 100, "episodes")
	f.StringVar(&opt.Regime, "regime", "", "regime of test scenes, the case's own word")
	f.Float64Var(&opt.Noise, "noise", 0, "standard deviation of the measurement noise, in units of each state's scale")
	f.Float64SliceVar(&weights, "preference", nil, "fixed weights w1,w2,… on the simplex (default: the adaptive priority)")
	f.StringVar(&opt.TracePath, "trace", "", "write every decision to this file (JSON Lines)")
	f.BoolVar(&opt.Resume, "resume", false, "continue the trace behind its last complete episode")
	f.StringVar(&shard, "shard", "", "i/n: run every n-th episode, from i")
	f.IntVar(&opt.Threads, "parallel", 1, "episodes run side by side")
	cmd.AddCommand(a.joinCommand(), a.compareCommand())
	return cmd
}

func (a *App) joinCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "join CASE TRACE...",
		Short: "Statistics of an evaluation whose shards were run apart, from their traces",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 {
				return badInputf("eval join needs a case and the traces of its shards")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			c, err := a.find(args[0])
			if err != nil {
				return err
			}
			result, err := closedloop.Join(c.Problem.Spec(), args[1:])
			if err != nil {
				return badInput(err)
			}
			return a.print(result, func(w io.Writer) error { return renderEvaluation(w, []*closedloop.Result{result}) })
		},
	}
}

func (a *App) compareCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "compare TRACE TRACE...",
		Short: "Cost of several methods beside the first's, on the episodes in which all of them are safe",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 {
				return badInputf("eval compare needs at least two traces of the same episodes")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			compared, err := closedloop.Compare(args)
			if err != nil {
				return badInput(err)
			}
			result := struct {
				Comparisons []closedloop.Comparison `json:"comparisons"`
			}{compared}
			return a.print(result, func(w io.Writer) error {
				rows := [][]string{{"case", "method", "episodes", "safe", "compared", "mean cost", "difference %", "± s.e.m.", "mean margin", "p50 ms", "p99 ms"}}
				for _, r := range compared {
					rows = append(rows, []string{
						r.Case, r.Method, fmt.Sprint(r.Episodes), fmt.Sprint(r.Safe), fmt.Sprint(r.Compared), format("%.3f", r.CostMean),
						format("%.3f", r.DifferencePct), format("%.3f", r.DifferenceSEM), format("%.3f", r.MarginMean), format("%.2f", r.Latency.P50/1e3), format("%.2f", r.Latency.P99/1e3),
					})
				}
				return table(w, rows)
			})
		},
	}
}

// evaluate runs one method with progress.
func (a *App) evaluate(cmd *cobra.Command, c domain.Case, opt closedloop.Options, modelFile string) (*closedloop.Result, error) {
	factory, closeAll, err := a.factory(c, opt.Method, modelFile)
	if err != nil {
		return nil, err
	}
	defer closeAll()
	opt.Commit, opt.Device = version.Build(), device()
	opt.Progress = a.progress(c.Problem.Spec().Name + " " + opt.Method)
	return closedloop.Evaluate(cmd.Context(), &c, factory, opt)
}

func renderEvaluation(w io.Writer, results []*closedloop.Result) error {
	rows := [][]string{{"case", "method", "episodes", "safe", "95 % interval", "regret %", "± s.e.m.", "n", "min margin", "fallbacks", "p50 µs", "p99 µs", "mean ‖Δz‖"}}
	for _, r := range results {
		rows = append(rows, []string{
			r.Case, r.Method, fmt.Sprint(r.Episodes), format("%.4f", r.Safe),
			fmt.Sprintf("[%.4f, %.4f]", r.CI95.Safe[0], r.CI95.Safe[1]),
			format("%.4f", r.RegretPct), format("%.4f", r.RegretSEM), fmt.Sprint(r.RegretN), format("%.2e", r.MarginMin),
			fmt.Sprint(r.Fallback), format("%.1f", r.Latency.P50), format("%.1f", r.Latency.P99), format("%.2e", r.Displacement),
		})
	}
	if err := table(w, rows); err != nil {
		return err
	}
	return renderGoals(w, results)
}

// renderGoals adds what results with goals say beyond the table, and every unsafe
// episode with its cause.
func renderGoals(w io.Writer, results []*closedloop.Result) error {
	for _, r := range results {
		if r.Reached != nil {
			if _, err := fmt.Fprintf(w, "%s %s: collision-free %s, reached %s, at the end %s; gap to the reference %s ± %s %% over %d episodes; mean smallest margin %s ± %s m\n",
				r.Case, r.Method, format("%.4f", r.CollisionFree), format("%.4f", *r.Reached), format("%.4f", *r.AtEnd), format("%.3f", r.GapPct), format("%.3f", r.GapSEM), r.RegretN, format("%.3f", r.MarginMean), format("%.3f", r.MarginSEM)); err != nil {
				return err
			}
		}
		for _, u := range r.Unsafe {
			if _, err := fmt.Fprintf(w, "unsafe: seed %d, episode %d: %s\n", r.Seed, u.Episode, u.Cause); err != nil {
				return err
			}
		}
	}
	return nil
}

// format writes a number, or a dash where there is none.
func format(verb string, n closedloop.Number) string {
	if f := float64(n); !math.IsNaN(f) {
		return fmt.Sprintf(verb, f)
	}
	return "–"
}

func (a *App) verifyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "verify FILE",
		Short: "Re-simulate a trace from its header, scenes and actions alone",
		Args:  exactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			v, err := closedloop.Verify(args[0], func(name string) (*domain.Case, error) {
				c, err := a.find(name)
				return &c, err
			})
			if err != nil {
				return badInputf("%s: %w", args[0], err)
			}
			if err := a.print(v, func(w io.Writer) error {
				if v.OK {
					_, err := fmt.Fprintf(w, "%s: %d episodes of %s by %s, %d decisions, %d safe: every value confirmed\n", args[0], v.Episodes, v.Case, v.Method, v.Decisions, v.Safe)
					return err
				}
				fmt.Fprintf(w, "%s: %d values differ\n", args[0], len(v.Mismatches))
				for _, m := range v.Mismatches[:min(20, len(v.Mismatches))] {
					fmt.Fprintln(w, " ", m)
				}
				return nil
			}); err != nil {
				return err
			}
			if !v.OK {
				return errCheck
			}
			return nil
		},
	}
}

// bundled opens CASE.safetensors of the program's own models.
func (a *App) bundled(c domain.Case) (*model.Model, error) {
	name := c.Problem.Spec().Name
	if a.Models == nil {
		return nil, badInputf("this program has no bundled models; train one and give it with --model FILE")
	}
	f, err := a.Models.Open(name + ".safetensors")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, badInputf("case %s has no bundled model; train one and give it with --model FILE", name)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, err := model.Read(f)
	if err != nil {
		return nil, badInput(err)
	}
	return m, badInput(batchnav.Fits(m, c.MapProblem().Spec()))
}
