// Command gains drives systems of the gallery whose actuators make between 0.9 and 1.1 of what is asked for, drawn for
// each episode. All states are measured with noise, and three standard deviations are kept off the limits:
//
//	go run ./lab/gains --maps build/gains --traces build/gains/traces cartpole cstr-runs-on:300
//
// Each method is driven through the same episodes: the exact solver that is told the gains, solver and map by their
// estimates, and both in a model in which every gain is 1. It prints lines of a benchmark for lab/record, without times. Traces
// stay in a folder, and the same command continues behind the last episode. The central type is contender.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/internal/bundled"
	"github.com/gpc-engine/gpc/internal/simd/isa"
	"github.com/gpc-engine/gpc/internal/version"
)

const (
	share = 0.1  // by which each gain may differ from 1
	noise = 0.01 // standard deviation of each state's measurement, in units of its scale
	level = 3    // standard deviations kept off the limits
)

// options are the flags.
type options struct {
	maps, traces       string
	methods            string
	episodes, parallel int
	seed               uint64
	log                io.Writer
}

func main() {
	o := options{log: os.Stderr}
	flag.StringVar(&o.maps, "maps", "", "`folder` of SYSTEM-gains.safetensors, and of SYSTEM.safetensors where none is bundled")
	flag.StringVar(&o.traces, "traces", "", "`folder` that traces are written to, and continued in")
	flag.StringVar(&o.methods, "methods", "nmpc,direct", "`methods`: nmpc alone needs no maps")
	flag.IntVar(&o.episodes, "episodes", 1000, "of each method, where SYSTEM:N says no other number")
	flag.IntVar(&o.parallel, "parallel", 1, "episodes run side by side")
	flag.Uint64Var(&o.seed, "seed", 37000001, "of the episodes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout, &o, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "gains:", err)
		os.Exit(1)
	}
}

