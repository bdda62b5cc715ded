package cli

import (
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
)

func (a *App) refineCommand() *cobra.Command {
	var modelFile, stateFile, sceneFile string
	var weights []float64
	var repeat int
	opt := batchnav.RefineOptions{}
	cmd := &cobra.Command{
		Use:   "refine CASE [--state FILE] [--candidates N]",
		Short: "Search many plans from one observation and return the best safe one",
		Long: `Proposes candidates around the map's answer: neighbours, other weightings of the
objectives, and noise at several scales. It decodes and projects all of them, rolls
each out under the model, and returns the best plan that keeps every limit. If a
plan is a single action, a ninth of the candidates are such proposals. The others
are drawn in rounds, each about the best of the rounds before. The observation is
{"s":[…],"c":[…]}, or every variable by its name. Exit code 1: no candidate keeps
the limits, or the map does not cover the observation.`,
		Args: ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, setup, err := a.Setup(cmd, args[0], modelFile, "")
			if err != nil {
				return err
			}
			spec := c.Spec()
			pref, err := Preference(weights, spec.ObjectiveSize())
			if err != nil {
				return err
			}
			obs := batchnav.Observation{Preference: pref}
			if sceneFile != "" {
				if c, obs, err = a.observed(cmd, c, sceneFile, pref); err != nil {
					return err
				}
				spec = c.Spec()
			} else if obs.S, obs.C, err = a.readState(stateFile, spec); err != nil {
				return err
			}
			e, err := a.OpenEngine()
			if err != nil {
				return err
			}
			defer e.Close()
			r, err := c.Refiner(e, setup, opt.Candidates)
			if err != nil {
				return err
			}
			opt.Seed, opt.Threads = a.seed, a.CPUThreads()
			var result *batchnav.Refinement
			for range repeat {
				if result, err = r.Refine(cmd.Context(), obs, opt); err != nil {
					return err
				}
			}
			return a.PrintChecked(result.Feasible && !result.OffMap, result, func(w io.Writer) { RenderRefinement(w, spec, result) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&modelFile, "model", "", "model file (default: the bundled map)")
	f.StringVar(&stateFile, "state", "-", "file with the observation, - for standard input")
	f.StringVar(&sceneFile, "scene", "", "scene file, whose start is the observation (gpc scene writes one)")
	f.IntVar(&opt.Candidates, "candidates", 4096, "latent candidates")
	f.IntVar(&opt.FlowSteps, "flow-steps", 1, "latent steps that all candidates take")
	f.IntVar(&opt.LookAhead, "look-ahead", 0, "decisions of the true roll-out; 0: to the end of the episode or plan")
	f.BoolVar(&opt.NoRounds, "no-rounds", false, "proposals alone: no rounds along the roll-outs after them")
	f.DurationVar(&opt.TimeLimit, "within", 0, "start no round that would end later than this after the observation, such as 5ms (default: no limit)")
	f.BoolVar(&opt.NoProjection, "no-projection", false, "leave decoded actions as they are")
	f.Float64SliceVar(&weights, "preference", nil, "`weights` w1,w2,… of the objectives, which sum to 1 (default: the case's adaptive weights)")
	f.IntVar(&repeat, "repeat", 1, "refine this many times and report the last: the first pays for allocation and cold caches")
	return cmd
}

func (a *App) readState(file string, spec *domain.Spec) (s, c []float64, err error) {
	source := a.Stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, nil, BadInputf("--state: %w", err)
		}
		defer f.Close()
		source = f
	} else if a.typed {
		a.say(`waiting for the observation on standard input: {"s":[%d numbers],"c":[%d numbers]}; --state FILE reads a file, --scene FILE takes the start of a scene`, spec.MeasuredSize(), spec.ContextSize())
	}
	s, c, err = closedloop.ReadState(source, spec)
	if err != nil {
		if file == "-" {
			file = "standard input (--state FILE reads a file)"
		}
		return nil, nil, BadInputf("%s: %w", file, err)
	}
	return s, c, nil
}

