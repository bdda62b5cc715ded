package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/closedloop"
)

// guardFlags adds the flags of the guard over the navigator's decisions. The function that
// it returns gives the case with the guard that they ask for.
func guardFlags(cmd *cobra.Command) alteration {
	var mode string
	var noise float64
	var deadline time.Duration
	measured := measuredFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&mode, "guard", "", "on or off: roll each decision out before it is executed, and replace it if the roll-out breaks a limit (default: as the case says)")
	f.Float64Var(&noise, "guard-tighten", 0, "tighten the guard's margins by measurement noise of this standard deviation, in units of each state's scale")
	f.DurationVar(&deadline, "guard-deadline", 0, "time that the guard's solver may take, such as 5ms; decisions then depend on the machine (default: as the case says)")
	return func(c *gpc.Case) (*gpc.Case, error) {
		c, err := measured(c)
		if err != nil {
			return nil, err
		}
		g, noiseSet, timed := c.Definition().Guard, cmd.Flags().Changed("guard-tighten"), cmd.Flags().Changed("guard-deadline")
		switch mode {
		case "on":
			g.Off = false
		case "off":
			g.Off = true
		case "":
			if !noiseSet && !timed {
				return c, nil
			}
		default:
			return nil, BadInputf("--guard %s: want on or off", mode)
		}
		if noiseSet && g.Off {
			return nil, BadInputf("--guard-tighten %v: case %s has no guard; --guard on gives it one", noise, c.Name())
		}
		if timed && g.Off {
			return nil, BadInputf("--guard-deadline %v: case %s has no guard; --guard on gives it one", deadline, c.Name())
		}
		if noiseSet {
			g.Noise = noise
		}
		if timed {
			g.Deadline = deadline
		}
		return c.Guarded(g)
	}
}

// decisionTimes are the median and the 99 % quantile of decisions behind an episode's first, and the median of these, µs over per.
// A trace of one decision an episode has those alone.
func decisionTimes(format string, per closedloop.Number, l *closedloop.Latency) []string {
	cells := []string{"–", "–", "–"}
	if l.Running != nil {
		cells[0], cells[1] = (l.Running.P50 / per).Text(format), (l.Running.P99 / per).Text(format)
	}
	if l.Cold != nil {
		cells[2] = (l.Cold.P50 / per).Text(format)
	}
	return cells
}

// renderPrepare says what a method that works between its decisions takes there.
func renderPrepare(w io.Writer, method string, times *closedloop.Quantiles) {
	if times == nil {
		return
	}
	fmt.Fprintf(w, "%s: between decisions: p50 %s, p99 %s µs\n", method, times.P50.Text("%.1f"), times.P99.Text("%.1f"))
}

// renderBounds says how far decisions may be above their optima.
func renderBounds(w io.Writer, method string, decisions int, b *closedloop.GapBounds) {
	if b == nil {
		return
	}
	fmt.Fprintf(w, "%s: above the optimum of the linearised limits by at most %s %% on average, p99 %s %%, most %s %%; %d of %d decisions above 1 %% or without a bound\n",
		method, b.Mean.Text("%.3g"), b.P99.Text("%.3g"), b.Max.Text("%.3g"), b.Exceeding, decisions)
}

// renderSoft says how far soft limits were exceeded.
func renderSoft(w io.Writer, method string, decisions int, limits []closedloop.SoftStatistics) {
	for _, s := range limits {
		if s.Decisions > 0 {
			fmt.Fprintf(w, "%s: soft limit %s exceeded in %d of %d decisions, by at most %.3g %s in episode %d\n", method, s.Limit, s.Decisions, decisions, float64(s.Largest), s.Unit, s.Episode)
		}
	}
}

// renderGuard adds what a guard did in so many decisions of a method.
func renderGuard(w io.Writer, method string, decisions int, g *closedloop.GuardCounts) {
	if g == nil || g.Failing == 0 {
		return
	}
	fmt.Fprintf(w, "%s: guard: %d of %d roll-outs failed; the plan before was executed in %d; a rescue was asked for in %d (%.3f %%), its action executed in %d, the longest such decision %.1f ms\n",
		method, g.Failing, decisions, g.Incumbent, g.Rescues, 100*float64(g.RescueRate), g.Solved, float64(g.RescueWorst)/1e3)
}
