package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/compile"
	"github.com/gpc-engine/gpc/domain/diagnosis"
	"github.com/gpc-engine/gpc/internal/durable"
)

// Percent is a flag in percent, with or without its sign.
type Percent float64

func (p *Percent) String() string { return strconv.FormatFloat(float64(*p), 'g', -1, 64) + "%" }
func (p *Percent) Type() string   { return "percent" }
func (p *Percent) Set(s string) error {
	v, err := strconv.ParseFloat(strings.TrimSuffix(s, "%"), 64)
	if err != nil {
		return fmt.Errorf("want a percentage such as 0.5%%")
	}
	*p = Percent(v)
	return nil
}

func (a *App) compileCommand() *cobra.Command {
	opt := compile.Options{}
	target, tail := Percent(0.5), Percent(0)
	var plant string
	var measured alteration
	cmd := &cobra.Command{
		Use:   "compile CASE --out FILE",
		Short: "Make a controller that meets a target for cost: solve, train and test in turn; resumable",
		Long: `Makes a map in rounds. A round solves scenarios, trains the map, and drives it
from held-out starts. Where the extra cost above the optimum misses the target, the
next round adds epochs or scenarios. Scenarios lie near the worst starts and at states
that the map visited. Rounds end when the target is met or the budget is spent. gpc then
chooses the method on the held-out starts, and measures it on other starts.

FILE is the map, FILE.report.json the report. FILE.compile keeps all work: run the
same command again to continue. Exit code 1 says that the target is missed.`,
		Args: ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if opt.Out != "" {
				if err := CheckOutputs([]durable.File{{Name: "--out", Path: opt.Out}, {Name: "the report", Path: opt.Out + ".report.json"}}, systemFiles(args[0], plant)); err != nil {
					return err
				}
			}
			c, err := a.Find(args[0])
			if err != nil {
				return err
			}
			if c, err = alter(c, uncertainGains(cmd), measured, func(c *gpc.Case) (*gpc.Case, error) { return a.onPlant(c, c, plant) }); err != nil {
				return err
			}
			for _, name := range []string{"target", "tail"} {
				if f := cmd.Flags().Lookup(name); f.Changed && f.Value.String() == "0%" {
					return BadInputf("--%s 0: want a percentage above 0, such as 0.5%%", name)
				}
			}
			if cmd.Flags().Changed("budget") && opt.Budget <= 0 {
				return BadInputf("--budget %v: want a time above 0, such as 15m", opt.Budget)
			}
			a.warn(c, diagnosis.Remark)
			opt.Target, opt.Tail, opt.Seed = float64(target), float64(tail), a.seed
			opt.Threads, opt.Command = a.threads, a.CommandLine()
			opt.Progress = func(p compile.Progress) {
				if p.Round == nil {
					a.meter.limit(p.Left)
					if p.Total == 0 {
						a.meter.begin(p.Stage)
					}
					a.meter.set(p.Stage, p.Done, p.Total)
					return
				}
				r := p.Round
				noWay := ""
				if r.HeldOut.NoWay > 0 {
					noWay = fmt.Sprintf(", %d of these without a way to be safe", r.HeldOut.NoWay)
				}
				a.say("round %d, %s: %s; %d scenarios (%d near the worst), %d samples, %d epochs; held-out %.3g %% (p90 %.3g, max %.3g, %d of %d unsafe%s), own starts %s %%; %.0f s",
					p.Number, r.Kind, r.Why, r.Scenarios, r.Focused, r.Samples, r.Epochs, float64(r.HeldOut.Mean), float64(r.HeldOut.P90), float64(r.HeldOut.Max),
					r.HeldOut.Unsafe, r.HeldOut.Episodes, noWay, ownStarts(r), r.Seconds.Solve+r.Seconds.Train+r.Seconds.Evaluate)
			}
			out, err := compile.Run(cmd.Context(), c, opt)
			if err != nil {
				return err
			}
			return a.PrintChecked(out.Met, out, func(w io.Writer) { writeCompiled(w, out) })
		},
	}
	measured = measuredFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&plant, "plant", "", "drive the map in "+plantUsage)
	f.StringVar(&opt.Out, "out", "", "model file to write")
	f.Var(&target, "target", "largest mean extra cost above the optimum, over held-out starts")
	f.Var(&tail, "tail", "largest extra cost of a single held-out start (default: 20 times the target)")
	f.Lookup("tail").DefValue = "" // said in words
	f.DurationVar(&opt.Budget, "budget", 0, "wall time of all runs with the same FILE together; up to half is kept for choosing the method and for the test (default 15m)")
	f.BoolVar(&opt.BudgetCPU, "budget-cpu", false, "count CPU time of the process over its threads in place of wall time, on a machine that does other work beside")
	f.BoolVar(&opt.Plain, "plain", false, "also train a plain network of the map's size by the action loss alone on the map's data, and test it in the map's place; its time is not the budget's")
	f.IntVar(&opt.Rounds, "rounds", 0, "largest number of rounds; 0: as many as the budget allows")
	f.IntVar(&opt.Scenarios, "scenarios", 0, "scenarios to solve in the first round; 0: the number that the case states")
	f.IntVar(&opt.Starts, "starts", 0, "held-out starts in each round (default 200, fewer where solving them takes much of the budget)")
	requeueFlag(cmd, "")
	f.IntVar(&opt.TestStarts, "test-starts", 0, "starts in the final test (default 1000, fewer where the budget is too short)")
	return cmd
}

