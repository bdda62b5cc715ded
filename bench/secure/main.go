// Command secure compares methods of a secure dispatch on the same trajectories: in how many decisions no
// limit breaks after any outage, judged by the plant, what the dispatches cost above the exact secure chain,
// and how much CPU time a decision takes.
//
//	go run ./bench/secure --model MAP.safetensors --episodes 2 --methods hold,mo-opf,secure,direct
//
// With --gaps every decision is solved exactly from where it was made, beside its bound. The central type is row. Times are of the thread that decides, so that other programs of the machine
// lengthen them less than a clock's; a decision is everything from the observation to the action.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"gonum.org/v1/gonum/stat"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/domains/paper"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/finite"
	"github.com/gpc-engine/gpc/internal/machine"
	"github.com/gpc-engine/gpc/internal/version"
)

// record is what the command writes.
type record struct {
	Commit   string        `json:"commit"`
	Case     string        `json:"case"`
	Regime   string        `json:"regime"`
	Seed     uint64        `json:"seed"`
	Episodes int           `json:"episodes"`
	Steps    int           `json:"steps"` // the first of each episode
	Load     *machine.Load `json:"load"`
	Rows     []row         `json:"rows"`

	action []domain.Variable
}

// row is one method.
type row struct {
	Method    string  `json:"method"`
	Decisions int     `json:"decisions"`
	Secure    int     `json:"secure"` // after which no limit breaks, before or after an outage
	Margin    float64 `json:"margin"` // the least, pu
	Worst     string  `json:"worst"`  // its limit
	// Above is the cost above the exact secure chain over all decisions, %; one that is not secure counts
	// like any other.
	Above float64 `json:"cost_above_percent"`
	P50   float64 `json:"cpu_p50_ms"`
	P99   float64 `json:"cpu_p99_ms"`
	Most  float64 `json:"cpu_max_ms"`
	// Bound is that on the cost of decisions above their optimum (domain.ProblemAbilities.Gap), %, of those that have one.
	Bound gaps `json:"bound_percent"`
	// Gap is what these decisions cost above the exact secure dispatch from where they were made, Below how often the
	// bound is less than that by more than solvers' tolerances; without --gaps there are none.
	Gap   gaps `json:"gap_percent"`
	Below int  `json:"bound_below_gap"`
	// Action is the last decision, pu.
	Action []float64 `json:"action"`
}

// gaps are shares of a cost, %.
type gaps struct {
	N    int     `json:"n"`
	Mean float64 `json:"mean"`
	P99  float64 `json:"p99"`
	Most float64 `json:"max"`
	all  []float64
}

func (g *gaps) describe() {
	slices.Sort(g.all)
	if g.N = len(g.all); g.N > 0 {
		g.Mean, g.P99, g.Most = stat.Mean(g.all, nil), stat.Quantile(0.99, stat.Empirical, g.all, nil), g.all[g.N-1]
	}
}

// options are the flags.
type options struct {
	name, methods, file, regime, out string
	episodes, steps                  int
	seed                             uint64
	gaps                             bool
}

func main() {
	var o options
	flag.StringVar(&o.name, "case", "opf-secure", "case, such as opf-secure:FILE.m")
	flag.StringVar(&o.methods, "methods", "hold,merit,mo-opf,mo-opf-margin,secure", "methods, one after another")
	flag.StringVar(&o.file, "model", "", "map of the methods that need one; without it the bundled one")
	flag.StringVar(&o.regime, "regime", "", "loads (default: the case's)")
	flag.StringVar(&o.out, "out", "", "write the record to this file (JSON)")
	flag.IntVar(&o.episodes, "episodes", 1, "trajectories")
	flag.IntVar(&o.steps, "steps", 0, "decisions of each; 0: all")
	flag.Uint64Var(&o.seed, "seed", 11, "of the trajectories")
	flag.BoolVar(&o.gaps, "gaps", false, "solve exactly from where each decision was made, to compare its bound")
	flag.Parse()
	r, err := run(o)
	if err == nil && o.out != "" {
		var text []byte
		if text, err = finite.Marshal(r); err == nil {
			err = durable.WriteFile(o.out, append(text, '\n'), 0o644)
		}
	}
	if err == nil {
		err = r.print(os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "secure:", err)
		var input *gpc.InputError
		if errors.As(err, &input) {
			os.Exit(2)
		}
		os.Exit(1)
	}
}

