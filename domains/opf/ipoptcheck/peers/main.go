//go:build ipopt

// Command peers times AC optimal power flows by package acopf beside IPOPT and,
// where Octave and MATPOWER are at hand, beside MATPOWER's own interior point
// solver MIPS, in one run on one machine:
//
//	go run -tags ipopt ./domains/opf/ipoptcheck/peers --out bench/results/NAME/peers-opf.json
//	    [--matpower DIR] [--rounds 7] [--cases case9,case30]
//
// Every round times every solver on every case; a ratio is the median over rounds
// of (peer's time / ours), with the least and the largest. Every solver starts
// flat with the file's cost, on one thread, and must reach the optimum to 1e-6.
// Times are CPU times of a solve alone: other work on the machine does not stretch
// them, and what each solver analyses once per network is not counted, nor is
// Octave's start.
// --matpower is a checkout of github.com/MATPOWER/matpower.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/google/renameio/v2"
	"github.com/klauspost/cpuid/v2"

	"github.com/gpc-engine/gpc/domains/opf/acopf"
	"github.com/gpc-engine/gpc/domains/opf/ipoptcheck"
	"github.com/gpc-engine/gpc/domains/opf/network"
	"github.com/gpc-engine/gpc/internal/version"
	"github.com/gpc-engine/gpc/matpower/cases"
)

// ratio is one line of the record: how many times longer the peer takes.
type ratio struct {
	Op     string  `json:"op"`
	Case   string  `json:"case"`
	Peer   string  `json:"peer"`
	Batch  int     `json:"batch"`
	Ratio  float64 `json:"ratio"`
	Lo     float64 `json:"lo"`
	Hi     float64 `json:"hi"`
	OursUS float64 `json:"ours_us"`
	PeerUS float64 `json:"peer_us"`
}

type record struct {
	Device string  `json:"device"`
	Commit string  `json:"commit"`
	Ratios []ratio `json:"ratios"`
}

