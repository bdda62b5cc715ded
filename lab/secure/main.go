// Command secure compares methods of a secure dispatch on the same trajectories: in how many decisions no
// limit breaks after any outage, judged by the plant, what the dispatches cost above the exact secure chain,
// and how much CPU time a decision takes.
//
//	go run ./lab/secure --model MAP.safetensors --episodes 2 --methods hold,mo-opf,secure,direct
//
// Power flows after every outage judge each decision, which takes longer than deciding on large networks: merit:50 among the
// methods decides the first 50 of each trajectory alone.
//
// With --gaps every decision is solved exactly from where it was made, beside its bound; with --bench it prints lines of a
// benchmark for lab/record. The central type is row. Times are of the thread that decides, so that other programs of the
// machine lengthen them less than a clock's; a decision is everything from the observation to the action.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"gonum.org/v1/gonum/stat"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/internal/machine"
	"github.com/gpc-engine/gpc/paper"
)

// drives are the methods' rows.
type drives struct {
	of       *gpc.Case
	seed     uint64
	episodes int
	steps    int // the first of each episode
	load     *machine.Load
	rows     []row
}

// row is one method.
type row struct {
	method    string
	decisions int
	secure    int     // after which no limit breaks, before or after an outage
	margin    float64 // the least, pu
	worst     string  // its limit
	// above is the cost above the exact secure chain over all decisions, %; one that is not secure counts
	// like any other.
	above          float64
	p50, p99, most float64 // CPU time of a decision, ms
	// bound is that on the cost of decisions above their optimum (domain.ProblemAbilities.Gap), %, of those that have one.
	bound gaps
	// gap is what these decisions cost above the exact secure dispatch from where they were made, below how often the
	// bound is less than that by more than solvers' tolerances; without --gaps there are none.
	gap   gaps
	below int
	// action is the last decision, pu.
	action []float64
}

// gaps are shares of a cost, %.
type gaps struct {
	n               int
	mean, p99, most float64
	all             []float64
}

func (g *gaps) describe() {
	slices.Sort(g.all)
	if g.n = len(g.all); g.n > 0 {
		g.mean, g.p99, g.most = stat.Mean(g.all, nil), stat.Quantile(0.99, stat.Empirical, g.all, nil), g.all[g.n-1]
	}
}

// options are the flags.
type options struct {
	name, methods, file, regime, bench, resume string
	episodes, steps, bounds                    int
	seed                                       uint64
	gaps                                       bool
}

func main() {
	var o options
	flag.StringVar(&o.name, "case", "opf-secure", "case, such as opf-secure:FILE.m")
	flag.StringVar(&o.methods, "methods", "hold,merit,mo-opf,mo-opf-margin,secure", "methods, one after another; behind a colon, decisions of each trajectory where they are fewer than --steps")
	flag.StringVar(&o.file, "model", "", "map of the methods that need one; without it the bundled one")
	flag.StringVar(&o.regime, "regime", "", "loads (default: the case's)")
	flag.StringVar(&o.bench, "bench", "", "print lines of the benchmark of this `name`, as lab/record keeps them, in place of the table")
	flag.StringVar(&o.resume, "resume", "", "`file` that keeps each method's trajectories, where the same command goes on")
	flag.IntVar(&o.episodes, "episodes", 1, "trajectories")
	flag.IntVar(&o.steps, "steps", 0, "decisions of each; 0: all")
	flag.IntVar(&o.bounds, "bounds", 1, "find the bound of every so manieth decision, which takes seconds on large networks; 0: of none")
	flag.Uint64Var(&o.seed, "seed", 11, "of the trajectories")
	flag.BoolVar(&o.gaps, "gaps", false, "solve exactly from where each decision was made, to compare its bound")
	flag.Parse()
	r, err := run(o)
	switch {
	case err != nil:
	case o.bench != "":
		err = r.benchmark(os.Stdout, o.bench)
	default:
		err = r.print(os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "secure:", err)
		if errors.As(err, new(gpc.InputError)) {
			os.Exit(2)
		}
		os.Exit(1)
	}
}