// run prints the rows of systems.
func run(ctx context.Context, w io.Writer, o *options, systems []string) error {
	if len(systems) == 0 || o.maps == "" || o.traces == "" {
		return errors.New("want --maps FOLDER --traces FOLDER SYSTEM[:EPISODES]…")
	}
	wanted, methods := contenders[:0:0], strings.Split(o.methods, ",")
	for _, one := range contenders {
		if slices.Contains(methods, one.method) {
			wanted = append(wanted, one)
		}
	}
	if len(wanted) < 2 || wanted[0] != contenders[0] {
		return fmt.Errorf("--methods %s: want nmpc, or nmpc,direct", o.methods)
	}
	catalogue := bundled.Cases()
	for _, text := range systems {
		of := *o
		var err error
		name, number, few := strings.Cut(text, ":")
		if few {
			if of.episodes, err = strconv.Atoi(number); err != nil {
				return fmt.Errorf("%s: %w", text, err)
			}
		}
		c, err := catalogue.Find(name)
		if err != nil {
			return err
		}
		rows, err := drive(ctx, c, wanted, &of)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		for _, r := range rows {
			if err := r.print(w, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// drive is a row for each contender in a system.
func drive(ctx context.Context, c *gpc.Case, contenders []contender, o *options) ([]row, error) {
	k, err := newContest(c)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.traces, 0o755); err != nil {
		return nil, err
	}
	var paths []string
	for _, one := range contenders {
		path := filepath.Join(o.traces, c.Name()+"-"+one.method+"-"+one.gains+".jsonl")
		if err := k.evaluate(ctx, one, path, o); err != nil {
			return nil, fmt.Errorf("%s, gains %s: %w", one.method, one.gains, err)
		}
		paths = append(paths, path)
	}
	compared, err := closedloop.Compare(ctx, paths)
	if err != nil {
		return nil, err
	}
	var rows []row
	for i, one := range contenders {
		r := row{contender: one, Comparison: compared[i], first: i == 0}
		if at, is := resting[c.Name()]; is {
			if r.offset, err = at.offset(ctx, c.Spec(), paths[i]); err != nil {
				return nil, err
			}
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// evaluate writes the trace of a contender, or the rest of it.
func (k *contest) evaluate(ctx context.Context, one contender, trace string, o *options) error {
	made, err := k.resolve(one, o.maps)
	if err != nil {
		return err
	}
	var engines []*gpc.Engine
	defer func() {
		for _, e := range engines {
			e.Close()
		}
	}()
	factory := func() (domain.Controller, error) {
		e, err := gpc.OpenEngine(engine.Options{Backend: "cpu", Threads: 1})
		if err != nil {
			return nil, err
		}
		engines = append(engines, e)
		return k.controller(one, made, e)
	}
	opt := closedloop.Options{
		Method: one.method + "-" + one.gains, Episodes: o.episodes, Seed: o.seed, Threads: o.parallel, TracePath: trace, Resume: true,
		Preference: domain.Preference{Adaptive: true}, Commit: version.Build(), Device: gpc.Host(),
		Progress: func(done, total int) {
			if done%10 == 0 || done == total {
				fmt.Fprintf(o.log, "%s: %d of %d\n", filepath.Base(trace), done, total)
			}
		},
	}
	if opt.ISA, err = isa.Name(); err != nil {
		return err
	}
	if opt.ModelSHA256, err = made.SHA256(); err != nil {
		return err
	}
	_, err = k.plant.EvaluateBy(ctx, factory, opt)
	return err
}

// rest is the state of a plant that runs on, and the entry of its context that is the reference of it.
type rest struct{ state, reference int }

// resting are the systems that come to rest where an action holds them: a wrong gain then leaves an offset.
var resting = map[string]rest{"cstr-runs-on": {1, 0}}

// offset is how far the mean of a state over an episode's last half lies from its reference, in % of its range.
type offset struct{ mean, worst float64 }

// offset is that of the safe episodes of a trace.
func (r rest) offset(ctx context.Context, spec *domain.Spec, trace string) (*offset, error) {
	of := spec.Measured[r.state]
	var sum, worst float64
	n := 0
	_, err := closedloop.ReadEpisodes(ctx, trace, func(e *closedloop.EpisodeRecord) error {
		if !e.End.Safe {
			return nil
		}
		beside := 0.0
		last := e.Lines[len(e.Lines)/2:]
		for _, l := range last {
			beside += l.S[r.state] - l.C[r.reference]
		}
		off := 100 * math.Abs(beside) / float64(len(last)) / (of.Hi - of.Lo)
		sum, worst = sum+off, math.Max(worst, off)
		n++
		return nil
	})
	if err != nil || n == 0 {
		return nil, err
	}
	return &offset{sum / float64(n), worst}, nil
}

// row is a contender in one system.
type row struct {
	contender
	closedloop.Comparison
	first  bool    // that the others are beside
	offset *offset // nil of a system that does not come to rest
}

// print writes a line of a benchmark.
func (r *row) print(w io.Writer, system string) error {
	way := closedloop.ClopperPearson(r.SafeOfWay, r.Way)
	_, err := fmt.Fprintf(w, "BenchmarkGains/%s/%s/%s 1 %d episodes %d safe %d way %d safe_of_way %g low_%% %g high_%%",
		system, r.method, r.gains, r.Episodes, r.Safe, r.Way, r.SafeOfWay, 100*way[0], 100*way[1])
	if d := r.Difference; !r.first && r.Compared > 0 {
		_, more := fmt.Fprintf(w, " %d compared %g above_%% %g above_low_%% %g above_high_%%", r.Compared, d.Mean, d.MeanCI95[0], d.MeanCI95[1])
		err = cmp.Or(err, more)
	}
	if r.offset != nil {
		_, more := fmt.Fprintf(w, " %g offset_%% %g offset_worst_%%", r.offset.mean, r.offset.worst)
		err = cmp.Or(err, more)
	}
	_, more := fmt.Fprintln(w)
	return cmp.Or(err, more)
}
