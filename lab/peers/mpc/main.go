//go:build linux

// Command peers-mpc times decisions of a receding horizon by package ocp next to CasADi
// with IPOPT, with fatrop, and with its SQP method on HPIPM, and on two systems beside do-mpc,
// in one run on one machine, for the systems of examples/gallery:
//
//	go run ./lab/peers/mpc --out lab/results/NAME/peers-mpc.json
//	    [--systems cartpole,cstr] [--episodes 1] [--seed 991]
//	    [--python build/peers-mpc/bin/python]
//
// Episodes of every system, its whole horizon ahead at each decision, are driven by our
// plans with noise on the state. Every solver then decides in the same states, each from its
// own decision before, and an episode's first from nothing. Times are CPU times of one
// thread. So does the bundled map of a system, with and without its guard.
//
// systems.py has the equations of every system once more. At every plan of ours they must
// give our states and cost, and IPOPT, started there with a tolerance of 1e-10, must find no
// cost that differs from ours by more than 1e-6 of it; so must do-mpc's own program where there
// is one, whose discretisation is then ours, or end in a lower one.
package main

import (
	"cmp"
	"embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/klauspost/cpuid/v2"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/examples/gallery"
	"github.com/gpc-engine/gpc/internal/machine"
	"github.com/gpc-engine/gpc/internal/testing/thread"
	"github.com/gpc-engine/gpc/internal/version"
	"github.com/gpc-engine/gpc/lab/peerrecord"
	"github.com/gpc-engine/gpc/ocp"
)

//go:embed *.py
var scripts embed.FS

// loop is what is driven of a system: few decisions where a peer takes long.
type loop struct {
	episodes, decisions int
	noise               float64 // standard deviation on each state, of its typical size
}

// loops keep the whole run within minutes. Their noise leaves plans that keep the limits.
var loops = map[string]loop{
	"cartpole":        {5, 40, 0.02},
	"cartpole-track":  {5, 40, 0.005},
	"cstr":            {4, 20, 0.002},
	"double-pendulum": {2, 6, 0.002},
	"chain9":          {4, 10, 0.002},
	"chain21":         {2, 4, 0.002},
	"quadrotor":       {3, 12, 0.002},
	"quadrotor-3d":    {2, 6, 0.002},
	"hvac":            {4, 20, 0.005},
}

// tolerance of the scaled optimality conditions, ours and the peers', and that of the
// optima that are compared.
const (
	tolerance = 1e-6
	exact     = 1e-9
)

// Largest relative differences: of the peers' own cost of our plan, which is the same
// function of the same numbers, and of their optimum started there.
const (
	sameFunction = 1e-9
	sameOptimum  = 1e-6
	basin        = 1e-4 // costs further apart are of two
)

type options struct {
	out, python string
	systems     []string
	episodes    int
	seed        uint64
}

func main() {
	var o options
	var names string
	flag.StringVar(&o.out, "out", "", "file to write; standard output when empty")
	flag.StringVar(&o.python, "python", "build/peers-mpc/bin/python", "a Python with casadi and do-mpc")
	flag.StringVar(&names, "systems", "", "names of systems of the gallery, separated by commas; empty: all")
	flag.IntVar(&o.episodes, "episodes", 0, "of each system; 0: its own number")
	flag.Uint64Var(&o.seed, "seed", 991, "of the episodes")
	flag.Parse()
	if names != "" {
		o.systems = strings.Split(names, ",")
	}
	systems, err := chosen(o.systems)
	if err == nil && o.episodes < 0 {
		err = fmt.Errorf("--episodes %d, want 0 or more", o.episodes)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(2)
	}
	if err := run(o, systems); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

// chosen are the systems of the given names, all where there are none.
func chosen(names []string) ([]equations.System, error) {
	var known []string
	var systems []equations.System
	for _, y := range gallery.Systems() {
		known = append(known, y.Name)
		if len(names) == 0 || slices.Contains(names, y.Name) {
			systems = append(systems, y)
		}
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("no system %q in the gallery, want of %s", name, strings.Join(known, ", "))
		}
	}
	return systems, nil
}

