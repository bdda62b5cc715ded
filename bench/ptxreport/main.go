// Command ptxreport executes the launches of a step, a training update, a refinement and a
// decision of many loops on the interpreter of PTX, and writes what each kernel did: a table
// for one case, and with -record the counts of all cases as a record, from which -page writes
// what a GPU needs at least into docs/contribute/notebook/cuda-kernels.md.
//
//	go run ./bench/ptxreport -case integrator-convex -batch 64
//	go run ./bench/ptxreport -record bench/ptxreport/counts.json
//	go run ./bench/ptxreport -page docs/contribute/notebook/cuda-kernels.md
//
// With -executed it says which entries of the images tests have launched (make test-ptx).
//
// Nothing of this is a time: counts of instructions and of requests to memory hold for any
// device, and how long they take on one is arithmetic that the page explains.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/bench"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/domains/paper"
	"github.com/gpc-engine/gpc/domains/paper/models"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/docsection"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/kernels"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/kernels/ptx"
	"github.com/gpc-engine/gpc/kernels/ptx/device"
	"github.com/gpc-engine/gpc/model"
)

// Record is the counts of one kernel of an operation.
type Record struct {
	Of           string            `json:"of"`
	Case         string            `json:"case"`
	Batch        int               `json:"batch"`
	Precision    string            `json:"precision"`
	Kernel       string            `json:"kernel"`
	Launches     int               `json:"launches"`
	OfOneCall    int               `json:"launches_of_one_call"` // the rest made ready
	Blocks       uint64            `json:"blocks"`
	Ran          uint64            `json:"ran"` // blocks executed; the counts are theirs
	Threads      int               `json:"threads"`
	Shared       int               `json:"shared_bytes"`
	Barriers     uint64            `json:"barriers"`
	Instructions map[string]uint64 `json:"instructions"` // of warps, by class
	Lanes        uint64            `json:"lanes"`
	Branches     uint64            `json:"branches"`
	Divergent    uint64            `json:"divergent"`
	Requests     uint64            `json:"shared_requests"`
	LeastShared  uint64            `json:"shared_requests_least"`
	Sectors      uint64            `json:"sectors"`
	LeastSectors uint64            `json:"sectors_least"`
}

// recorded are the cases of the page: each operation at full size.
var recorded = []struct {
	name  string
	batch int
	tf32  bool
}{
	{"size:opf30", 1, false}, {"size:opf30", 4096, false}, {"size:opf30", 4096, true},
	{"integrator-convex", 4096, false}, {"integrator-convex", 4096, true},
	{"integrator-nonconvex", 4096, false}, {"opf30", 4096, false}, {"opf30-uncertain", 4096, false},
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("ptxreport: ")
	name := flag.String("case", "size:opf30", "a registered case, or size:CASE for its sizes alone")
	batch := flag.Int("batch", 64, "rows")
	tf32 := flag.Bool("tf32", false, "products on tensor cores")
	only := flag.String("of", "", "the one operation to execute: step, train, refine or decide; empty: all")
	sample := flag.Int("sample", 0, "blocks of each launch of a step or decision to execute, spread evenly, a power of two; 0: all")
	worst := flag.Int("worst", 3, "costly accesses to name for each kernel")
	record := flag.String("record", "", "write the counts of all cases at full size to this file instead")
	page := flag.String("page", "", "write the section of this page from the record instead")
	names := flag.String("executed", "", "compare this file of names of launched kernels with the entries of all images instead")
	from := flag.String("from", "bench/ptxreport/counts.json", "the record that -page reads")
	flag.Parse()
	if flag.NArg() > 0 || *batch < 1 || *sample < 0 {
		log.Printf("%d arguments, batch %d, sample %d: want none, at least 1, at least 0", flag.NArg(), *batch, *sample)
		os.Exit(2)
	}
	wanted := func(of string) bool { return *only == "" || of == *only }
	var err error
	switch {
	case *names != "":
		err = executed(os.Stdout, *names)
	case *page != "":
		err = write(*page, *from)
	case *record != "":
		err = all(*record, *sample, wanted)
	default:
		err = run(*name, *batch, *tf32, *sample, wanted, func(of, _ string, counts []*ptx.Counts) error {
			fmt.Printf("\n%s of %d, %s\n\n", of, *batch, *name)
			if err := ptx.Report(os.Stdout, counts); err != nil {
				return err
			}
			for _, c := range counts {
				c.Worst(os.Stdout, *worst)
			}
			return nil
		})
	}
	if err != nil {
		log.Fatal(err)
	}
}

