package report

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"sync"

	"github.com/gpc-engine/gpc/bench"
	"github.com/gpc-engine/gpc/lab/peerrecord"
)

// What a launch takes, from the instructions of its warps and constants that were measured on an H200 and an H100
// (docs/results/gpu.md): an issue rate by the warps that a multiprocessor holds, the gap of a launch, and what two
// events add. No constant belongs to one kernel; a launch that the forecast misses is listed with its reason
// (forecast_test.go). It is beside the limits of bench.Launch, which nothing can beat.

const (
	// eventsUS is what a launch between two events takes beside what the profiler says of the kernel: 3 to 5 µs of
	// seven kernels that both timed. The first event has passed while the host still queues the kernel.
	eventsUS = 4
	// gapUS is that of a node of a captured graph whose kernel reads and writes, 1.0 to 1.5 µs.
	gapUS = 1.25
	// issueMost are the instructions that a multiprocessor issues in a cycle at most, of 4: 2.33 with two blocks of
	// 256 threads, 2.61 with more.
	issueMost  = 2.33
	issueDense = 2.61
	denseWarps = 20
	// Cycles between two instructions of one warp, where it waits for its own operands alone: 4 where they come
	// from registers and shared memory, 11 where weights come straight from the second-level cache (279 cycles a
	// read, several under way), 8 where every instruction is executed once and its text is read first.
	stagedCycles              = 4
	streamedCycles            = 11
	onceCycles                = 8
	barrierCycles             = 40  // of a block of 256 threads
	policyCycles              = 7   // a roll-out whose networks come from shared memory in part
	missedCycles              = 100 // an access to local memory that the first-level cache has no room for
	sharedOfSM                = 227 << 10
	multiprocessors, clockMHz = 132, 1980
	mostWarps                 = 64
	firstLevel                = 256 << 10 // bytes that shared memory and the cache have together
	rowSectors                = 64        // bytes of local memory that eight rows of a block touch for each of a thread: a sector of eight lanes each
)

// executed are the instructions that the interpreter of PTX counted in the launches of a step and a training update at
// OPF size, for 132 multiprocessors, with the kernels of commit 0f862059. They belong to the records of that commit: make
// count-launches writes those of other kernels, together with a new record. Until then a kernel that was changed since
// is forecast as it was.
//
//go:embed launches.jsonl
var executed []byte

// CountedLaunch is a launch with the instructions that its warps executed. One of a whole job has its shape besides, which no record has.
type CountedLaunch struct {
	Operation    string  `json:"of"`
	Place        int     `json:"place"`
	Batch        int     `json:"batch"`
	TF32         bool    `json:"tf32"`
	Kernel       string  `json:"kernel"`
	Instructions float64 `json:"instructions"`
	Barriers     float64 `json:"barriers"` // of blocks

	Case   string  `json:"case,omitempty"`
	Chain  float64 `json:"chain,omitempty"` // through the slowest block
	Blocks int     `json:"blocks,omitempty"`
	Block  int     `json:"block,omitempty"`
	Shared int     `json:"shared,omitempty"`
	Local  float64 `json:"local,omitempty"` // instructions of these
	Frame  int     `json:"frame,omitempty"` // bytes of local memory that a thread has
}

type launchKey struct {
	operation, kernel string
	place, batch      int
	tf32              bool
}

var countedLaunches = sync.OnceValue(func() map[launchKey]CountedLaunch {
	all := map[launchKey]CountedLaunch{}
	for _, c := range decoded(executed) {
		all[launchKey{c.Operation, c.Kernel, c.Place, c.Batch, c.TF32}] = c
	}
	return all
})

// decoded are the launches of a file.
func decoded(lines []byte) (list []CountedLaunch) {
	for decoder := json.NewDecoder(bytes.NewReader(lines)); ; {
		var c CountedLaunch
		if decoder.Decode(&c) != nil {
			return list
		}
		list = append(list, c)
	}
}

// jobs are the launches of whole jobs, counted with the kernels of commit 5debd95c (lab/run count-jobs): Case 1, opf30 and a robot's view with 4096 candidates or
// loops, a step and updates of opf30's size, systems of equations with 256 candidates, which have the same rounds.
//
//go:embed jobs.jsonl
var jobs []byte

// JobForecast is what a whole job's launches take one behind the other, ms. 0: it was not counted.
func JobForecast(j peerrecord.Counted) (ms float64) {
	for _, c := range launchesOfJobs() {
		if c.Case == j.Case && c.Operation == j.Of && c.Batch == j.Rows {
			ms += c.forecast() / 1e3
		}
	}
	return ms * float64(j.Times)
}

var launchesOfJobs = sync.OnceValue(func() []CountedLaunch { return decoded(jobs) })

// countedSize is the size whose launches were counted.
const countedSize = "z 32, hidden 256, s 60, u 12"