func RenderRefinement(w io.Writer, spec *domain.Spec, r *batchnav.Refinement) {
	verdict := "feasible"
	if !r.Feasible {
		verdict = "INFEASIBLE"
	}
	counted := ""
	if len(r.Sources) > 0 {
		counted = fmt.Sprintf(" (%d feasible)", r.FeasibleCount)
	}
	fmt.Fprintf(w, "%s: best of %d candidates%s, look-ahead %d decisions\n", spec.Name, r.Candidates, counted, r.LookAhead)
	for i, v := range spec.Action {
		fmt.Fprintf(w, "  %-10s %12.6f %s\n", v.Name, r.U[i], v.Unit)
	}
	if steps := len(r.U) / len(spec.Action); steps > 1 {
		fmt.Fprintf(w, "  the first of %d actions; --json has all\n", steps)
	}
	note := ""
	switch {
	case math.IsNaN(r.LocalizedCost):
	case !r.LocalizedFeasible:
		note = fmt.Sprintf("localized cost %.6f, which is not feasible", r.LocalizedCost)
	case r.LocalizedCost < r.Cost: // as planners that count more than the look-ahead have it
		note = fmt.Sprintf("localized cost %.6f over the look-ahead alone; the search also counts what follows it", r.LocalizedCost)
	default:
		note = fmt.Sprintf("localized cost %.6f", r.LocalizedCost)
	}
	fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("  cost       %12.6f   %s", r.Cost, note), " "))
	fmt.Fprintf(w, "  margin     %12.1e   %s, source %s\n", r.Margin, verdict, r.Source)
	if r.OffMap {
		fmt.Fprintf(w, "  residual   %12.1e   OFF THE MAP: above %.1e; the map was not made for this observation\n\n", r.Residual, r.ResidualLimit)
	} else if r.ResidualLimit > 0 {
		fmt.Fprintf(w, "  residual   %12.1e   on the map: at most %.1e\n\n", r.Residual, r.ResidualLimit)
	} else {
		fmt.Fprintf(w, "  residual   %12.1e\n\n", r.Residual)
	}
	rows := [][]string{{"source", "candidates", "feasible", "best cost", "mean cost"}}
	for _, s := range r.Sources {
		rows = append(rows, []string{s.Source.String(), fmt.Sprint(s.Candidates), fmt.Sprint(s.Feasible), fmt.Sprintf("%.6f", s.BestCost), fmt.Sprintf("%.6f", s.MeanCost)})
	}
	if len(r.Sources) > 0 {
		Table(w, rows)
	}
	if len(r.Rounds) > 1 {
		rows = [][]string{{"candidates so far", "best cost", "above the last", "margin"}}
		last := r.Rounds[len(r.Rounds)-1]
		for _, n := range r.Rounds {
			excess := "–"
			if n.Feasible && last.Feasible {
				excess = fmt.Sprintf("%.2e %%", 100*(n.Cost-last.Cost)/max(1e-300, math.Abs(last.Cost)))
			}
			rows = append(rows, []string{fmt.Sprint(n.Candidates), fmt.Sprintf("%.6f", n.Cost), excess, fmt.Sprintf("%.1e", n.Margin)})
		}
		fmt.Fprintln(w)
		Table(w, rows)
	}
	l := r.Latency
	var parts []string
	for _, p := range []struct {
		name string
		us   float64
	}{{"localize", l.Localize}, {"candidates", l.Candidates}, {"flow", l.Flow}, {"evaluate", l.Evaluate}, {"total", l.Total}} {
		if p.us > 0 { // what searches or refines by itself tells the total only
			parts = append(parts, fmt.Sprintf("%s %.2f ms", p.name, p.us/1e3))
		}
	}
	fmt.Fprintf(w, "\n%s\n", strings.Join(parts, " · "))
}
