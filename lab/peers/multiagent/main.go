//go:build linux

// Command peers-multiagent times the roll-out of joint plans by package rollout beside the same
// in PyTorch, in one run on one machine:
//
//	go run ./lab/peers/multiagent --out lab/results/NAME/peers-multiagent.json
//	    [--python build/peers/bin/python] [--device cpu|cuda] [--candidates 4096] [--rounds 15]
//
// Every round times each of them once, one after the other; a ratio is that of the
// least times, with the smallest and largest ratio of a round. On a CPU both have one
// thread and times are CPU times, so that other work on the machine does not stretch
// them; on a GPU ours is the wall time of a call, with plans in and results out, and
// PyTorch's that of its kernels, on data that is there. Costs, margins and derivatives
// of both must agree.
package main

import (
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/klauspost/cpuid/v2"

	"github.com/gpc-engine/gpc/internal/machine"
	"github.com/gpc-engine/gpc/internal/simd/isa"
	"github.com/gpc-engine/gpc/internal/testing/thread"
	"github.com/gpc-engine/gpc/internal/version"
	"github.com/gpc-engine/gpc/kernels"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/lab/peerrecord"
	"github.com/gpc-engine/gpc/paper/multiagent/rollout"
	"github.com/gpc-engine/gpc/paper/multiagent/rollout/rollouttest"
)

//go:embed rollout_torch.py
var script []byte

const (
	robots = 6
	discs  = 15
	steps  = 8
)

type options struct {
	out, python, device string
	candidates, rounds  int
}