// Forecast is what a row's launch takes between two events, µs, on an H200 or H100 of 132 multiprocessors at 1980 MHz;
// 0 elsewhere, and where its instructions were not counted.
func Forecast(r *bench.Result) float64 {
	l := r.Launch
	if l == nil || r.ISA != "sm_90" || r.Threads != multiprocessors || r.Size != countedSize {
		return 0
	}
	c, ok := countedLaunches()[launchKey{l.Of, l.Kernel, l.Place, r.Batch, r.Precision == "tf32"}]
	if !ok {
		return 0
	}
	c.Shaped(l)
	return eventsUS + c.forecast()
}

// Shaped takes the shape of a launch that bench lists.
func (c *CountedLaunch) Shaped(l *bench.Launch) {
	c.Blocks, c.Block, c.Shared = max(1, l.Grid[0])*max(1, l.Grid[1]), l.Block, l.Shared
}

// forecast is a launch's time in a graph, µs.
func (c *CountedLaunch) forecast() float64 {
	blocks, warps := float64(c.Blocks), math.Ceil(float64(c.Block)/32)
	units := math.Min(blocks, multiprocessors)
	// Blocks of a multiprocessor at once: as many as there are, and as fit.
	blocksAtOnce := math.Min(math.Ceil(blocks/units), math.Floor(mostWarps/warps))
	blocksAtOnce = math.Min(blocksAtOnce, math.Max(1, math.Floor(65536/(registersOf(c.Kernel)*float64(c.Block)))))
	if c.Shared > 0 {
		blocksAtOnce = math.Min(blocksAtOnce, math.Max(1, math.Floor(float64(sharedOfSM)/float64(c.Shared+1024))))
	}
	resident := blocksAtOnce * warps
	most := issueMost
	if resident >= denseWarps {
		most = issueDense
	}
	each := warpCycles(c.Kernel, c.Instructions/(blocks*warps))
	if strings.Contains(c.Kernel, "_policy_") {
		if each = stagedCycles; c.Shared > 200<<10 {
			each = policyCycles
		}
		shared := min(c.Shared, max(sharedOfSM/2, firstLevel-rowSectors*c.Frame)) // kernels.sharedRoom
		if footprint := rowSectors * c.Frame; footprint > firstLevel-shared {
			each += missedCycles * c.Local / c.Instructions * (1 - float64(firstLevel-shared)/float64(footprint))
		}
	}
	// The multiprocessor with the most blocks is waited for, and in it the slowest block.
	busiest := math.Ceil(blocks / units)
	cycles := c.Instructions / blocks * busiest / math.Min(most, resident/each)
	cycles = math.Max(cycles, c.Chain*each*math.Ceil(busiest/blocksAtOnce))
	return gapUS + (cycles+barrierCycles*c.Barriers/blocks*busiest/blocksAtOnce)/clockMHz
}

// warpCycles are the cycles between two instructions of a warp that executes so many.
func warpCycles(kernel string, instructions float64) float64 {
	switch {
	case strings.Contains(kernel, "_tf32") || strings.HasPrefix(kernel, "gpc_one_") || strings.HasSuffix(kernel, "_1"):
		return streamedCycles
	case instructions < 1000: // less than the text of the kernel
		return onceCycles
	}
	return stagedCycles
}

// registersOf are the registers of a thread, as lab/run count-kernels has them.
func registersOf(kernel string) float64 {
	for _, k := range []struct {
		prefix    string
		registers float64
	}{
		{"gpc_mlp_forward_1", 64}, {"gpc_mlp_vjp_1", 64}, {"gpc_mlp_", 128}, {"gpc_jacobian_", 128}, {"gpc_eig_32", 64}, {"gpc_domain_policy_", 255},
		{"gpc_train_forward", 168}, {"gpc_train_backward", 168}, {"gpc_train_gradient", 168}, {"gpc_domain_gradient_quadratic_60_12", 96},
	} {
		if strings.HasPrefix(kernel, k.prefix) {
			return k.registers
		}
	}
	return 32
}

// withForecasts lays results out as bench.Rows does, launches with what they take by Forecast and what part of it they took.
func withForecasts(results []bench.Result) [][]string {
	rows := bench.Rows(results)
	if len(results) == 0 || results[0].Launch == nil {
		return rows
	}
	rows[0] = append(rows[0], "forecast µs", "p50 / forecast")
	i := 1
	for k := range results {
		r := &results[k]
		if r.Launch == nil {
			continue
		}
		forecast, ratio := "–", "–"
		if f := Forecast(r); f > 0 {
			forecast = fmt.Sprintf("%.1f", f)
			if r.Calls > 0 {
				ratio = fmt.Sprintf("%.2f", r.P50/f)
			}
		}
		rows[i] = append(rows[i], forecast, ratio)
		i++
	}
	return rows
}
