package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/cpuid/v2"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/grid/formats"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/internal/machine"
	"github.com/gpc-engine/gpc/internal/version"
	"github.com/gpc-engine/gpc/lab/peerrecord"
)

// Networks of PGLib that are compared: typical ones of so many buses.
const leastBuses, mostBuses = 118, 10000

// How a network is timed: in up to mostRounds rounds, until IPOPT has taken enoughOfIPOPT. So many
// problems are solved side by side, of largeNetwork buses or more a quarter.
const (
	mostRounds    = 3
	enoughOfIPOPT = 20 * time.Second
	largeNetwork  = 2000
)

// sameOptimum is the largest relative difference of objectives that are one.
const sameOptimum = 1e-5

// pglib compares with IPOPT on networks of PGLib.
type pglib struct {
	folder, out string
	count       int           // networks
	limit       time.Duration // of one solve by IPOPT, CPU time
	flops       float64       // of the machine in a second, at most: float64 multiply-adds of one thread
}

// rival is IPOPT on one network.
type rival interface {
	// solve starts flat, again with the analysis of the last solve.
	solve(again bool) (ending, error)
	// factor is one numeric factorisation near an optimum.
	factor(at *acopf.Result) (factorisation, error)
	close()
}

// ending is a solve by IPOPT.
type ending struct {
	us, objective, derivatives float64 // CPU time, and the share of it in functions and derivatives
	acceptable, failed         bool    // solved to what IPOPT calls acceptable, or not solved
}

// factorisation is the CPU time of one by MUMPS, its operations, and the CPU time of the analysis before it, µs.
type factorisation struct{ us, flops, analysis float64 }

// choose takes networks by their numbers of buses alone: of all in the folder that are in question,
// in the order of their sizes and names, so many in equal steps, the first and the last among them.
func choose(folder string, count int) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(folder, "pglib_opf_case*.m"))
	if err != nil {
		return nil, err
	}
	buses := func(path string) int {
		n, _ := strconv.Atoi(regexp.MustCompile(`[0-9]+`).FindString(filepath.Base(path)))
		return n
	}
	files = slices.DeleteFunc(files, func(path string) bool {
		n := buses(path)
		return strings.Contains(filepath.Base(path), "__") || n < leastBuses || n > mostBuses
	})
	if len(files) < count {
		return nil, fmt.Errorf("the folder %s has %d typical networks of %d to %d buses, want %d", folder, len(files), leastBuses, mostBuses, count)
	}
	slices.SortFunc(files, func(a, b string) int { return cmp.Or(buses(a)-buses(b), cmp.Compare(a, b)) })
	chosen := make([]string, count)
	for i := range chosen {
		chosen[i] = files[i*(len(files)-1)/max(1, count-1)]
	}
	return chosen, nil
}

// run compares network after network and keeps the record up to date after each; one that was begun
// by the same program goes on.
func (y *pglib) run() error {
	paths, err := choose(y.folder, y.count)
	if err != nil {
		return err
	}
	r, err := y.record()
	if err != nil {
		return err
	}
	continued := len(r.Ratios) > 0
	watch, err := machine.Begin(machine.Limit{})
	if err != nil {
		return err
	}
	if err := y.ceiling(); err != nil {
		return err
	}
	for i, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".m")
		if slices.ContainsFunc(r.Ratios, func(v peerrecord.Ratio) bool { return v.Case == name }) {
			continue
		}
		rows, err := y.network(path)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		r.Ratios = append(r.Ratios, rows...)
		if r.Load, err = watch.End(); err != nil {
			return err
		}
		if r.Load != nil {
			r.Load.Partial = continued
		}
		if y.out != "" {
			if err := r.Write(y.out); err != nil {
				return err
			}
		}
		fmt.Fprintf(os.Stderr, "[%d/%d] %s\n", i+1, len(paths), said(rows))
	}
	fmt.Fprintln(os.Stderr, means(r.Ratios))
	if y.out == "" {
		return r.Write("")
	}
	return nil
}

