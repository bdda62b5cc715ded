//go:build linux

// Command peers-mpc times decisions of a receding horizon by package shooting beside CasADi
// with IPOPT, with fatrop, and with its SQP method on HPIPM, in one run on one machine:
//
//	go run ./bench/peers/mpc --out bench/results/NAME/peers-mpc.json
//	    [--python build/peers-mpc/bin/python] [--episodes 5] [--noise 0.02] [--seed 991]
//
// Episodes of a pole on a cart, 40 steps ahead, are driven by our plans with noise on both
// speeds. Every solver then decides in the same states, each from its own decision before,
// and an episode's first from nothing. Times are CPU times of one thread. At every state
// IPOPT, started at our plan with a tolerance of 1e-10, must find no cost that differs from
// ours by more than 1e-6 of it.
package main

import (
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"unsafe"

	"github.com/klauspost/cpuid/v2"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/peerrecord"
	"github.com/gpc-engine/gpc/internal/testdomain"
	"github.com/gpc-engine/gpc/internal/version"
	"github.com/gpc-engine/gpc/offline/shooting"
)

//go:embed mpc_casadi.py
var script []byte

type options struct {
	out, python string
	episodes    int
	noise       float64
	seed        uint64
}

func main() {
	var o options
	flag.StringVar(&o.out, "out", "", "file to write; standard output when empty")
	flag.StringVar(&o.python, "python", "build/peers-mpc/bin/python", "a Python with casadi")
	flag.IntVar(&o.episodes, "episodes", 5, "of 40 decisions each")
	flag.Float64Var(&o.noise, "noise", 0.02, "standard deviation on both speeds, m/s and rad/s")
	flag.Uint64Var(&o.seed, "seed", 991, "of the episodes")
	flag.Parse()
	if o.episodes < 1 || !(o.noise >= 0) {
		fmt.Fprintln(os.Stderr, "peers: want --episodes of 1 or more and --noise of 0 or more")
		os.Exit(2)
	}
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

// decision is one state with what we made of it.
type decision struct {
	First     bool        `json:"first"` // of an episode
	State     []float64   `json:"state"`
	Reference float64     `json:"reference"`
	Weights   []float64   `json:"weights"`
	Cost      float64     `json:"cost"`
	Plan      [][]float64 `json:"plan"`   // [40][1]
	States    [][]float64 `json:"states"` // [41][4]
	US        float64     `json:"us"`
}

// tolerance of the scaled optimality conditions, ours and the peers'.
const tolerance = 1e-6

func run(o options) error {
	decisions, err := drive(o)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "peers")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	in, out, program := filepath.Join(folder, "decisions.json"), filepath.Join(folder, "times.json"), filepath.Join(folder, "mpc_casadi.py")
	text, err := json.Marshal(map[string]any{"tolerance": tolerance, "decisions": decisions})
	if err != nil {
		return err
	}
	if err := os.WriteFile(in, text, 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(program, script, 0o600); err != nil {
		return err
	}
	command := exec.Command(o.python, program, in, out)
	command.Env = append(os.Environ(), "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1")
	command.Stderr = os.Stderr
	if err := command.Run(); err != nil {
		return fmt.Errorf("%s: %w", o.python, err)
	}
	var peers struct {
		Missing []string `json:"missing"`
		// Worst is the largest relative difference of IPOPT's cost from ours.
		Worst float64              `json:"worst"`
		Times map[string][]float64 `json:"times_us"` // of every decision
		// Failed are decisions without a solution, Lower and Higher those that ended in
		// a better or a worse basin than ours.
		Failed, Lower, Higher map[string]int
	}
	if text, err = os.ReadFile(out); err != nil {
		return err
	}
	if err := json.Unmarshal(text, &peers); err != nil {
		return err
	}
	if !(peers.Worst <= 1e-6) {
		return fmt.Errorf("IPOPT's costs differ from ours by up to %.1e of them", peers.Worst)
	}
	rec := peerrecord.Record{
		Device: fmt.Sprintf("%s, %d threads", cpuid.CPU.BrandName, runtime.NumCPU()), Commit: version.Commit, Missing: peers.Missing,
		Note: fmt.Sprintf("CPU times of one thread; %d decisions of %d episodes, seed %d, noise %g; ratios of percentiles, with the least and the largest of an episode. IPOPT from our plans finds our costs to %.1e.", len(decisions), o.episodes, o.seed, o.noise, peers.Worst),
	}
	for _, peer := range []string{"ipopt", "fatrop", "hpipm"} {
		theirs := peers.Times[peer]
		if len(theirs) == 0 {
			continue
		}
		fmt.Printf("%-7s %d of %d decisions without a solution, %d with a lower cost than ours, %d with a higher one\n", peer, peers.Failed[peer], len(decisions), peers.Lower[peer], peers.Higher[peer])
		for _, op := range []struct {
			name    string
			first   bool
			percent int
		}{{"warm p50", false, 50}, {"warm p99", false, 99}, {"cold p50", true, 50}} {
			all := ratio(decisions, theirs, op.first, op.percent)
			all.Op, all.Peer, all.Lo, all.Hi = op.name, "CasADi + "+peer, math.Inf(1), 0
			for at := 0; at < len(decisions); at += testdomain.PoleSteps {
				r := ratio(decisions[at:at+testdomain.PoleSteps], theirs[at:at+testdomain.PoleSteps], op.first, op.percent).Ratio
				all.Lo, all.Hi = math.Min(all.Lo, r), math.Max(all.Hi, r)
			}
			rec.Ratios = append(rec.Ratios, all)
			fmt.Printf("%-7s %s: ours %.0f µs, theirs %.0f µs, ratio %.1f [%.1f, %.1f]\n", peer, op.name, all.OursUS, all.PeerUS, all.Ratio, all.Lo, all.Hi)
		}
	}
	return rec.Write(o.out)
}

// ratio is that of a percentile of the first decisions of episodes or of the others.
func ratio(decisions []decision, theirs []float64, first bool, percent int) peerrecord.Ratio {
	var a, b []float64
	for i, d := range decisions {
		if d.First == first {
			a, b = append(a, d.US), append(b, theirs[i])
		}
	}
	slices.Sort(a)
	slices.Sort(b)
	x, y := a[(len(a)-1)*percent/100], b[(len(b)-1)*percent/100]
	return peerrecord.Ratio{Case: "pole, 40 steps", Batch: 1, Ratio: y / x, OursUS: x, PeerUS: y}
}

// drive is our closed loops.
func drive(o options) ([]decision, error) {
	solver, err := shooting.New(testdomain.Pole{}, testdomain.PoleAxes, func(p, s, c []float64) {
		copy(s, p[:4])
		c[0], c[1] = p[4], 0
	}, shooting.Options{StateScale: []float64{1, 1, 0.3, 1}, Tolerance: tolerance})
	if err != nil {
		return nil, err
	}
	controller, err := solver.Receding(shooting.RecedingOptions{})
	if err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(o.seed, 1))
	var out []decision
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for range o.episodes {
		s, c := testdomain.PoleStart(rng)
		w := rng.Float64()
		pref := domain.Preference{W: []float64{w, 1 - w}}
		controller.Reset()
		for k := range testdomain.PoleSteps {
			began := cpuMicroseconds()
			status, err := controller.Solve(s, c, testdomain.PoleSteps, pref)
			took := cpuMicroseconds() - began
			if err != nil {
				return nil, err
			}
			if !status.Converged || status.Violation > tolerance {
				return nil, fmt.Errorf("decision %d from %v ends with %+v", k, s, status)
			}
			d := decision{First: k == 0, State: slices.Clone(s), Reference: c[0], Weights: pref.W, Cost: status.Cost, US: took}
			for t := range testdomain.PoleSteps + 1 {
				x, _ := controller.State(t)
				d.States = append(d.States, slices.Clone(x))
				if t < testdomain.PoleSteps {
					d.Plan = append(d.Plan, slices.Clone(controller.Action(t)))
				}
			}
			out = append(out, d)
			sn, cn := make([]float64, 4), make([]float64, 2)
			testdomain.Pole{}.Step(s, c, controller.Action(0), sn, cn)
			sn[1] += o.noise * rng.NormFloat64()
			sn[3] += o.noise * rng.NormFloat64()
			s, c = sn, cn
		}
	}
	return out, nil
}

// cpuMicroseconds is the CPU time of this thread.
func cpuMicroseconds() float64 {
	const threadCPUTime = 3
	var t syscall.Timespec
	if _, _, e := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, threadCPUTime, uintptr(unsafe.Pointer(&t)), 0); e != 0 {
		panic(e)
	}
	return float64(t.Nano()) / 1e3
}
