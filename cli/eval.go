package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain/diagnosis"
	"github.com/gpc-engine/gpc/internal/durable"
)

func (a *App) evalCommand() *cobra.Command {
	var opt closedloop.Options
	var method, modelFile, shard, mcapFile, computing string
	var scenes, guard alteration
	var limit func() (closedloop.LoadLimit, error)
	cmd := &cobra.Command{
		Use:   "eval CASE [--method NAME] [--episodes N] [--trace FILE]",
		Short: "Evaluate a method in closed loop on unseen episodes",
		Long: `Drives episodes of the case's plant and scores every decision. --trace writes a file
that gpc verify checks without trusting this command. The engine uses one thread
unless you give --threads, so latencies are those of one core. --parallel runs
episodes side by side, which changes latencies alone.`,
		Args: ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := CheckOutputs([]durable.File{{Name: "--trace", Path: opt.TracePath}}, []durable.File{{Name: "--model", Path: modelFile}}); err != nil {
				return err
			}
			c, setup, err := a.Setup(cmd, args[0], modelFile, method)
			if err != nil {
				return err
			}
			a.warn(c, diagnosis.Error, diagnosis.Remark)
			findings := c.Findings()
			if c, err = alter(c, scenes, guard); err != nil {
				return err
			}
			if opt.Computing, err = computingOf(computing); err != nil {
				return err
			}
			opt.Resume = opt.Resume || a.requeue.Load()
			if opt.Resume && opt.TracePath == "" {
				return BadInputf("--resume and --requeue need --trace FILE, the run to continue")
			}
			part, err := a.Shard(shard)
			if err != nil {
				return err
			}
			opt.ShardIndex, opt.ShardCount = part.Index, part.Count
			if opt.Limit, err = limit(); err != nil {
				return err
			}
			opt.Progress, opt.CheckIntegration = a.Progress(c.Name()+" "+setup.Method), true
			result, err := a.evaluateToMCAP(cmd.Context(), mcapFile, modelFile, &opt, func() (*closedloop.Result, error) {
				return c.Evaluate(cmd.Context(), setup, a.Engine(), opt)
			})
			if err != nil {
				return err
			}
			result.Findings = findings
			return a.Print(result, func(w io.Writer) { RenderEvaluation(w, []*closedloop.Result{result}) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&method, "method", "", "method that decides, see gpc methods CASE (default: the one that the map was compiled for, or the first of the list)")
	f.StringVar(&modelFile, "model", "", "model file, or the weights of a method that brings its own (default: the bundled map)")
	scenes = a.sceneFlags(cmd, &opt)
	guard, limit = guardFlags(cmd), LimitFlags(cmd)
	f.StringVar(&computing, "computing", "", computingUsage)
	f.StringVar(&opt.TracePath, "trace", "", "write every decision to this file (JSON Lines), which must not exist, or is continued with --resume")
	f.StringVar(&mcapFile, "mcap", "", "write the episodes as MCAP too, for Foxglove and Rerun (gpc mcap does it of a trace)")
	f.BoolVar(&opt.Resume, "resume", false, "continue the trace after its last complete episode")
	f.StringVar(&shard, "shard", "", "i/n: run every n-th episode, from i"+ShardUsage)
	f.DurationVar(&opt.Budget, "budget", 0, "time of the evaluation, such as 2m, after which it has the episodes that were driven; a reference has half of the time that is left (default: no limit)")
	f.IntVar(&opt.Threads, "parallel", 1, "episodes run side by side")
	requeueFlag(cmd, "; with --resume")
	cmd.AddCommand(a.pairCommand(), a.joinCommand(), a.compareCommand())
	return cmd
}

// Setup finds the case of that name and what its method needs: the map or the weights
// of a file, the bundled map for "".
func (a *App) Setup(cmd *cobra.Command, name, modelFile, method string) (*gpc.Case, gpc.Setup, error) {
	a.meter.begin("open " + name)
	defer a.meter.end()
	s := gpc.Setup{Method: method}
	c, err := a.Find(name)
	if err == nil {
		c, err = uncertainGains(cmd)(c)
	}
	if err != nil {
		return nil, s, err
	}
	decidesWithout := cmd.Flags().Lookup("methods") != nil || cmd.Flags().Lookup("method") != nil && (cmd.Name() != "front" || len(c.Spec().Switches) > 0)
	if modelFile == "" && !c.Bundled() && !decidesWithout {
		return c, s, BadInputf("case %s has no bundled map: make one with compile and give its file with --model", c.Name())
	}
	s, err = c.Setup(method, modelFile)
	return c, s, err
}

// RenderEvaluation is what an evaluation prints: what the episodes were driven with, tables, then what they leave out.
func RenderEvaluation(w io.Writer, results []*closedloop.Result) {
	heading := ""
	for _, r := range results {
		k := conditions{r.Noise, r.Bias, r.Sensing, r.Shift, r.Plant, r.Steps}
		if text := k.String(); text != heading {
			heading = text
			fmt.Fprint(w, text)
		}
	}
	rows := [][]string{{"case", "method", "episodes", "safe", "95 % interval", "failed", "min margin", "tolerance", "fallbacks", "p50 µs", "p99 µs", "first p50 µs", "mean ‖Δz‖"}}
	regrets := [][]string{{"regret %", "n", "mean", "95 % interval", "median", "95 % interval", "p90", "95 % interval", "max", "above max %", "gap %", "± s.e.m."}}
	for _, r := range results {
		rows = append(rows, []string{
			r.Case, r.Method, fmt.Sprint(r.Episodes), r.Safe.Text("%.4f"),
			fmt.Sprintf("[%.4f, %.4f]", r.CI95.Safe[0], r.CI95.Safe[1]), fmt.Sprint(r.Failed), r.MarginMin.Text("%.2e"), fmt.Sprintf("%.0e", r.Tolerance),
			fmt.Sprint(r.Fallback),
		})
		rows[len(rows)-1] = append(append(rows[len(rows)-1], decisionTimes("%.1f", 1, &r.Latency)...), r.Displacement.Text("%.2e"))
		if g := r.Regret; g.N > 0 {
			regrets = append(regrets, []string{
				r.Method, fmt.Sprint(g.N), g.Mean.Text("%.4f"), intervalText(g.MeanCI95), g.Median.Text("%.4f"), intervalText(g.MedianCI95),
				g.P90.Text("%.4f"), intervalText(g.P90CI95), g.Max.Text("%.4f"), fmt.Sprintf("≤ %.2f", 100*g.BeyondCI95[1]), r.GapPct.Text("%.4f"), r.GapSEM.Text("%.4f"),
			})
		}
	}
	Table(w, rows)
	if len(regrets) > 1 {
		Table(w, regrets)
	}
	renderGoals(w, results)
	for _, r := range results {
		if r.Safe == 1 && r.MarginMin < 0 {
			fmt.Fprintf(w, "%s: safe, since no margin is below −%g, the tolerance of the case; the least is %s\n", r.Method, r.Tolerance, r.MarginMin.Text("%.2e"))
		}
		renderLate(w, r.Method, r.Decisions, r.Late, r.Computing)
		renderPrepare(w, r.Method, r.Prepare)
		renderGuard(w, r.Method, r.Decisions, r.Guard)
		renderSoft(w, r.Method, r.Decisions, r.Soft)
		renderBounds(w, r.Method, r.Decisions, r.Gap)
		if r.GoalReached == nil || r.NoReference != nil {
			renderReferences(w, r.Method, r.Episodes, r.Regret.N, r.NoReference)
		}
		renderBest(w, r.Method, r.BestKnown, r.Episodes)
		if r.Integration != nil {
			fmt.Fprintf(w, "%s: %s\n", r.Method, r.Integration)
		}
		for _, text := range []string{r.SteadyState, r.Unfinished} {
			if text != "" {
				fmt.Fprintln(w, text)
			}
		}
		renderBeyond(w, r.Excursions)
	}
}

// renderReferences says why episodes have no reference, and which the others are that regret is over.
func renderReferences(w io.Writer, method string, episodes, n int, missing []closedloop.MissingReference) {
	for _, m := range missing {
		fmt.Fprintf(w, "%s: %s\n", method, m.Text(episodes))
	}
	if len(missing) > 0 || n == 0 {
		fmt.Fprintf(w, "%s: regret is over %d of %d episodes, which are safe and have a reference\n", method, n, episodes)
	}
}

// renderBest says in how many episodes the cost of a method is the best that is known.
func renderBest(w io.Writer, method string, best, episodes int) {
	if best > 0 {
		fmt.Fprintf(w, "%s: in %d of %d episodes no reference costs as little: its own cost is the best known\n", method, best, episodes)
	}
}

// intervalText writes an interval, with a dash for an open end.
func intervalText(i closedloop.OpenInterval) string {
	return "[" + i[0].Text("%.4f") + ", " + i[1].Text("%.4f") + "]"
}

// unsafeListed are the unsafe episodes of a result that are printed.
const unsafeListed = 5

// renderGoals adds what results with goals say beyond the tables, draws that were left
// out, and unsafe episodes with their causes.
func renderGoals(w io.Writer, results []*closedloop.Result) {
	for i, r := range results {
		if repeated := i > 0 && r.Case == results[i-1].Case && r.Excluded == results[i-1].Excluded && r.Episodes == results[i-1].Episodes; r.Excluded > 0 && !repeated {
			fmt.Fprintf(w, "%s: %d of %d draws were left out before any method ran\n", r.Case, r.Excluded, r.Episodes+r.Excluded)
		}
		if r.GoalReached != nil {
			gap := "no episode to compare with the reference"
			if r.RegretN > 0 {
				gap = fmt.Sprintf("gap to the reference %s ± %s %% over %d episodes", r.GapPct.Text("%.3f"), r.GapSEM.Text("%.3f"), r.RegretN)
			}
			fmt.Fprintf(w, "%s %s: collision-free %s, reached %s, at the end %s; %s; mean smallest margin %s ± %s m\n",
				r.Case, r.Method, r.CollisionFree.Text("%.4f"), r.GoalReached.Text("%.4f"), r.AtEnd.Text("%.4f"), gap, r.MarginMean.Text("%.3f"), r.MarginSEM.Text("%.3f"))
		}
		if m := r.Starts; m != nil {
			fmt.Fprintf(w, "%s %s: of %d solves %s converged, of these %s to within 0.01 %% of their episode's best; the worst lies above it by %s %% in the mean %s, at most %s %%\n",
				r.Case, r.Method, m.Solves, m.Converged.Text("%.4f"), m.Best.Text("%.4f"), m.GapPct.Mean.Text("%.4f"), intervalText(m.GapPct.MeanCI95), m.GapPct.Max.Text("%.4f"))
		}
		for i, u := range r.Unsafe {
			if i == unsafeListed {
				fmt.Fprintf(w, "%s: and %d more; --json lists all\n", r.Method, len(r.Unsafe)-i)
				break
			}
			fmt.Fprintf(w, "%s unsafe: seed %d, episode %d: %s\n", r.Method, r.Seed, u.Episode, u.Cause)
		}
	}
}
