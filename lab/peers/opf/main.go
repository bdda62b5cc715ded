// Command peers-opf times AC optimal power flows by package acopf beside IPOPT (build
// tag ipopt) and beside MATPOWER's own interior point solver MIPS in Octave, in one
// run on one machine:
//
//	go run -tags ipopt ./lab/peers/opf --out lab/results/NAME/peers-opf.json
//	    [--matpower DIR] [--rounds 7] [--cases case9,case30]
//
// With --pglib FOLDER it compares with IPOPT alone, on networks of PGLib-OPF that are chosen by their
// sizes, and one numeric factorisation with MUMPS'; the same command goes on with a record that was begun.
//
// A peer that is not at hand is one line on standard error and one in the record;
// without any there is nothing to record.
//
// Every round times every solver on every case; a ratio is the median over rounds
// of (peer's time / ours), with the least and the largest. Every solver starts
// flat with the file's cost, on one thread, and must reach the optimum to 1e-6.
// Times are CPU times of a solve alone: other work on the machine does not stretch
// them, and what each solver analyses once per network is not counted, nor is
// Octave's start.
// --matpower is MATPOWER's folder, the one with lib, mips and mp-opt-model in it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	"github.com/klauspost/cpuid/v2"

	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/grid/matpower/cases"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/internal/machine"
	"github.com/gpc-engine/gpc/internal/version"
	"github.com/gpc-engine/gpc/lab/peerrecord"
)

// peer is another program: microseconds of a solve of a case, and the optimum it
// found.
type peer struct {
	name string
	time func(name string) (us, objective float64, err error)
}

func main() {
	out := flag.String("out", "", "file to write; standard output when empty")
	matpower := flag.String("matpower", "", "folder of a MATPOWER checkout; no MIPS rows without it")
	rounds := flag.Int("rounds", 7, "how often every solver is timed on every case")
	names := flag.String("cases", strings.Join(cases.Names(), ","), "cases, with commas between them")
	many := pglib{}
	flag.StringVar(&many.folder, "pglib", "", "folder of PGLib-OPF's files: compare on networks of it instead")
	flag.IntVar(&many.count, "networks", 20, "how many of them")
	flag.DurationVar(&many.limit, "limit", 5*time.Minute, "CPU time of IPOPT for one solve of them")
	flag.Parse()
	if err := onOneThread(); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
	if *rounds < 1 {
		fmt.Fprintln(os.Stderr, "peers: --rounds: want 1 or more")
		os.Exit(2)
	}
	if many.folder != "" && (many.count < 2 || many.limit < time.Second) {
		fmt.Fprintln(os.Stderr, "peers: --networks: want 2 or more; --limit: want 1s or more")
		os.Exit(2)
	}
	compare := func() error { return run(*out, *matpower, strings.Split(*names, ","), *rounds) }
	if many.out = *out; many.folder != "" {
		compare = many.run
	}
	if err := compare(); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

// batch is how many problems our batched row solves in one call.
const batch = 64

// timed are the microseconds a solve takes, by round; of peers, by peer.
type timed struct {
	single, batched []float64
	peers           [][]float64
}

func run(out, matpower string, names []string, rounds int) error {
	watch, err := machine.Begin(machine.Limit{})
	if err != nil {
		return err
	}
	r := peerrecord.Record{Device: cpuid.CPU.BrandName, Commit: version.Build()}
	var peers []peer
	for _, find := range []func() (peer, error){findIPOPT, func() (peer, error) { return findMIPS(matpower) }} {
		p, err := find()
		if err != nil {
			fmt.Fprintln(os.Stderr, "peers: no rows for", err)
			r.Missing = append(r.Missing, err.Error())
			continue
		}
		peers = append(peers, p)
	}
	if len(peers) == 0 {
		return errors.New("no other program is at hand to be compared with")
	}
	times := map[string]*timed{}
	for _, name := range names {
		times[name] = &timed{peers: make([][]float64, len(peers))}
	}
	for range rounds {
		for _, name := range names {
			t := times[name]
			ours, err := t.ours(name)
			if err != nil {
				return err
			}
			for k, p := range peers {
				us, theirs, err := p.time(name)
				if err != nil {
					return err
				}
				if !(math.Abs(theirs-ours) <= 1e-6*math.Abs(ours)) {
					return fmt.Errorf("%s: %s finds %.9g, acopf %.9g", name, p.name, theirs, ours)
				}
				t.peers[k] = append(t.peers[k], us)
			}
		}
	}
	for _, name := range names {
		t := times[name]
		for k, p := range peers {
			r.Ratios = append(r.Ratios, peerrecord.Compare("opf", name, p.name, 1, t.single, t.peers[k]), peerrecord.Compare("opf", name, p.name, batch, t.batched, t.peers[k]))
		}
	}
	if r.Load, err = watch.End(); err != nil {
		return err
	}
	return r.Write(out)
}

func load(name string) (*network.Network, error) {
	c, err := cases.Read(name)
	if err != nil {
		return nil, err
	}
	return network.New(c)
}

// repeat calls solve for a fifth of a second, so many times at least, and returns
// the mean of its CPU times in microseconds.
func repeat(least int, solve func() error) (float64, error) {
	before := machine.CPUTime()
	count := 0
	for start := time.Now(); count < least || time.Since(start) < 200*time.Millisecond; count++ {
		if err := solve(); err != nil {
			return 0, err
		}
	}
	return float64(machine.CPUTime()-before) / 1e3 / float64(count), nil
}

// ours times acopf, one problem and a batch a call, and returns the optimum.
func (t *timed) ours(name string) (float64, error) {
	n, err := load(name)
	if err != nil {
		return 0, err
	}
	s, err := acopf.New(n, acopf.Options{Threads: 1})
	if err != nil {
		return 0, err
	}
	if _, err = t.solve(name, s, 1, 5); err != nil {
		return 0, err
	}
	r, err := t.solve(name, s, batch, 5)
	if err != nil {
		return 0, err
	}
	return r.Objective, nil
}

// solve times so many problems a call, by so many calls at least, and returns the optimum.
func (t *timed) solve(name string, s *acopf.Solver, size, least int) (*acopf.Result, error) {
	problems, results := make([]acopf.Problem, size), make([]acopf.Result, size)
	solve := func() error {
		if err := s.Solve(context.Background(), problems, results); err != nil {
			return err
		}
		if r := &results[size-1]; r.Status != acopf.Optimal {
			return fmt.Errorf("%s: acopf ends with %v", name, r.Status)
		}
		return nil
	}
	if len(t.single)+len(t.batched) < 2 { // the first call of a width makes what later ones have
		if err := solve(); err != nil {
			return nil, err
		}
	}
	us, err := repeat(least, solve)
	if err != nil {
		return nil, err
	}
	if size == 1 {
		t.single = append(t.single, us)
	} else {
		t.batched = append(t.batched, us/float64(size))
	}
	return &results[0], nil
}