// episodes are the decisions of one system.
type episodes struct {
	Name       string     `json:"name"`
	Steps      int        `json:"steps"`
	Contexts   int        `json:"contexts"` // the size of the context
	StateScale []float64  `json:"state_scale"`
	ActionLo   []float64  `json:"action_lo"`
	ActionHi   []float64  `json:"action_hi"`
	Rest       []float64  `json:"rest"`
	Decisions  []decision `json:"decisions"`
	each       int        // decisions of an episode
	mapped     []mapped
}

// mapped are the times of a map in the states of the decisions.
type mapped struct {
	method string
	us     []float64
}

// decision is one state with what we made of it: a timed plan, and the optimum to exact,
// solved from it; the timed plan itself where that ends in another basin.
type decision struct {
	First    bool        `json:"first"` // of an episode
	Weights  []float64   `json:"weights"`
	Solved   bool        `json:"solved"` // whether the optimum was found
	Cost     float64     `json:"cost"`
	States   [][]float64 `json:"states"`   // [steps+1]
	Contexts [][]float64 `json:"contexts"` // [steps+1], the clock last
	Plan     [][]float64 `json:"plan"`     // [steps]
	us, cost float64     // of the timed plan
	solved   bool        // whether that is a solution
}

// compared is what the peers made of one system's decisions.
type compared struct {
	Name   string          `json:"name"`
	Checks []check         `json:"checks"` // IPOPT's first
	Peers  map[string]peer `json:"peers"`
}

// check is a peer's optima from our plans.
type check struct {
	Peer string `json:"peer"`
	// Unlike is how far its equations are from ours, Worst the largest relative
	// difference of its cost from ours.
	Unlike float64 `json:"unlike"`
	Worst  float64 `json:"worst"`
	// Stuck are decisions that it does not solve from our plan.
	Stuck []string `json:"stuck"`
	// Lower are those in which it leaves our plan for a lower optimum. Only do-mpc may: that ours is
	// an optimum is CasADi's check, of the same equations.
	Lower int `json:"lower"`
}

type peer struct {
	Times []float64 `json:"times_us"` // of every decision
	// Unsolved are decisions without a solution, Lower and Higher those that ended in a
	// better or a worse basin than ours.
	Unsolved, Lower, Higher int
}

func run(o options, systems []equations.System) error {
	watch, err := machine.Begin(machine.Limit{})
	if err != nil {
		return err
	}
	var given []episodes
	for _, y := range systems {
		l := loops[y.Name]
		l.episodes = cmp.Or(o.episodes, l.episodes)
		e, err := drive(y, l, o.seed)
		if err != nil {
			return fmt.Errorf("%s: %w", y.Name, err)
		}
		if err := e.decide(y); err != nil {
			return fmt.Errorf("%s: %w", y.Name, err)
		}
		given = append(given, e)
	}
	missing, found, err := ask(o.python, given)
	if err != nil {
		return err
	}
	rec := peerrecord.Record{
		Device: fmt.Sprintf("%s, %d threads", cpuid.CPU.BrandName, runtime.NumCPU()), Commit: version.Commit, Missing: missing,
		Note: fmt.Sprintf("CPU times of one thread, tolerance %g, seed %d; ratios of percentiles, with the least and the largest of an episode.", tolerance, o.seed),
	}
	var wrong []error
	for i, c := range found {
		e := given[i]
		for _, p := range c.Checks {
			check, err := p.of(e)
			rec.Checks, wrong = append(rec.Checks, check), append(wrong, err)
		}
		for _, name := range []string{"CasADi + ipopt", "CasADi + fatrop", "CasADi + hpipm", "do-mpc"} {
			if p, ok := c.Peers[strings.TrimPrefix(name, "CasADi + ")]; ok {
				rec.Ratios = append(rec.Ratios, rows(e, name, p)...)
			}
		}
		if len(e.mapped) > 0 {
			rec.Ratios = append(rec.Ratios, rows(e, shootingName, shot(e))...)
		}
	}
	for _, m := range missing {
		fmt.Println("left out:", m)
	}
	if rec.Load, err = watch.End(); err != nil {
		return err
	}
	return errors.Join(append(wrong, rec.Write(o.out))...)
}