// record is a new one, or the one that was begun.
func (y *pglib) record() (*peerrecord.Record, error) {
	r := &peerrecord.Record{Device: cpuid.CPU.BrandName, Commit: version.Build(), Note: fmt.Sprintf(
		"CPU time of one thread from a flat start, medians of up to %d alternating rounds. A first solve has the analysis of the network in it; another one keeps it, in IPOPT by its option `warm_start_same_structure`, with which MUMPS still analyses its matrix anew. Reading the file and writing the problem down are left out on both sides. `gpc` ends at 1e-8 and balances of 1e-9 pu, IPOPT at its default of 1e-8 on a scaled problem, in at most %v a solve. A factorisation of ours has the assembly of the matrix in it.",
		mostRounds, y.limit)}
	if y.out == "" {
		return r, nil
	}
	old, err := peerrecord.Read(y.out)
	switch {
	case err != nil:
		return nil, err
	case old == nil:
		return r, nil
	case old.Commit != r.Commit || old.Note != r.Note:
		return nil, fmt.Errorf("%s: build %s wrote it in another way than this program, build %s: remove the file, or name another", y.out, old.Commit, r.Commit)
	}
	return old, nil
}

// ceiling measures the machine.
func (y *pglib) ceiling() error {
	e, err := gpc.OpenEngine(engine.Options{Backend: "cpu", Threads: 1})
	if err != nil {
		return err
	}
	for range 3 {
		single, _ := e.Ceiling()
		y.flops = max(y.flops, single/2)
	}
	return e.Close()
}

// network compares on one network.
func (y *pglib) network(path string) ([]peerrecord.Ratio, error) {
	n, err := readNetwork(path)
	if err != nil {
		return nil, err
	}
	other, err := newRival(n, y.limit)
	if err != nil {
		return nil, err
	}
	defer other.close()
	together := batch
	if n.Buses() >= largeNetwork {
		together /= 4
	}
	var ours timed
	var first, theirs, theirsAgain []float64
	var s *acopf.Solver
	var optimum *acopf.Result
	var end, again ending
	for spent := 0.0; len(first) == 0 || len(first) < mostRounds && spent < float64(enoughOfIPOPT.Microseconds()) && !end.failed; spent += end.us {
		fresh, us, r, err := firstSolve(n)
		if err != nil {
			return nil, err
		}
		if first = append(first, us); len(first) == 1 {
			s, optimum = fresh, r
		}
		if end, err = other.solve(false); err != nil {
			return nil, err
		}
		theirs = append(theirs, end.us)
		if optimum.Status != acopf.Optimal {
			break
		}
		least := min(2*len(first)-1, 3) // one call of the first round, whose widths are made before
		if _, err := ours.solve(n.Name, s, 1, least); err != nil {
			return nil, err
		}
		if _, err := ours.solve(n.Name, s, together, 1); err != nil {
			return nil, err
		}
		if end.failed {
			break
		}
		if again, err = other.solve(true); err != nil {
			return nil, err
		}
		theirsAgain = append(theirsAgain, again.us)
	}
	rows := []peerrecord.Ratio{compare(peerrecord.OpFirst, n.Name, 1, first, theirs, optimum, end)}
	if !rows[0].Solved() {
		return rows, nil
	}
	rows = append(rows, compare(peerrecord.OpAgain, n.Name, 1, ours.single, theirsAgain, optimum, again), compare(peerrecord.OpAgain, n.Name, together, ours.batched, theirsAgain, optimum, again))
	factors, err := y.factors(n.Name, s, other, optimum, together)
	return append(rows, factors...), err
}

// firstSolve analyses a network and solves it, and gives the mean CPU time of both.
func firstSolve(n *network.Network) (s *acopf.Solver, us float64, r *acopf.Result, err error) {
	results := make([]acopf.Result, 1)
	us, err = repeat(1, func() error {
		var err error
		if s, err = acopf.New(n, acopf.Options{Threads: 1, Dispatchable: network.DispatchablePlain}); err != nil {
			return err
		}
		return s.Solve(context.Background(), make([]acopf.Problem, 1), results)
	})
	return s, us, &results[0], err
}