// run drives every method through every trajectory.
func run(o options) (r *drives, err error) {
	if o.episodes < 1 || o.steps < 0 || o.bounds < 0 {
		return nil, gpc.BadInput(fmt.Errorf("%d episodes of %d steps with a bound every %d, want 1 or more and none negative", o.episodes, o.steps, o.bounds))
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
	kept, err := openJournal(o.resume, o)
	if err != nil {
		return nil, err
	}
	r = &drives{of: c, seed: o.seed, episodes: o.episodes}
	watch, err := machine.Begin(machine.Limit{})
	if err != nil {
		return nil, err
	}
	exact := exactCosts{draw, map[[2]int]float64{}}
	methods := strings.Split(o.methods, ",")
	parts, warmed := make([][]part, len(methods)), make([]bool, len(methods))
	for e := range o.episodes {
		for m, named := range methods {
			method, steps, err := firstSteps(named)
			if err != nil {
				return nil, gpc.BadInput(err)
			}
			if steps == 0 || 0 < o.steps && o.steps < steps {
				steps = o.steps
			}
			one, known := kept.find(method, e, steps)
			if !known {
				one = part{Method: method, Episode: e, Steps: steps}
				d := driven{of: c.Definition(), to: &one, gaps: o.gaps, bounds: o.bounds}
				if err := d.part(c, engine, o.file, draw, &exact, &warmed[m]); err != nil {
					return nil, fmt.Errorf("method %s, episode %d: %w", method, e, err)
				}
				if err := kept.add(one); err != nil {
					return nil, err
				}
			}
			parts[m] = append(parts[m], one)
		}
	}
	for _, of := range parts {
		r.rows = append(r.rows, rowOf(of))
		r.steps = max(r.steps, of[0].Decisions)
	}
	r.load, err = watch.End()
	return r, err
}

// part drives a method through a trajectory.
func (d *driven) part(c *gpc.Case, engine *gpc.Engine, file string, draw func(e int) (domain.Episode, error), exact *exactCosts, warmed *bool) error {
	episode, err := draw(d.to.Episode)
	if err != nil {
		return err
	}
	steps := episode.Steps()
	if d.to.Steps > 0 {
		steps = min(steps, d.to.Steps)
	}
	if d.to.Optimum, err = exact.of(d.to.Episode, steps); err != nil {
		return err
	}
	setup, err := c.Setup(d.to.Method, file)
	if err != nil {
		return err
	}
	if d.k, err = c.Controller(engine, setup); err != nil {
		return err
	}
	if !*warmed { // what is made once is not a decision's
		*warmed = true
		if err := warm(c.Definition(), d.k, draw); err != nil {
			return err
		}
	}
	return d.drive(episode, steps)
}

// rowOf is a method's of its trajectories.
func rowOf(parts []part) row {
	one := row{method: parts[0].Method, margin: math.Inf(1)}
	var cpu []float64
	cost, best := 0.0, 0.0
	for _, p := range parts {
		one.decisions, one.secure, one.below = one.decisions+p.Decisions, one.secure+p.Secure, one.below+p.Below
		if p.Margin < one.margin {
			one.margin, one.worst = p.Margin, p.Worst
		}
		if p.Failure == "" {
			cost, best, one.action = cost+p.Cost, best+p.Optimum, p.Action
		}
		cpu, one.bound.all, one.gap.all = append(cpu, p.CPU...), append(one.bound.all, p.Bound...), append(one.gap.all, p.Gap...)
	}
	slices.Sort(cpu)
	at := func(q float64) float64 { return cpu[min(len(cpu)-1, int(q*float64(len(cpu))))] }
	one.bound.describe()
	one.gap.describe()
	one.above, one.p50, one.p99, one.most = 100*(cost/best-1), at(0.5), at(0.99), cpu[len(cpu)-1]
	return one
}

// firstSteps reads NAME or NAME:STEPS; 0 is all.
func firstSteps(named string) (method string, steps int, err error) {
	method, number, some := strings.Cut(named, ":")
	if some {
		if steps, err = strconv.Atoi(number); err != nil || steps < 1 {
			return "", 0, fmt.Errorf("method %.60q: want NAME or NAME:STEPS, 1 or more", named)
		}
	}
	return method, steps, nil
}

// exactCosts are those of exact secure chains over the first steps of trajectories, each found once.
type exactCosts struct {
	draw  func(e int) (domain.Episode, error)
	known map[[2]int]float64 // by trajectory and steps
}

// of is what the chain of a trajectory costs over its first steps: of all of them by its own account, of fewer by the plant's.
func (x *exactCosts) of(e, steps int) (total float64, err error) {
	at := [2]int{e, steps}
	if total, ok := x.known[at]; ok {
		return total, nil
	}
	episode, err := x.draw(e)
	if err != nil {
		return 0, err
	}
	total, plan, err := episode.Oracle()
	if err != nil {
		return 0, err
	}
	if steps < len(plan) {
		total = 0
		for _, u := range plan[:steps] {
			out, err := episode.Apply(u)
			if err != nil {
				return 0, err
			}
			total += out.Cost
		}
	}
	x.known[at] = total
	return total, nil
}

// benchmark writes a line of a benchmark for each method.
func (r *drives) benchmark(w io.Writer, name string) (err error) {
	for _, a := range r.rows {
		_, more := fmt.Fprintf(w, "Benchmark%s/%s 1 %d decisions %d secure %g margin_pu %g above_%% %g cpu_p50_ms %g cpu_p99_ms %g cpu_max_ms %d bounds %g bound_mean_%% %g bound_p99_%%\n",
			name, a.method, a.decisions, a.secure, a.margin, a.above, a.p50, a.p99, a.most, a.bound.n, a.bound.mean, a.bound.p99)
		err = cmp.Or(err, more)
	}
	return err
}

// print writes the table.
func (r *drives) print(w io.Writer) error {
	fmt.Fprintf(w, "%s, %d trajectories of %d decisions, seed %d; CPU time of the deciding thread, %s\n", r.of.Name(), r.episodes, r.steps, r.seed, r.load)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "method\tsecure\tof\tleast margin, pu\tworst limit\tcost above, %\tCPU p50, ms\tp99\tmost\tbounds\tmean, %\tp99\tmost")
	for _, a := range r.rows {
		fmt.Fprintf(t, "%s\t%d\t%d\t%.1e\t%s\t%.4f\t%.3g\t%.3g\t%.3g\t%d\t%.3g\t%.3g\t%.3g\n",
			a.method, a.secure, a.decisions, a.margin, a.worst, a.above, a.p50, a.p99, a.most, a.bound.n, a.bound.mean, a.bound.p99, a.bound.most)
	}
	for _, a := range r.rows {
		if a.gap.n > 0 {
			fmt.Fprintf(t, "%s: %d decisions above the exact dispatch from there by %.3g %% on average, p99 %.3g %%, most %.3g %%; %d bounds are below that\n",
				a.method, a.gap.n, a.gap.mean, a.gap.p99, a.gap.most, a.below)
		}
	}
	if r.steps > 1 {
		return t.Flush()
	}
	for _, a := range r.rows {
		fmt.Fprintf(t, "%s decides", a.method)
		for i, v := range a.action {
			fmt.Fprintf(t, " %s %.4g", r.of.Spec().Action[i].Name, v)
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}
