package cli

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/report"
)

func (a *App) evalCommand() *cobra.Command {
	var opt closedloop.Options
	var method, modelFile, shard, mcapFile string
	var scenes, guard func(c *gpc.Case) (*gpc.Case, error)
	var limit func() (closedloop.LoadLimit, error)
	cmd := &cobra.Command{
		Use:   "eval CASE [--method NAME] [--episodes N] [--trace FILE]",
		Short: "Evaluate a method in closed loop on unseen episodes",
		Long: `Runs episodes of the case's plant, scores every decision, and writes a trace that
gpc verify can check without trusting this command. The engine uses one thread
unless --threads says otherwise, so that latencies are of one core; --parallel
runs episodes side by side, which disturbs latencies and nothing else.`,
		Args: ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutputs([]durable.File{{Name: "--trace", Path: opt.TracePath}}, []durable.File{{Name: "--model", Path: modelFile}}); err != nil {
				return err
			}
			c, setup, err := a.setup(args[0], modelFile, method)
			if err != nil {
				return err
			}
			if c, err = scenes(c); err != nil {
				return err
			}
			opt.Resume = opt.Resume || a.requeue.Load()
			if opt.Resume && opt.TracePath == "" {
				return BadInputf("--resume and --requeue need --trace FILE, the run to continue")
			}
			part, err := a.shard(shard)
			if err != nil {
				return err
			}
			opt.ShardIndex, opt.ShardCount = part.Index, part.Count
			if opt.Limit, err = limit(); err != nil {
				return err
			}
			opt.Progress = a.progress(c.Name() + " " + setup.Method)
			if c, err = guard(c); err != nil {
				return err
			}
			result, err := a.recordedToo(cmd.Context(), mcapFile, modelFile, &opt, func() (*closedloop.Result, error) {
				return c.Evaluate(cmd.Context(), setup, a.engine(), opt)
			})
			if err != nil {
				return err
			}
			return a.Print(result, func(w io.Writer) error { return renderEvaluation(w, []*closedloop.Result{result}) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&method, "method", "", "method: see gpc methods CASE (default: what the map was compiled for, or gpc)")
	f.StringVar(&modelFile, "model", "", "model file, or the weights of a method that brings its own (default: the bundled map)")
	scenes = a.sceneFlags(cmd, &opt)
	guard, limit = guardFlags(cmd), limitFlags(cmd)
	f.StringVar(&opt.TracePath, "trace", "", "write every decision to this file (JSON Lines), which must not exist, or is continued with --resume")
	f.StringVar(&mcapFile, "mcap", "", "write the episodes as MCAP too, for Foxglove and Rerun (gpc mcap does it of a trace)")
	f.BoolVar(&opt.Resume, "resume", false, "continue the trace behind its last complete episode")
	f.StringVar(&shard, "shard", "", "i/n: run every n-th episode, from i"+shardUsage)
	f.IntVar(&opt.Threads, "parallel", 1, "episodes run side by side")
	requeueFlag(cmd, "; with --resume")
	cmd.AddCommand(a.pairCommand(), a.joinCommand(), a.compareCommand())
	return cmd
}

// sceneFlags adds the flags that say which episodes are run. The function that it returns
// reads them into opt and gives the case on the plant that they ask for.
func (a *App) sceneFlags(cmd *cobra.Command, opt *closedloop.Options) func(c *gpc.Case) (*gpc.Case, error) {
	var weights []float64
	var shifts []string
	var scene string
	f := cmd.Flags()
	f.StringVar(&scene, "scene", "", sceneUsage)
	f.IntVar(&opt.Episodes, "episodes", 100, "episodes")
	f.StringVar(&opt.Regime, "regime", "", "regime of test scenes, the case's own word")
	f.Float64Var(&opt.Noise, "noise", 0, "standard deviation of the measurement noise, in units of each state's scale")
	f.Float64Var(&opt.Bias, "bias", 0, "size of a constant error of every measured value, its sign drawn for each value and episode")
	f.StringSliceVar(&shifts, "shift", nil, "NAME=FACTOR,…: parameters of the plant (gpc cases --json) times factors; controllers and oracle know that plant, the map does not")
	f.Float64SliceVar(&weights, "preference", nil, "fixed weights w1,w2,… on the simplex (default: the adaptive priority)")
	return func(c *gpc.Case) (*gpc.Case, error) {
		factors, err := factorsOf(shifts)
		if err != nil {
			return nil, err
		}
		if c, err = c.Shifted(factors); err != nil {
			return nil, err
		}
		if scene != "" {
			if err := durable.Apart([]durable.File{{Name: "--trace", Path: opt.TracePath}}, []durable.File{{Name: "--scene", Path: scene}}); err != nil {
				return nil, gpc.BadInput(err)
			}
			if opt.Scenes, err = given(cmd, scene); err != nil {
				return nil, err
			}
			opt.Episodes = len(opt.Scenes.Files)
		}
		opt.Seed = a.seed
		if opt.Preference, err = preference(weights, c.Spec().ObjectiveSize()); err != nil {
			return nil, err
		}
		if !(opt.Noise >= 0) || math.IsInf(opt.Noise, 0) {
			return nil, BadInputf("--noise %v: want a finite standard deviation ≥ 0", opt.Noise)
		}
		if !(opt.Bias >= 0) || math.IsInf(opt.Bias, 0) {
			return nil, BadInputf("--bias %v: want a finite number ≥ 0", opt.Bias)
		}
		return c, nil
	}
}

func (a *App) pairCommand() *cobra.Command {
	var opt closedloop.Options
	var names []string
	var modelFile string
	var scenes, guard func(c *gpc.Case) (*gpc.Case, error)
	var limit func() (closedloop.LoadLimit, error)
	cmd := &cobra.Command{
		Use:   "pair CASE --methods NAME[:EPISODES][=FILE],…",
		Short: "Several methods on the same episodes, each beside the first, with 95 % intervals",
		Args:  ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Find(args[0])
			if err != nil {
				return err
			}
			if c, err = scenes(c); err != nil {
				return err
			}
			var methods []gpc.Contender
			for _, text := range names {
				m := gpc.Contender{}
				text, m.File, _ = strings.Cut(text, "=")
				var episodes string
				var fewer bool
				if m.Method, episodes, fewer = strings.Cut(text, ":"); fewer {
					if m.Episodes, err = strconv.Atoi(episodes); err != nil || m.Episodes < 1 {
						return BadInputf("--methods %s: want NAME or NAME:EPISODES, with =FILE behind it or not", text)
					}
				}
				methods = append(methods, m)
			}
			if c, err = guard(c); err != nil {
				return err
			}
			if len(methods) < 1 {
				return BadInputf("--methods is required: what to compare, the first with the others")
			}
			if opt.Limit, err = limit(); err != nil {
				return err
			}
			opt.Progress = a.progress(c.Name())
			result, err := c.Pair(cmd.Context(), methods, modelFile, a.engine(), opt)
			if err != nil {
				return err
			}
			return a.Print(result, func(w io.Writer) error {
				rows := [][]string{{"method", "episodes", "safe", "95 % interval", "failed", "regret %", "± 95 %", "median", "p90", "max", "less the first's", "± 95 %", "n", "p50 µs", "p99 µs"}}
				for _, r := range result.Pairs {
					rows = append(rows, []string{
						r.Method, fmt.Sprint(r.Episodes), fmt.Sprint(r.Safe), fmt.Sprintf("[%.4f, %.4f]", r.SafeCI95[0], r.SafeCI95[1]),
						fmt.Sprint(r.Failed), format("%.5f", r.RegretPct), format("%.5f", r.RegretCI95), format("%.4f", r.Regret.Median), format("%.4f", r.Regret.P90), format("%.4f", r.RegretWorst), format("%.5f", r.DifferencePct), format("%.5f", r.DifferenceCI95),
						fmt.Sprint(r.Compared), format("%.1f", r.Latency.P50), format("%.1f", r.Latency.P99),
					})
				}
				if err := Table(w, rows); err != nil {
					return err
				}
				for _, r := range result.Pairs {
					if err := renderGuard(w, r.Method, r.Decisions, r.Guard); err != nil {
						return err
					}
				}
				return renderBeyond(w, result.Beyond)
			})
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&names, "methods", nil, "methods to compare with the first; NAME:EPISODES runs the first of the episodes alone, NAME=FILE with a map or weights of its own")
	f.StringVar(&modelFile, "model", "", "model file (default: the bundled map)")
	f.IntVar(&opt.Threads, "parallel", 1, "episodes run side by side")
	scenes = a.sceneFlags(cmd, &opt)
	guard, limit = guardFlags(cmd), limitFlags(cmd)
	return cmd
}

// factorsOf reads the factors of --shift, each NAME=FACTOR.
func factorsOf(shifts []string) (map[string]float64, error) {
	factors := map[string]float64{}
	for _, text := range shifts {
		name, value, ok := strings.Cut(text, "=")
		f, err := strconv.ParseFloat(value, 64)
		if _, twice := factors[name]; !ok || err != nil || twice {
			return nil, BadInputf("--shift %s: want NAME=FACTOR, each name once", text)
		}
		factors[name] = f
	}
	return factors, nil
}

func (a *App) joinCommand() *cobra.Command {
	var runs []string
	cmd := &cobra.Command{
		Use:   "join CASE TRACE...",
		Short: "Statistics of an evaluation whose shards were run apart, from their traces",
		Args:  atLeast(2, "eval join needs a case and the traces of its shards"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Find(args[0])
			if err != nil {
				return err
			}
			result, err := closedloop.Join(cmd.Context(), c.Spec(), args[1:])
			if err != nil {
				return gpc.BadInput(err)
			}
			if result.Load, err = loadOf(runs); err != nil {
				return err
			}
			return a.Print(result, func(w io.Writer) error { return renderEvaluation(w, []*closedloop.Result{result}) })
		},
	}
	requeueFlag(cmd, "")
	cmd.Flags().StringSliceVar(&runs, "runs", nil, "what gpc eval --json printed for the shards: the result has the worst of their loads")
	return cmd
}

func (a *App) compareCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "compare TRACE TRACE...",
		Short: "Cost of several methods beside the first's, on the episodes in which all of them are safe",
		Args:  atLeast(2, "eval compare needs at least two traces of the same episodes"),
		RunE: func(cmd *cobra.Command, args []string) error {
			compared, err := closedloop.Compare(cmd.Context(), args)
			if err != nil {
				return gpc.BadInput(err)
			}
			result := report.Compared{Comparisons: compared}
			return a.Print(result, func(w io.Writer) error {
				rows := [][]string{{"case", "method", "episodes", "safe", "compared", "mean cost", "difference %", "± s.e.m.", "median", "p90", "mean margin", "p50 ms", "p99 ms"}}
				for _, r := range compared {
					rows = append(rows, []string{
						r.Case, r.Method, fmt.Sprint(r.Episodes), fmt.Sprint(r.Safe), fmt.Sprint(r.Compared), format("%.3f", r.CostMean),
						format("%.3f", r.DifferencePct), format("%.3f", r.DifferenceSEM), format("%.3f", r.Difference.Median), format("%.3f", r.Difference.P90), format("%.3f", r.MarginMean), format("%.2f", r.Latency.P50/1e3), format("%.2f", r.Latency.P99/1e3),
					})
				}
				return Table(w, rows)
			})
		},
	}
}