func main() {
	var o options
	flag.StringVar(&o.out, "out", "", "file to write; standard output when empty")
	flag.StringVar(&o.python, "python", "build/peers/bin/python", "a Python with torch")
	flag.StringVar(&o.device, "device", "cpu", "cpu or cuda")
	flag.IntVar(&o.candidates, "candidates", 4096, "of the batch")
	flag.IntVar(&o.rounds, "rounds", 15, "how often each is timed")
	flag.Parse()
	if o.rounds < 1 || o.candidates < 1 || o.device != "cpu" && o.device != "cuda" {
		fmt.Fprintln(os.Stderr, "peers: want --rounds and --candidates of 1 or more, and --device cpu or cuda")
		os.Exit(2)
	}
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

// ours is one of our evaluators and what it is called.
type ours struct {
	name  string
	v     rollout.Evaluator
	cuda  bool
	plans []float32
}

func run(o options) error {
	watch, err := machine.Begin(machine.Limit{})
	if err != nil {
		return err
	}
	problem := rollouttest.Joint(rand.New(rand.NewPCG(5, 6)), "peers", robots, discs, steps)
	plans := problem.Draw(rand.New(rand.NewPCG(7, 8)), o.candidates)
	folder, err := os.MkdirTemp("", "peers")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	if err := write(folder, problem.Problem, plans, o.candidates); err != nil {
		return err
	}
	mine, device, err := evaluators(o, problem, plans)
	if err != nil {
		return err
	}
	rec := peerrecord.Record{Device: device, Commit: version.Commit, Note: "Both in one run; least CPU times of one thread, of interleaved rounds."}
	if o.device == "cuda" {
		rec.Note = "Both in one run; least times of interleaved rounds: ours the wall time of a call with its copies, PyTorch's that of its kernels."
	}
	results, slopes := make([]rollout.Result, rollout.Blocks(o.candidates)), make([]float32, len(plans))
	for _, mode := range []string{"eager", "compiled"} {
		peer, err := start(o, folder, mode)
		if err != nil {
			return err
		}
		for _, m := range mine {
			if err := m.v.Evaluate(problem.Problem, nil, m.plans, o.candidates, results, slopes); err != nil {
				return err
			}
			if err := agree(folder, results, slopes, o.candidates); err != nil {
				return fmt.Errorf("%s and PyTorch: %w", m.name, err)
			}
		}
		for _, op := range []string{"cost", "gradient"} {
			out, title := []float32(nil), "roll-out"
			if op == "gradient" {
				out, title = slopes, "roll-out with derivatives"
			}
			times := make([][]float64, len(mine)+1)
			for range o.rounds {
				for i, m := range mine {
					t, err := m.seconds(func() error { return m.v.Evaluate(problem.Problem, nil, m.plans, o.candidates, results, out) })
					if err != nil {
						return err
					}
					times[i] = append(times[i], t)
				}
				t, err := peer.seconds(op)
				if err != nil {
					return err
				}
				times[len(mine)] = append(times[len(mine)], t)
			}
			theirs := times[len(mine)]
			for i, m := range mine {
				r := peerrecord.Ratio{
					Op: title, Case: fmt.Sprintf("%d robots, %d discs, H %d (%s)", robots, discs, steps, m.name), Peer: "PyTorch " + peer.version + ", " + mode, Batch: o.candidates,
					OursUS: 1e6 * slices.Min(times[i]), PeerUS: 1e6 * slices.Min(theirs), Lo: math.Inf(1),
				}
				r.Ratio = r.PeerUS / r.OursUS
				for k, t := range theirs {
					r.Lo, r.Hi = math.Min(r.Lo, t/times[i][k]), math.Max(r.Hi, t/times[i][k])
				}
				rec.Ratios = append(rec.Ratios, r)
				fmt.Fprintf(os.Stderr, "%s, %s: ours %.0f µs, %s %.0f µs, ratio %.1f [%.1f, %.1f]\n", r.Op, m.name, r.OursUS, r.Peer, r.PeerUS, r.Ratio, r.Lo, r.Hi)
			}
		}
		if err := peer.End(); err != nil {
			return err
		}
	}
	if rec.Load, err = watch.End(); err != nil {
		return err
	}
	return rec.Write(o.out)
}

// evaluators are ours: every instruction set but the plain one, or the GPU.
func evaluators(o options, p rollouttest.Problem, plans []float32) (all []ours, device string, err error) {
	if o.device == "cpu" {
		for _, level := range isa.Available() {
			if level != isa.Generic {
				all = append(all, ours{name: level.String(), v: rollout.NewProcessor(rollout.On(level)), plans: plans})
			}
		}
		if len(all) == 0 {
			all = append(all, ours{name: "Go", v: rollout.NewProcessor(rollout.On(isa.Generic)), plans: plans})
		}
		return all, cpuid.CPU.BrandName, nil
	}
	library, err := driver.Find("")
	if err != nil {
		return nil, "", err
	}
	context, err := driver.Open(library, 0)
	if err != nil {
		return nil, "", err
	}
	b, err := kernels.New(context, kernels.Options{})
	if err != nil {
		return nil, "", err
	}
	v, err := rollout.NewDevice(b)
	if err != nil {
		return nil, "", err
	}
	own, err := v.Plans(p.Problem, o.candidates)
	if err != nil {
		return nil, "", err
	}
	copy(own, plans)
	return []ours{{name: "CUDA", v: v, cuda: true, plans: own[:len(plans)]}}, context.Device().Name, nil
}

// seconds is the CPU time of a call on one thread, or its wall time on a GPU.
func (m *ours) seconds(f func() error) (float64, error) {
	if m.cuda {
		begin := time.Now()
		err := f()
		return time.Since(begin).Seconds(), err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	begin := thread.CPU()
	err := f()
	return (thread.CPU() - begin).Seconds(), err
}

// write leaves the problem and the plans for the script.
func write(folder string, j *rollout.Joint, plans []float32, candidates int) error {
	p := map[string]any{
		"dt": j.Robots[0].Dt[0], "v_lo": j.Robots[0].VLo[0], "v_hi": j.Robots[0].VHi[0], "reach": rollout.Reach,
		"effort": j.Robots[0].Effort[0], "smooth": j.Robots[0].Smooth[0], "safety": j.Penalty.Exp[0], "violation": j.Penalty.Square[0],
	}
	var start, previous, goal, weight, pair [][]float32
	var around [][][][]float32
	for i := range j.Robots {
		m := &j.Robots[i]
		start = append(start, []float32{m.X[0], m.Y[0], float32(math.Atan2(float64(m.Sin[0]), float64(m.Cos[0]))), m.V[0]})
		previous = append(previous, []float32{m.A[0], m.Omega[0]})
		goal = append(goal, []float32{m.GoalX[0], m.GoalY[0]})
		weight = append(weight, j.Goal[i])
		row := make([]float32, len(j.Robots))
		for k := range row {
			if k > i {
				row[k] = j.Pair[k][i]
			}
		}
		pair = append(pair, row)
		of := make([][][]float32, j.Steps)
		for k := range of {
			for d := range j.Count {
				at := (k*j.Count + d) * rollout.DiscFields
				of[k] = append(of[k], j.Discs[i][at:at+rollout.DiscFields])
			}
		}
		around = append(around, of)
	}
	p["start"], p["previous"], p["goal"], p["goal_weight"], p["pair"], p["discs"] = start, previous, goal, weight, pair, around
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	rows := make([]float32, 0, candidates*robots*steps*rollout.PlanFields)
	const size = robots * steps * rollout.PlanFields
	for i := range candidates {
		for e := range size {
			rows = append(rows, plans[(i/rollout.Lanes*size+e)*rollout.Lanes+i%rollout.Lanes])
		}
	}
	binary := unsafe.Slice((*byte)(unsafe.Pointer(&rows[0])), 4*len(rows))
	for name, text := range map[string][]byte{"problem.json": text, "plans.f32": binary, "rollout_torch.py": script} {
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// agree compares our results with those that the script left, to what float32 gives.
func agree(folder string, results []rollout.Result, slopes []float32, candidates int) error {
	text, err := os.ReadFile(filepath.Join(folder, "result.f32"))
	if err != nil {
		return err
	}
	const size = robots * steps * rollout.PlanFields
	if len(text) != 4*candidates*(2+size) {
		return fmt.Errorf("a result of %d bytes for %d candidates", len(text), candidates)
	}
	theirs := unsafe.Slice((*float32)(unsafe.Pointer(&text[0])), len(text)/4)
	apart := func(a, b, scale float32) bool { return !(math.Abs(float64(a-b)) <= 1e-3*math.Max(1, float64(scale))) }
	for i := range candidates {
		r, l := &results[i/rollout.Lanes], i%rollout.Lanes
		if apart(r.Cost[l], theirs[i], theirs[i]) || apart(r.Low[l], theirs[candidates+i], 1) {
			return fmt.Errorf("candidate %d: cost %v and margin %v, PyTorch has %v and %v", i, r.Cost[l], r.Low[l], theirs[i], theirs[candidates+i])
		}
		other := theirs[2*candidates+i*size:][:size]
		largest := slices.Max(other) - slices.Min(other)
		for e, w := range other {
			if g := slopes[(i/rollout.Lanes*size+e)*rollout.Lanes+l]; apart(g, w, largest) {
				return fmt.Errorf("candidate %d: derivative %d is %v, PyTorch has %v", i, e, g, w)
			}
		}
	}
	return nil
}

// peer is the running script.
type peer struct {
	*peerrecord.Process
	version string
}

func start(o options, folder, mode string) (*peer, error) {
	process, err := peerrecord.StartProcess(nil, o.python, filepath.Join(folder, "rollout_torch.py"), folder, o.device, "1", mode)
	if err != nil {
		return nil, fmt.Errorf("%s (lab/run peers-multiagent installs it): %w", o.python, err)
	}
	text, err := process.Next()
	if err != nil {
		return nil, err
	}
	var ready struct {
		Torch string `json:"torch"`
	}
	err = json.Unmarshal([]byte(text), &ready)
	return &peer{process, ready.Torch}, err
}

func (p *peer) seconds(op string) (float64, error) {
	text, err := p.Ask(op)
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(strings.TrimSpace(text), 64)
}
