// Command secure compares methods of a secure dispatch on the same trajectories: in how many decisions no
// limit breaks after any outage, judged by the plant, what the dispatches cost above the exact secure chain,
// and how much CPU time a decision takes.
//
//	go run ./bench/secure --model MAP.safetensors --episodes 2 --methods hold,mo-opf,secure,direct
//
// The central type is row. Times are of the thread that decides, so that other programs of the machine
// lengthen them less than a clock's; a decision is everything from the observation to the action.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

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
}

// row is one method.
type row struct {
	Method    string  `json:"method"`
	Decisions int     `json:"decisions"`
	Secure    int     `json:"secure"` // after which no limit breaks, before or after an outage
	Margin    float64 `json:"margin"` // the least, pu
	// Above is the cost above the exact secure chain over all decisions, %; one that is not secure counts
	// like any other.
	Above float64 `json:"cost_above_percent"`
	P50   float64 `json:"cpu_p50_ms"`
	P99   float64 `json:"cpu_p99_ms"`
	Most  float64 `json:"cpu_max_ms"`
}

// options are the flags.
type options struct {
	name, methods, file, regime, out string
	episodes, steps                  int
	seed                             uint64
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
	r := &record{Commit: version.Build(), Case: c.Name(), Regime: o.regime, Seed: o.seed, Episodes: o.episodes}
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
				if err := warm(c.Spec(), k, draw); err != nil {
					return nil, fmt.Errorf("method %s: %w", method, err)
				}
			}
			total, err := drive(c.Spec(), k, episode, steps, &one, &cpu)
			if err != nil {
				return nil, fmt.Errorf("method %s, episode %d: %w", method, e, err)
			}
			cost, best = cost+total, best+exact[e]
		}
		slices.Sort(cpu)
		at := func(q float64) float64 { return cpu[min(len(cpu)-1, int(q*float64(len(cpu))))] }
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

// warm makes one decision that does not count.
func warm(spec *domain.Spec, k domain.Controller, draw func(e int) (domain.Episode, error)) error {
	episode, err := draw(0)
	if err != nil {
		return err
	}
	_, err = drive(spec, k, episode, 1, &row{}, new([]float64))
	return err
}

// drive decides the first steps of an episode and returns their cost.
func drive(spec *domain.Spec, k domain.Controller, episode domain.Episode, steps int, to *row, cpu *[]float64) (total float64, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := k.Reset(episode); err != nil {
		return 0, err
	}
	s, ctx, u := make([]float64, len(spec.Measured)), make([]float64, spec.ContextSize()), make([]float64, spec.ActionSize())
	for range steps {
		episode.Observe(s, ctx)
		before, known := machine.ThreadUsage()
		if !known {
			return 0, errors.New("the CPU time of a thread is not known on this system")
		}
		if _, err := k.Decide(s, ctx, domain.Preference{Adaptive: true}, u); err != nil {
			return 0, err
		}
		after, _ := machine.ThreadUsage()
		*cpu = append(*cpu, float64(after.Since(before).CPU)/float64(time.Millisecond))
		result, err := episode.Apply(u)
		if err != nil {
			return 0, err
		}
		to.Decisions++
		if spec.Keeps(result.Margin) {
			to.Secure++
		}
		to.Margin = min(to.Margin, result.Margin)
		total += result.Cost
	}
	return total, nil
}

// print writes the table.
func (r *record) print(w io.Writer) error {
	fmt.Fprintf(w, "%s, %d trajectories of %d decisions, seed %d; CPU time of the deciding thread, %s\n", r.Case, r.Episodes, r.Steps, r.Seed, r.Load)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "method\tsecure\tof\tleast margin, pu\tcost above, %\tCPU p50, ms\tp99\tmost")
	for _, a := range r.Rows {
		fmt.Fprintf(t, "%s\t%d\t%d\t%.1e\t%.4f\t%.3g\t%.3g\t%.3g\n", a.Method, a.Secure, a.Decisions, a.Margin, a.Above, a.P50, a.P99, a.Most)
	}
	return t.Flush()
}