func renderEvaluation(w io.Writer, results []*closedloop.Result) error {
	rows := [][]string{{"case", "method", "episodes", "safe", "95 % interval", "failed", "min margin", "fallbacks", "p50 µs", "p99 µs", "mean ‖Δz‖"}}
	regrets := [][]string{{"regret %", "n", "mean", "95 % interval", "median", "95 % interval", "p90", "95 % interval", "max", "above max %", "gap %", "± s.e.m."}}
	for _, r := range results {
		rows = append(rows, []string{
			r.Case, r.Method, fmt.Sprint(r.Episodes), format("%.4f", r.Safe),
			fmt.Sprintf("[%.4f, %.4f]", r.CI95.Safe[0], r.CI95.Safe[1]), fmt.Sprint(r.Failed), format("%.2e", r.MarginMin),
			fmt.Sprint(r.Fallback), format("%.1f", r.Latency.P50), format("%.1f", r.Latency.P99), format("%.2e", r.Displacement),
		})
		if g := r.Regret; g.N > 0 {
			regrets = append(regrets, []string{
				r.Method, fmt.Sprint(g.N), format("%.4f", g.Mean), between("%.4f", g.MeanCI95), format("%.4f", g.Median), between("%.4f", g.MedianCI95),
				format("%.4f", g.P90), between("%.4f", g.P90CI95), format("%.4f", g.Max), fmt.Sprintf("≤ %.2f", 100*g.BeyondCI95[1]), format("%.4f", r.GapPct), format("%.4f", r.GapSEM),
			})
		}
	}
	if err := Table(w, rows); err != nil {
		return err
	}
	if len(regrets) > 1 {
		if err := Table(w, regrets); err != nil {
			return err
		}
	}
	if err := renderGoals(w, results); err != nil {
		return err
	}
	for _, r := range results {
		if err := renderGuard(w, r.Method, r.Decisions, r.Guard); err != nil {
			return err
		}
		if err := renderBeyond(w, r.Beyond); err != nil {
			return err
		}
	}
	return nil
}