// compare is the row of a network: without a ratio where either has no optimum, and marked where IPOPT's costs otherwise than ours.
func compare(op, name string, problems int, ours, theirs []float64, optimum *acopf.Result, end ending) peerrecord.Ratio {
	row := peerrecord.Compare(op, name, rivalName(), problems, ours, theirs)
	row.Decisions, row.PeerDerivatives = 1, end.derivatives
	if end.failed {
		row.Unsolved = 1
	}
	if optimum.Status != acopf.Optimal {
		row.OursUnsolved = 1
	}
	if !row.Solved() {
		row.Ratio, row.Lo, row.Hi = 0, 0, 0
		return row
	}
	if end.acceptable {
		row.Acceptable = 1
	}
	switch above := (end.objective - optimum.Objective) / math.Abs(optimum.Objective); {
	case above > sameOptimum:
		row.Higher = 1
	case above < -sameOptimum:
		row.Lower = 1
	}
	return row
}

// factors compares one numeric factorisation, ours alone and side by side with its assembly.
func (y *pglib) factors(name string, s *acopf.Solver, other rival, at *acopf.Result, together int) ([]peerrecord.Ratio, error) {
	theirs, err := other.factor(at)
	if err != nil {
		return nil, err
	}
	rate := func(flops, us float64) float64 { return flops / (us * 1e-6) / y.flops }
	var rows []peerrecord.Ratio
	for _, problems := range []int{1, together} {
		f := s.NewFactorisation(problems)
		took := func(run func()) float64 {
			us, _ := repeat(5, func() error { run(); return nil })
			return us / float64(f.Lanes)
		}
		factor := took(f.Factor)
		row := peerrecord.Compare(peerrecord.OpFactor, name, "MUMPS", problems, []float64{took(f.Assemble) + factor}, []float64{theirs.us})
		row.OursShare, row.PeerShare = rate(f.Flops, factor), rate(theirs.flops, theirs.us)
		row.PeerAnalysisUS = theirs.analysis
		rows = append(rows, row)
	}
	return rows, nil
}

func readNetwork(path string) (*network.Network, error) {
	c, err := formats.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return network.New(c)
}

// said is a network's rows in a line.
func said(rows []peerrecord.Ratio) string {
	words := []string{rows[0].Case + ":"}
	for _, v := range rows {
		how := fmt.Sprintf("%s × %d %.4g ms, %s %.4g ms: %.3g times;", v.Op, v.Batch, v.OursUS/1e3, v.Peer, v.PeerUS/1e3, v.Ratio)
		if v.OursShare > 0 {
			how += fmt.Sprintf(" %.2g of the ceiling, the peer %.2g;", v.OursShare, v.PeerShare)
		}
		if !v.Solved() {
			how = fmt.Sprintf("%s × %d %.4g ms, %s %.4g ms, without an optimum: by the peer %d, by us %d;", v.Op, v.Batch, v.OursUS/1e3, v.Peer, v.PeerUS/1e3, v.Unsolved, v.OursUnsolved)
		}
		words = append(words, how)
	}
	return strings.TrimSuffix(strings.Join(words, " "), ";")
}

// means are the geometric means of the ratios.
func means(rows []peerrecord.Ratio) string {
	var parts []string
	for _, op := range []string{peerrecord.OpFirst, peerrecord.OpAgain, peerrecord.OpFactor} {
		for _, alone := range []bool{true, false} {
			if mean, n := peerrecord.Mean(rows, op, alone); n > 0 {
				parts = append(parts, fmt.Sprintf("%s, alone %v: %.3g times in the geometric mean of %d", op, alone, mean, n))
			}
		}
	}
	return strings.Join(parts, "; ")
}