// run drives every method through every trajectory.
func run(o options) (*record, error) {
	if o.episodes < 1 || o.steps < 0 {
		return nil, gpc.BadInput(fmt.Errorf("%d episodes of %d steps, want 1 or more and none negative", o.episodes, o.steps))
	}
	catalogue := paper.Cases()
	c, err := catalogue.Find(o.name)
	if err != nil {
		return nil, err
	}
	draw := func(e int) (domain.Episode, error) {
		opt := domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}, Regime: o.regime}
		return c.Definition().Plant.Episode(o.seed, e, opt)
	}
	engine, err := gpc.OpenEngine(engine.Options{Backend: "cpu", Threads: 1})
	if err != nil {
		return nil, err
	}
	defer engine.Close()
	r := &record{Commit: version.Build(), Case: c.Name(), Regime: o.regime, Seed: o.seed, Episodes: o.episodes, action: c.Spec().Action}
	watch, err := machine.Begin(machine.Limit{})
	if err != nil {
		return nil, err
	}
	exact := make([]float64, o.episodes)
	for _, method := range strings.Split(o.methods, ",") {
		one := row{Method: method, Margin: math.Inf(1)}
		var cpu []float64
		cost, best := 0.0, 0.0
		for e := range o.episodes {
			episode, err := draw(e)
			if err != nil {
				return nil, err
			}
			steps := episode.Steps()
			if o.steps > 0 {
				steps = min(steps, o.steps)
			}
			r.Steps = steps
			if exact[e] == 0 {
				if exact[e], err = chain(episode, func() (domain.Episode, error) { return draw(e) }, steps); err != nil {
					return nil, err
				}
			}
			setup, err := c.Setup(method, o.file)
			if err != nil {
				return nil, err
			}
			k, err := c.Controller(engine, setup)
			if err != nil {
				return nil, err
			}
			if e == 0 { // what is made once is not a decision's
				if err := warm(c.Definition(), k, draw); err != nil {
					return nil, fmt.Errorf("method %s: %w", method, err)
				}
			}
			d := driven{c.Definition(), k, &one, o.gaps}
			total, err := d.drive(episode, steps, &cpu)
			if err != nil {
				return nil, fmt.Errorf("method %s, episode %d: %w", method, e, err)
			}
			cost, best = cost+total, best+exact[e]
		}
		slices.Sort(cpu)
		at := func(q float64) float64 { return cpu[min(len(cpu)-1, int(q*float64(len(cpu))))] }
		one.Bound.describe()
		one.Gap.describe()
		one.Above, one.P50, one.P99, one.Most = 100*(cost/best-1), at(0.5), at(0.99), cpu[len(cpu)-1]
		r.Rows = append(r.Rows, one)
	}
	r.Load, err = watch.End()
	return r, err
}

// chain is the cost of the exact secure chain over the first steps of an episode.
func chain(episode domain.Episode, draw func() (domain.Episode, error), steps int) (float64, error) {
	_, plan, err := episode.Oracle()
	if err != nil {
		return 0, err
	}
	again, err := draw()
	if err != nil {
		return 0, err
	}
	total := 0.0
	for t := range steps {
		out, err := again.Apply(plan[t])
		if err != nil {
			return 0, err
		}
		total += out.Cost
	}
	return total, nil
}

// print writes the table.
func (r *record) print(w io.Writer) error {
	fmt.Fprintf(w, "%s, %d trajectories of %d decisions, seed %d; CPU time of the deciding thread, %s\n", r.Case, r.Episodes, r.Steps, r.Seed, r.Load)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "method\tsecure\tof\tleast margin, pu\tworst limit\tcost above, %\tCPU p50, ms\tp99\tmost\tbounds\tmean, %\tp99\tmost")
	for _, a := range r.Rows {
		fmt.Fprintf(t, "%s\t%d\t%d\t%.1e\t%s\t%.4f\t%.3g\t%.3g\t%.3g\t%d\t%.3g\t%.3g\t%.3g\n",
			a.Method, a.Secure, a.Decisions, a.Margin, a.Worst, a.Above, a.P50, a.P99, a.Most, a.Bound.N, a.Bound.Mean, a.Bound.P99, a.Bound.Most)
	}
	for _, a := range r.Rows {
		if a.Gap.N > 0 {
			fmt.Fprintf(t, "%s: %d decisions above the exact dispatch from there by %.3g %% on average, p99 %.3g %%, most %.3g %%; %d bounds are below that\n",
				a.Method, a.Gap.N, a.Gap.Mean, a.Gap.P99, a.Gap.Most, a.Below)
		}
	}
	if r.Steps > 1 {
		return t.Flush()
	}
	for _, a := range r.Rows {
		fmt.Fprintf(t, "%s decides", a.Method)
		for i, v := range a.Action {
			fmt.Fprintf(t, " %s %.4g", r.action[i].Name, v)
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}