func main() {
	out := flag.String("out", "", "file to write; standard output when empty")
	matpower := flag.String("matpower", "", "folder of a MATPOWER checkout; no MIPS rows without it")
	rounds := flag.Int("rounds", 7, "how often every solver is timed on every case")
	names := flag.String("cases", strings.Join(cases.Names(), ","), "cases, with commas between them")
	flag.Parse()
	if *rounds < 1 {
		fmt.Fprintln(os.Stderr, "peers: --rounds: want 1 or more")
		os.Exit(2)
	}
	if err := run(*out, *matpower, strings.Split(*names, ","), *rounds); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

// batch is how many problems our batched row solves in one call.
const batch = 64

// timed are the microseconds a solve takes, by round.
type timed struct{ single, batched, ipopt, mips []float64 }

func run(out, matpower string, names []string, rounds int) error {
	times := map[string]*timed{}
	for range rounds {
		for _, name := range names {
			t := times[name]
			if t == nil {
				t = &timed{}
				times[name] = t
			}
			objective, err := t.ours(name)
			if err != nil {
				return err
			}
			if err := t.withIPOPT(name, objective); err != nil {
				return err
			}
			if matpower == "" {
				continue
			}
			if err := t.withMIPS(matpower, name, objective); err != nil {
				return err
			}
		}
	}
	r := record{Device: cpuid.CPU.BrandName, Commit: version.Build()}
	for _, name := range names {
		t := times[name]
		for _, peer := range []struct {
			name  string
			times []float64
		}{{"IPOPT 3.11 with MUMPS", t.ipopt}, {"MATPOWER MIPS in Octave", t.mips}} {
			if peer.times != nil {
				r.Ratios = append(r.Ratios, compare(name, peer.name, 1, t.single, peer.times), compare(name, peer.name, batch, t.batched, peer.times))
			}
		}
	}
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if out == "" {
		_, err = os.Stdout.Write(text)
		return err
	}
	return renameio.WriteFile(out, text, 0o644)
}

func compare(name, peer string, batch int, ours, theirs []float64) ratio {
	ratios := make([]float64, len(ours))
	for k := range ratios {
		ratios[k] = theirs[k] / ours[k]
	}
	return ratio{Op: "opf", Case: name, Peer: peer, Batch: batch, Ratio: median(ratios), Lo: slices.Min(ratios), Hi: slices.Max(ratios),
		OursUS: median(ours), PeerUS: median(theirs)}
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

func load(name string) (*network.Network, error) {
	c, err := cases.Read(name)
	if err != nil {
		return nil, err
	}
	return network.New(c)
}

// repeat calls solve for a fifth of a second, five times at least, and returns
// the mean of its CPU times in microseconds.
func repeat(solve func() error) (float64, error) {
	before, err := cpuTime()
	if err != nil {
		return 0, err
	}
	count := 0
	for start := time.Now(); count < 5 || time.Since(start) < 200*time.Millisecond; count++ {
		if err := solve(); err != nil {
			return 0, err
		}
	}
	after, err := cpuTime()
	return float64(after-before) / 1e3 / float64(count), err
}

// cpuTime is what the process has computed so far.
func cpuTime() (time.Duration, error) {
	var u syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), err
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
	objective := 0.0
	for _, size := range []int{1, batch} {
		problems, results := make([]acopf.Problem, size), make([]acopf.Result, size)
		us, err := repeat(func() error {
			if err := s.Solve(context.Background(), problems, results); err != nil {
				return err
			}
			if results[size-1].Status != acopf.Optimal {
				return fmt.Errorf("%s: acopf ends with %v", name, results[size-1].Status)
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
		objective = results[0].Objective
		if size == 1 {
			t.single = append(t.single, us)
		} else {
			t.batched = append(t.batched, us/batch)
		}
	}
	return objective, nil
}

func agree(name, peer string, theirs, ours float64) error {
	if !(math.Abs(theirs-ours) <= 1e-6*math.Abs(ours)) {
		return fmt.Errorf("%s: %s finds %.9g, acopf %.9g", name, peer, theirs, ours)
	}
	return nil
}

func (t *timed) withIPOPT(name string, objective float64) error {
	n, err := load(name)
	if err != nil {
		return err
	}
	p, err := ipoptcheck.New(n, &acopf.Problem{}, ipoptcheck.Default)
	if err != nil {
		return err
	}
	defer p.Close()
	us, err := repeat(func() error {
		s := p.Solve()
		if !s.Optimal {
			return fmt.Errorf("%s: IPOPT ends with status %d", name, s.Status)
		}
		return agree(name, "IPOPT", s.Objective, objective)
	})
	t.ipopt = append(t.ipopt, us)
	return err
}

// mips is what Octave runs: three solves after one that warms up, by MATPOWER's
// older core, which is the faster one.
const mips = `addpath('%[1]s/lib','%[1]s/mips/lib','%[1]s/mp-opt-model/lib','%[1]s/mptest/lib');
mpc = loadcase('%[2]s');
mpopt = mpoption('out.all', 0, 'verbose', 0, 'opf.ac.solver', 'MIPS', 'opf.start', 1, 'exp.use_legacy_core', 1);
runopf(mpc, mpopt);
for k = 1:3
  t = cputime; r = runopf(mpc, mpopt); t = cputime - t;
  printf('%%.9f %%.12g %%d\n', 1e6*t, r.f, r.success);
end
`

func (t *timed) withMIPS(matpower, name string, objective float64) error {
	dir, err := os.MkdirTemp("", "peers")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	text, err := cases.Text(name)
	if err != nil {
		return err
	}
	file := filepath.Join(dir, name+".m")
	if err := os.WriteFile(file, text, 0o644); err != nil {
		return err
	}
	script := filepath.Join(dir, "time_mips.m")
	if err := os.WriteFile(script, fmt.Appendf(nil, mips, matpower, file), 0o644); err != nil {
		return err
	}
	cmd := exec.Command("octave-cli", "--norc", "--quiet", script)
	cmd.Env = append(os.Environ(), "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1")
	var log bytes.Buffer
	cmd.Stderr = &log
	printed, err := cmd.Output()
	var us []float64
	for line := range strings.Lines(string(printed)) {
		f := strings.Fields(line)
		if len(f) != 3 || f[2] != "1" {
			return fmt.Errorf("%s: MATPOWER printed %q", name, line)
		}
		took, errTime := strconv.ParseFloat(f[0], 64)
		value, errValue := strconv.ParseFloat(f[1], 64)
		if errTime != nil || errValue != nil {
			return fmt.Errorf("%s: MATPOWER printed %q", name, line)
		}
		if err := agree(name, "MIPS", value, objective); err != nil {
			return err
		}
		us = append(us, took)
	}
	// Octave may fail while it exits, after all is done.
	if len(us) != 3 {
		return fmt.Errorf("%s: octave-cli: %v: %s", name, err, log.String())
	}
	t.mips = append(t.mips, slices.Min(us))
	return nil
}