// between writes an interval, with a dash for an open end.
func between(verb string, i closedloop.OpenInterval) string {
	return "[" + format(verb, i[0]) + ", " + format(verb, i[1]) + "]"
}

// unsafeListed are the unsafe episodes of a result that are printed.
const unsafeListed = 5

// renderGoals adds what results with goals say beyond the tables, draws that were left
// out, and unsafe episodes with their causes.
func renderGoals(w io.Writer, results []*closedloop.Result) error {
	for i, r := range results {
		if same := i > 0 && r.Case == results[i-1].Case && r.Excluded == results[i-1].Excluded && r.Episodes == results[i-1].Episodes; r.Excluded > 0 && !same {
			if _, err := fmt.Fprintf(w, "%s: %d of %d draws were left out before any method ran\n", r.Case, r.Excluded, r.Episodes+r.Excluded); err != nil {
				return err
			}
		}
		if r.Reached != nil {
			gap := "no episode to compare with the reference, which is safe in none of them"
			if r.RegretN > 0 {
				gap = fmt.Sprintf("gap to the reference %s ± %s %% over %d episodes", format("%.3f", r.GapPct), format("%.3f", r.GapSEM), r.RegretN)
			}
			if _, err := fmt.Fprintf(w, "%s %s: collision-free %s, reached %s, at the end %s; %s; mean smallest margin %s ± %s m\n",
				r.Case, r.Method, format("%.4f", r.CollisionFree), format("%.4f", *r.Reached), format("%.4f", *r.AtEnd), gap, format("%.3f", r.MarginMean), format("%.3f", r.MarginSEM)); err != nil {
				return err
			}
		}
		if m := r.Starts; m != nil {
			if _, err := fmt.Fprintf(w, "%s %s: of %d solves %s converged, of these %s to within 0.01 %% of their episode's best; the worst lies above it by %s %% in the mean %s, at most %s %%\n",
				r.Case, r.Method, m.Solves, format("%.4f", m.Converged), format("%.4f", m.Best), format("%.4f", m.GapPct.Mean), between("%.4f", m.GapPct.MeanCI95), format("%.4f", m.GapPct.Max)); err != nil {
				return err
			}
		}
		for i, u := range r.Unsafe {
			if i == unsafeListed {
				if _, err := fmt.Fprintf(w, "%s: and %d more; --json lists all\n", r.Method, len(r.Unsafe)-i); err != nil {
					return err
				}
				break
			}
			if _, err := fmt.Fprintf(w, "%s unsafe: seed %d, episode %d: %s\n", r.Method, r.Seed, u.Episode, u.Cause); err != nil {
				return err
			}
		}
	}
	return nil
}

// format writes a number, or a dash where there is none.
func format(verb string, n closedloop.Number) string {
	f := float64(n)
	if math.IsNaN(f) {
		return "–"
	}
	text := fmt.Sprintf(verb, f)
	if positive, ok := strings.CutPrefix(text, "-"); ok && strings.Trim(positive, "0.") == "" {
		return positive // rounded to zero
	}
	return text
}
