// Command ptxreport executes the launches of a step, a training update, a refinement and a
// decision of many loops on the interpreter of PTX, and writes a table of what each kernel did:
//
//	go run ./lab/ptxreport -case integrator-convex -batch 64
//
// With -executed it says which entries of the images tests have launched (lab/run test-ptx).
//
// Nothing of this is a time: counts of instructions and of requests to memory hold for any
// device.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"os"
	"slices"

	"github.com/gpc-engine/gpc/bench"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/examples/gallery"
	gallerymodels "github.com/gpc-engine/gpc/examples/gallery/models"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/kernels"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/kernels/ptx"
	"github.com/gpc-engine/gpc/kernels/ptx/device"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/paper"
	"github.com/gpc-engine/gpc/paper/models"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("ptxreport: ")
	name := flag.String("case", "size:opf30", "a registered case, or size:CASE for its sizes alone")
	batch := flag.Int("batch", 64, "rows")
	tf32 := flag.Bool("tf32", false, "products on tensor cores")
	worst := flag.Int("worst", 3, "costly accesses to name for each kernel")
	lines := flag.String("launches", "", "add a line with the instructions of every launch of a step and a training update to this `file`, and print no table")
	jobs := flag.Bool("jobs", false, "with -launches: those of a refinement and of a decision of many loops instead")
	names := flag.String("executed", "", "compare this file of names of launched kernels with the entries of all images instead")
	flag.Parse()
	if flag.NArg() > 0 || *batch < 1 {
		log.Printf("%d arguments, batch %d: want none, at least 1", flag.NArg(), *batch)
		os.Exit(2)
	}
	var err error
	switch {
	case *names != "":
		err = executed(os.Stdout, *names)
	case *lines != "":
		err = launches(*lines, *name, *batch, *tf32, *jobs)
	default:
		err = run(*name, *batch, *tf32, func(of string, counts []*ptx.Counts) error {
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

// tracer is a backend that counts the traced call of an operation without what made it ready.
type tracer struct {
	*kernels.Backend
	device *device.Device
}

// Trace implements backend.Tracer.
func (t *tracer) Trace(calls int, prepare, call func() error) ([]backend.Launch, error) {
	return t.Backend.Trace(calls, prepare, func() error {
		t.device.Forget()
		return call()
	})
}

// interpreted is the backend on the interpreter with the sizes of an H100 or H200: by these it chooses kernels and tiles.
func interpreted(d *device.Device, tf32 bool) (*kernels.Backend, error) {
	d.SetAttribute(driver.Multiprocessors, 132)
	d.SetAttribute(driver.SharedPerBlockOptin, 227<<10)
	d.SetMemory(32 << 30)
	opened, err := driver.Open(d, 0)
	if err != nil {
		return nil, err
	}
	return kernels.New(opened, kernels.Options{TF32: tf32})
}

// run executes the operations of one case and hands each one's counts to show.
func run(name string, batch int, tf32 bool, show func(of string, counts []*ptx.Counts) error) (err error) {
	d := device.New(ptx.Options{Count: true, Tolerate: true})
	b, err := interpreted(d, tf32)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	var failed error
	seen := ""
	opt := bench.Options{
		Ops: []string{"kernels"}, Case: name, Batches: []int{batch}, Seed: 1, Cases: cases(), Model: bundled,
		Report: func(r bench.Result) {
			if r.Launch.Of == seen || failed != nil {
				return
			}
			seen = r.Launch.Of
			failed = show(seen, d.Counts())
		},
	}
	_, err = bench.Run(context.Background(), &tracer{Backend: b, device: d}, nil, opt)
	return errors.Join(err, failed)
}

// cases are the paper's and the gallery's.
func cases() []domain.Case {
	list := slices.Clone(paper.Cases().Cases)
	for _, y := range gallery.Systems() {
		c, err := y.Case()
		if err != nil {
			log.Fatal(err)
		}
		list = append(list, c)
	}
	return list
}

// bundled is the map of a case that the program carries.
func bundled(c domain.Case) (*model.Model, error) {
	name := c.Problem.Spec().Name + ".safetensors"
	text, err := models.Bundled.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		text, err = gallerymodels.Bundled.ReadFile(name)
	}
	if err != nil {
		return nil, err
	}
	return model.Read(bytes.NewReader(text))
}