// writeKeptOff says from how many starts all that is asked for could be kept off the limits, in the data and by the solver of the test.
func writeKeptOff(w io.Writer, out *compile.Report) {
	solved, short := 0, 0
	for _, r := range out.Rounds {
		solved, short = solved+r.Solves, short+r.NoRoom
	}
	text := fmt.Sprintf("kept off: samples, map and solver keep %g standard deviations of the closed loop off every limit; %d of %d solves of the data keep off less, as no plan from their start keeps off so much",
		out.KeptOff, short, solved)
	if b := out.Solver; b != nil {
		text += fmt.Sprintf("; of the test %s has no such plan in %d of %d episodes, and is unsafe in %d", b.Method, b.NoRoom, b.Episodes, b.Unsafe)
	}
	fmt.Fprintln(w, text)
}

// ownStarts is what a round's map costs from starts of its data, where there was time to drive these.
func ownStarts(r *compile.Round) string {
	if r.Training.Episodes == 0 {
		return "–"
	}
	return r.Training.Mean.Text("%.3g")
}

func writeCompiled(w io.Writer, out *compile.Report) {
	seconds := func(v float64) string { return strconv.FormatFloat(v, 'f', 0, 64) }
	number := func(v closedloop.Number) string { return v.Text("%.3g") }
	plain := func(v closedloop.Number) string { // never in powers of ten
		if v >= 100 {
			return v.Text("%.0f")
		}
		return number(v)
	}
	rows := [][]string{{"round", "kind", "scenarios", "near worst", "samples", "epochs", "own starts %", "held-out %", "p90 %", "max %", "unsafe", "solve s", "train s", "why"}}
	for i, r := range out.Rounds {
		rows = append(rows, []string{
			strconv.Itoa(i + 1), string(r.Kind), strconv.Itoa(r.Scenarios), strconv.Itoa(r.Focused), strconv.Itoa(r.Samples), strconv.Itoa(r.Epochs),
			ownStarts(&r), number(r.HeldOut.Mean), number(r.HeldOut.P90), number(r.HeldOut.Max),
			fmt.Sprintf("%d/%d", r.HeldOut.Unsafe, r.HeldOut.Episodes), seconds(r.Seconds.Solve), seconds(r.Seconds.Train), r.Why,
		})
	}
	Table(w, rows)
	rows = [][]string{{"starts", "method", "episodes", "unsafe", "no way", "no optimum", "regret %", "p90 %", "max %", "replaced %", "rescued %", "p50 µs", "p99 µs"}}
	add := func(starts string, s *compile.Score) {
		rows = append(rows, []string{
			starts, s.Method, strconv.Itoa(s.Episodes), strconv.Itoa(s.Unsafe), strconv.Itoa(s.NoWay), strconv.Itoa(s.Unsolved), number(s.Mean), number(s.P90), number(s.Max),
			number(s.Replaced), number(s.Rescued), plain(s.P50), plain(s.P99),
		})
	}
	for i := range out.Choice {
		add("held-out", &out.Choice[i])
	}
	add("test", &out.Test)
	if out.Plain != nil {
		add("test, plain", &out.Plain.Score)
	}
	if out.Solver != nil {
		add("test", &out.Solver.Score)
	}
	fmt.Fprintln(w)
	Table(w, rows)
	renderReferences(w, out.Test.Method, out.Test.Episodes, out.Test.Referenced, out.Test.NoReference)
	for _, s := range out.Choice {
		if s.Clock == "cpu" || s.TooSlow || s.LateStarts > 0 {
			verdict := map[bool]string{true: "too slow between decisions and so not chosen", false: "in time between decisions"}[s.TooSlow]
			fmt.Fprintf(w, "%s: decisions were late, so that its times are CPU times; by these it is %s, and late in %d of %d held-out episodes, which count as unsafe\n", s.Method, verdict, s.LateStarts, s.Episodes)
		}
	}
	verdict, clock := "meets", ""
	if out.Clock == "cpu" {
		clock = " of CPU time over the threads"
	}
	if !out.Met {
		verdict = "misses"
	}
	fmt.Fprintf(w, "\n%s: the map of round %d with %s %s the target of %g %% (largest %g %%, all safe where there is a way); rounds ended: %s; %.0f s%s\n",
		out.Model, out.Best+1, out.Test.Method, verdict, out.Target.Mean, out.Target.Max, out.Ended, out.Seconds, clock)
	if float64(out.Test.Min) < -out.Target.Mean {
		reason := "are no optima"
		if out.Disturbed {
			reason = "do not know what acts on the plant"
		}
		fmt.Fprintf(w, "references: some cost more than what the map does, by up to %s %%: they %s; none of these counts as less than nothing, and the mean is %s %%\n",
			number(-out.Test.Min), reason, number(out.Test.Floored))
	}
	renderBest(w, out.Test.Method, out.Test.BestKnown, out.Test.Episodes)
	if out.SteadyState != "" {
		fmt.Fprintln(w, out.SteadyState)
	}
	if out.Test.Late > 0 {
		fmt.Fprintf(w, "late: %s %% of the test's decisions took longer than the time between two; --guard-deadline bounds what a rescue takes\n", number(out.Test.Late))
	}
	if b := out.Solver; b != nil && b.Prepare != nil {
		fits, cold := "and is done in it", ""
		if b.Cold != nil {
			cold = fmt.Sprintf(", in %s ms at the median", plain(b.Cold.P50/1e3))
		}
		if !b.Fits {
			fits = "and is not always done in it"
		}
		fmt.Fprintf(w, "beside it: %s, the warm exact solver between decisions, costs %s %% from %d of these starts and the map %s %%; between two decisions it takes %s ms, p99 %s, of a period of %s ms, %s; the first decision of an episode is solved cold%s\n",
			b.Method, number(b.Own), b.Compared, number(b.Map), plain(b.Prepare.P50/1e3), plain(b.Prepare.P99/1e3), plain(b.Period/1e3), fits, cold)
	}
	if b := out.Solver; b != nil && out.Measured {
		informed := closedloop.Number(0)
		if b.Informed != nil {
			informed = *b.Informed
		}
		fmt.Fprintf(w, "not knowing the state costs %s points: %s costs %s %% by the estimates and %s %% by the state of the plant; the map adds %s points\n",
			number(b.Own-informed), b.Method, number(b.Own), number(informed), number(b.Map-b.Own))
	}
	if out.KeptOff > 0 {
		writeKeptOff(w, out)
	}
	if out.Delay > 0 {
		fmt.Fprintf(w, "delay: each action acts %g periods behind what it was decided by\n", out.Delay)
	}
	if out.Plant != "" {
		fmt.Fprintf(w, "the model is not the plant: %s; the reference knows it, map and solver do not\n", out.Plant)
	}
	if out.Integration != nil {
		fmt.Fprintln(w, out.Integration)
	}
	if out.Advice != "" {
		fmt.Fprintf(w, "what would help: %s\n", out.Advice)
	}
}