// of is the record of a check, with an error where it fails.
func (p *check) of(e episodes) (peerrecord.Check, error) {
	out := peerrecord.Check{Case: e.Name, Peer: p.Peer, Decisions: len(e.Decisions), Compared: -len(p.Stuck) - p.Lower, Lower: p.Lower, Worst: p.Worst}
	for _, d := range e.Decisions {
		if !d.solved {
			out.Unsolved++
		}
		if d.Solved {
			out.Compared++
			out.Above = math.Max(out.Above, (d.cost-d.Cost)/math.Abs(d.Cost))
		}
	}
	fmt.Printf("%s: %d decisions, %d without a solution of ours; of %d optima those of %s differ by up to %.1e from ours; in %d more it ends lower; plans as timed cost up to %.1e more\n", e.Name, out.Decisions, out.Unsolved, out.Compared, p.Peer, p.Worst, p.Lower, out.Above)
	var wrong []error
	for _, s := range p.Stuck {
		wrong = append(wrong, fmt.Errorf("%s does not converge from our plan: %s", p.Peer, s))
	}
	if !(p.Unlike <= sameFunction) {
		wrong = append(wrong, fmt.Errorf("%s: the equations of %s differ from ours by up to %.1e", e.Name, p.Peer, p.Unlike))
	}
	if !(p.Worst <= sameOptimum) {
		wrong = append(wrong, fmt.Errorf("%s: costs of %s differ from ours by up to %.1e of them", e.Name, p.Peer, p.Worst))
	}
	return out, errors.Join(wrong...)
}