// all records the wanted operations of every case at full size, except those that the record
// has: the same command continues a record. A record of other images is to be removed first.
func all(path string, sample int, wanted func(of string) bool) error {
	list, err := read(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, c := range recorded {
		log.Printf("%s, %d rows, tf32 %v", c.name, c.batch, c.tf32)
		missing := func(of string) bool {
			return wanted(of) && !slices.ContainsFunc(list, func(r Record) bool {
				return r.Of == of && r.Case == c.name && r.Batch == c.batch && (r.Precision == "fp32") != c.tf32
			})
		}
		err := run(c.name, c.batch, c.tf32, sample, missing, func(of, precision string, counts []*ptx.Counts) error {
			log.Printf("%s", of)
			for _, k := range counts {
				list = append(list, record(of, c.name, c.batch, precision, k))
			}
			text, err := json.MarshalIndent(list, "", " ")
			if err != nil {
				return err
			}
			return durable.WriteFile(path, append(text, '\n'), 0o644)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// operations are what bench traces, in its order, and whether some blocks may stand for all
// where one is made ready and where it is called. The rows of a step do not meet, and an update
// does the same whatever its numbers are. A refinement goes by what all of its candidates cost,
// so it runs whole; decisions look at all codes, so decoding these beforehand does.
var operations = []struct {
	name           string
	ready, sampled bool
}{{"step", true, true}, {"train", false, true}, {"refine", false, false}, {"decide", false, true}}

// tracer is a backend that traces the operations that are wanted, and counts the call of
// each without what made it ready.
type tracer struct {
	*kernels.Backend
	device *device.Device
	sample int
	wanted func(of string) bool
	at     int
}

// Trace implements backend.Tracer.
func (t *tracer) Trace(calls int, prepare, call func() error) ([]backend.Launch, error) {
	op := operations[t.at]
	t.at++
	if !t.wanted(op.name) {
		return nil, nil
	}
	some := func(sampled bool, f func() error) error {
		if sampled {
			t.device.SetSample(t.sample)
			defer t.device.SetSample(0)
		}
		return f()
	}
	return t.Backend.Trace(calls, func() error { return some(op.ready, prepare) }, func() error {
		t.device.Forget()
		return some(op.sampled, call)
	})
}

// run executes the wanted operations of one case and hands each one's counts to show.
func run(name string, batch int, tf32 bool, sample int, wanted func(of string) bool, show func(of, precision string, counts []*ptx.Counts) error) (err error) {
	d := device.New(ptx.Options{Count: true, Tolerate: true})
	// As a PCIe or SXM card has them: by these a backend chooses kernels and tiles.
	d.SetAttribute(driver.Multiprocessors, multiprocessors)
	d.SetMemory(32 << 30)
	opened, err := driver.Open(d, 0)
	if err != nil {
		return err
	}
	b, err := kernels.New(opened, kernels.Options{TF32: tf32})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	precision := cmp.Or(b.Describe().Precision, "fp32")
	var failed error
	seen := ""
	opt := bench.Options{
		Ops: []string{"kernels"}, Case: name, Batches: []int{batch}, Seed: 1, Cases: paper.Cases().Cases, Model: bundled,
		Report: func(r bench.Result) {
			if r.Launch.Of == seen || failed != nil {
				return
			}
			seen = r.Launch.Of
			failed = show(seen, precision, d.Counts())
		},
	}
	_, err = bench.Run(context.Background(), &tracer{Backend: b, device: d, sample: sample, wanted: wanted}, nil, opt)
	return errors.Join(err, failed)
}

// record is the counts of a kernel as they are written down.
func record(of, name string, batch int, precision string, c *ptx.Counts) Record {
	s, g := c.Spaces["shared"], c.Spaces["global"]
	r := Record{
		Of: of, Case: name, Batch: batch, Precision: precision, Kernel: c.Kernel, Launches: c.Launches, OfOneCall: c.Launches, Blocks: c.Blocks, Ran: c.Ran,
		Threads: c.Threads, Shared: c.Shared, Barriers: c.Barriers, Instructions: map[string]uint64{}, Branches: c.Branches, Divergent: c.Divergent,
		Requests: s.Transactions, LeastShared: s.Minimal, Sectors: g.Transactions, LeastSectors: g.Minimal,
	}
	for i, n := range c.Warps {
		r.Lanes += c.Lanes[i]
		if n > 0 {
			r.Instructions[ptx.Class(i).String()] = n
		}
	}
	return r
}

// scale turns counts into those of all blocks of one call.
func (r Record) scale() float64 {
	return float64(r.Blocks) / float64(max(r.Ran, 1)) * float64(r.OfOneCall) / float64(max(r.Launches, 1))
}

// bundled is the map of a case that the program carries.
func bundled(c domain.Case) (*model.Model, error) {
	text, err := models.Bundled.ReadFile(c.Problem.Spec().Name + ".safetensors")
	if err != nil {
		return nil, err
	}
	return model.Read(bytes.NewReader(text))
}

// What an H200 does in a cycle on each multiprocessor (NVIDIA, CUDA C++ Programming Guide,
// compute capability 9.0, and the H100 architecture white paper).
const (
	multiprocessors = 132
	clock           = 1980.0 // MHz
	issue           = 4.0    // instructions of warps
	float32s        = 4.0    // of them in float32
	float64s        = 2.0
	products        = 1.0 // of 16×8×8 in TF32
	cacheBytes      = 64.0
	sector          = 32.0
)

// limits are what bounds a launch.
var limits = []string{"issue", "float32", "float64", "tensor", "shared memory", "cache"}

// bounds are the times in µs that the kernel's counts take at those rates: all, one beside
// the other, with what takes longest, or, if nothing overlaps, one after the other. Blocks not
// executed count as those that were, and launches before the call not at all.
func (r Record) bounds() (least float64, by string, sum float64) {
	var warps uint64
	for _, n := range r.Instructions {
		warps += n
	}
	units := float64(min(max(r.Blocks/uint64(max(r.Launches, 1)), 1), multiprocessors))
	scale := r.scale() / units / clock
	parts := []float64{
		float64(warps) / issue, float64(r.Instructions["float32"]) / float32s, float64(r.Instructions["float64"]) / float64s,
		float64(r.Instructions["tensor"]) / products, float64(r.Requests), float64(r.Sectors) * sector / cacheBytes,
	}
	most := slices.Max(parts)
	// Instructions are issued beside what their units do; memory may stand beside nothing.
	return most * scale, limits[slices.Index(parts, most)], (slices.Max(parts[:4]) + parts[4] + parts[5]) * scale
}

var section = docsection.Section{Begin: "<!-- begin counts of executed launches: make ptx-report -->", End: "<!-- end counts of executed launches -->"}

func read(path string) (list []Record, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return list, nil
}

// write makes the section of the page from the record.
func write(page, from string) error {
	list, err := read(from)
	if err != nil {
		return err
	}
	_, err = section.Replace(page, table(list)+"\n"+phases(list), true)
	return err
}

func table(list []Record) string {
	var s strings.Builder
	s.WriteString("| of | case | batch | precision | launches | instructions of warps, million | multiply-adds or products at their peak, µs | least µs | in sequence µs | lanes active | requests of shared memory, over the least | sectors, over the least |\n|---|---|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	type key struct {
		of, name, precision string
		batch               int
	}
	var order []key
	rows := map[key][]Record{}
	for _, r := range list {
		k := key{r.Of, r.Case, r.Precision, r.Batch}
		if rows[k] == nil {
			order = append(order, k)
		}
		rows[k] = append(rows[k], r)
	}
	for _, k := range order {
		var least, sum, warps, lanes, peak float64
		var requests, leastRequests, sectors, leastSectors float64
		launches := 0
		for _, r := range rows[k] {
			a, _, b := r.bounds()
			least, sum, launches = least+a, sum+b, launches+r.OfOneCall
			scale := r.scale()
			for _, n := range r.Instructions {
				warps += float64(n) * scale
			}
			lanes += float64(r.Lanes) * scale
			peak += scale * (float64(r.Instructions["float32"])/float32s + float64(r.Instructions["tensor"])/products) / multiprocessors / clock
			requests += scale * float64(r.Requests)
			leastRequests += scale * float64(r.LeastShared)
			sectors += scale * float64(r.Sectors)
			leastSectors += scale * float64(r.LeastSectors)
		}
		over := func(n, least float64) string {
			if least == 0 {
				return "–"
			}
			return fmt.Sprintf("×%.2f", n/least)
		}
		fmt.Fprintf(&s, "| %s | `%s` | %d | %s | %d | %.3g | %.0f | %.0f | %.0f | %.0f %% | %s | %s |\n", k.of, k.name, k.batch, k.precision, launches, warps/1e6, peak, least, sum,
			100*lanes/(32*warps), over(requests, leastRequests), over(sectors, leastSectors))
	}
	return s.String()
}