// ask has the peers decide.
func ask(python string, given []episodes) (missing []string, found []compared, err error) {
	folder, err := os.MkdirTemp("", "peers")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(folder)
	if err := os.CopyFS(folder, scripts); err != nil {
		return nil, nil, err
	}
	in, out := filepath.Join(folder, "decisions.json"), filepath.Join(folder, "times.json")
	text, err := json.Marshal(map[string]any{"tolerance": tolerance, "basin": basin, "systems": given})
	if err != nil {
		return nil, nil, err
	}
	if err := os.WriteFile(in, text, 0o600); err != nil {
		return nil, nil, err
	}
	command := exec.Command(python, filepath.Join(folder, "mpc_casadi.py"), in, out)
	command.Env = append(os.Environ(), "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1")
	command.Stderr = os.Stderr
	if err := command.Run(); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", python, err)
	}
	if text, err = os.ReadFile(out); err != nil {
		return nil, nil, err
	}
	var answer struct {
		Missing []string   `json:"missing"`
		Systems []compared `json:"systems"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, nil, err
	}
	if len(answer.Systems) != len(given) {
		return nil, nil, fmt.Errorf("%s: %d systems, want %d", python, len(answer.Systems), len(given))
	}
	return answer.Missing, answer.Systems, nil
}

// rows are a peer's, one for each percentile.
func rows(e episodes, name string, p peer) []peerrecord.Ratio {
	var out []peerrecord.Ratio
	fmt.Printf("  %-15s %d without a solution, %d with a lower cost than ours, %d with a higher one\n", name, p.Unsolved, p.Lower, p.Higher)
	type op struct {
		name    string
		ours    []float64
		first   bool
		percent int
	}
	ours := make([]float64, len(e.Decisions))
	for i, d := range e.Decisions {
		ours[i] = d.us
	}
	ops := []op{{"warm p50", ours, false, 50}, {"warm p99", ours, false, 99}, {"cold p50", ours, true, 50}}
	if name == shootingName {
		ops = nil
	}
	for _, m := range e.mapped {
		ops = append(ops, op{m.method + " p50", m.us, false, 50}, op{m.method + " p99", m.us, false, 99})
	}
	for _, op := range ops {
		all := ratio(e.Decisions, op.ours, p.Times, op.first, op.percent)
		all.Op, all.Peer, all.Lo, all.Hi = op.name, name, math.Inf(1), 0
		all.Case, all.Decisions, all.Unsolved, all.Lower, all.Higher = fmt.Sprintf("%s, %d steps", e.Name, e.Steps), len(e.Decisions), p.Unsolved, p.Lower, p.Higher
		for at := 0; at < len(e.Decisions); at += e.each {
			r := ratio(e.Decisions[at:at+e.each], op.ours[at:at+e.each], p.Times[at:at+e.each], op.first, op.percent).Ratio
			all.Lo, all.Hi = math.Min(all.Lo, r), math.Max(all.Hi, r)
		}
		out = append(out, all)
		fmt.Printf("  %-15s %s: ours %.1f µs, theirs %.0f µs, ratio %.1f [%.1f, %.1f]\n", name, op.name, all.OursUS, all.PeerUS, all.Ratio, all.Lo, all.Hi)
	}
	return out
}

// ratio is that of a percentile of the first decisions of episodes or of the others.
func ratio(decisions []decision, ours, theirs []float64, first bool, percent int) peerrecord.Ratio {
	var a, b []float64
	for i, d := range decisions {
		if d.First == first {
			a, b = append(a, ours[i]), append(b, theirs[i])
		}
	}
	slices.Sort(a)
	slices.Sort(b)
	x, y := a[(len(a)-1)*percent/100], b[(len(b)-1)*percent/100]
	return peerrecord.Ratio{Batch: 1, Ratio: y / x, OursUS: x, PeerUS: y}
}

// drive is our closed loops of a system.
func drive(y equations.System, l loop, seed uint64) (episodes, error) {
	var solvers [2]*ocp.Receding
	var c domain.Case
	var err error
	for i, tolerance := range []float64{exact, tolerance} {
		y.Solver.Tolerance = tolerance
		if c, err = y.Case(); err != nil {
			return episodes{}, err
		}
		if solvers[i], err = c.Solver.(*ocp.Solver).Receding(0, 0); err != nil {
			return episodes{}, err
		}
	}
	optimum, controller := solvers[0], solvers[1]
	spec, scale := c.Problem.Spec(), c.Problem.(*equations.Problem).StateScale()
	e := episodes{Name: y.Name, Steps: y.Steps, Contexts: spec.ContextSize(), StateScale: scale, Rest: make([]float64, spec.ActionSize()), each: l.decisions}
	for _, a := range spec.Action {
		e.ActionLo, e.ActionHi = append(e.ActionLo, a.Lo), append(e.ActionHi, a.Hi)
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for range l.episodes {
		at, s, ctx := make([]float64, len(y.Scenario)), make([]float64, len(y.State)), make([]float64, spec.ContextSize())
		domain.DrawScenario(rng, y.Scenario, at)
		y.Initial(at, s, ctx)
		c.Problem.Fallback(s, ctx, e.Rest)
		w := 0.1 + 0.8*rng.Float64()
		pref := domain.Preference{W: []float64{w, 1 - w}}
		controller.Reset()
		for k := range l.decisions {
			began := machine.Microseconds(thread.CPU())
			status, err := controller.Solve(s, ctx, y.Steps, pref)
			took := machine.Microseconds(thread.CPU()) - began
			if err != nil {
				return episodes{}, fmt.Errorf("decision %d: %w", k, err)
			}
			d := decision{First: k == 0, Weights: pref.W, us: took, cost: status.Cost, solved: status.Converged && status.Violation <= tolerance}
			var plan []float64
			for t := range y.Steps {
				plan = append(plan, controller.Action(t)...)
			}
			optimum.Begin(plan)
			if status, err = optimum.Solve(s, ctx, y.Steps, pref); err != nil {
				return episodes{}, fmt.Errorf("decision %d: %w", k, err)
			}
			from := optimum
			d.Solved, d.Cost = status.Converged && status.Violation <= tolerance, status.Cost
			if !d.Solved || math.Abs(d.cost-d.Cost) > basin*math.Abs(d.Cost) {
				from, d.Solved, d.Cost = controller, d.solved, d.cost
			}
			for t := range y.Steps + 1 {
				x, c := from.State(t)
				d.States, d.Contexts = append(d.States, slices.Clone(x)), append(d.Contexts, slices.Clone(c))
				if t < y.Steps {
					d.Plan = append(d.Plan, slices.Clone(from.Action(t)))
				}
			}
			e.Decisions = append(e.Decisions, d)
			sn, cn := make([]float64, len(s)), make([]float64, len(ctx))
			c.Problem.Step(s, ctx, controller.Action(0), sn, cn)
			for i := range sn {
				sn[i] += l.noise * scale[i] * rng.NormFloat64()
			}
			s, ctx = sn, cn
		}
	}
	return e, nil
}
